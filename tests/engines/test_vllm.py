"""vLLM's streams, answers and metrics page: bytes recorded of vLLM 0.32.0 on a CPU, and lines in its form.

The streams of `recorded/vllm-0.32.0.json` are of a tiny model with random weights; ``client`` is what the engine said
to the request, ``engine`` what it said when usage and ids were asked for too; only the time of creation is made 1.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from evenstep.engines.dialects.vllm import VLLM
from evenstep.engines.requests.bodies import upstream
from evenstep.engines.requests.parsing import read_request
from evenstep.engines.requests.refusals import of_engine
from evenstep.engines.streams.answers import read_answer
from evenstep.engines.streams.reply import ReplyStream
from evenstep.errors import EngineError

PAGE = b"""# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 12.0
vllm:num_requests_running{engine="1",model_name="tiny"} 0.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="tiny"} 3.0
vllm:num_requests_waiting{engine="1",model_name="tiny"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 3.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.5079365079365079
vllm:kv_cache_usage_perc{engine="1",model_name="tiny"} 0.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="tiny"} 1200.0
vllm:generation_tokens_total{engine="1",model_name="tiny"} 0.0
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="32",cache_dtype="auto",enable_prefix_caching="True",engine="0",kv_cache_size_tokens="2048",num_gpu_blocks="64"} 1.0
vllm:cache_config_info{block_size="32",cache_dtype="auto",enable_prefix_caching="True",engine="1",kv_cache_size_tokens="2048",num_gpu_blocks="64"} 1.0
"""


def test_each_rank_is_read_and_the_null_block_is_no_room():
    first, second = VLLM().samples(PAGE)
    assert (first.rank, first.running, first.waiting) == (0, 12, 3)
    assert first.kv_capacity == 63 * 32
    assert first.kv_tokens == pytest.approx(32 * 32)
    assert (second.rank, second.running, second.kv_tokens) == (1, 0, 0)


def test_its_prefix_cache_counters_are_read_where_it_has_them():
    assert all(math.isnan(one.prefix_queried) and math.isnan(one.prefix_hit) for one in VLLM().samples(PAGE))
    page = PAGE + (
        b'vllm:prefix_cache_queries_total{engine="1",model_name="tiny"} 1.5e+06\n'
        b'vllm:prefix_cache_hits_total{engine="1",model_name="tiny"} 1200064.0\n'
        b'vllm:external_prefix_cache_queries_total{engine="1",model_name="tiny"} 9.0\n'
    )
    first, second = VLLM().samples(page)
    assert (second.prefix_queried, second.prefix_hit) == (1_500_000, 1_200_064)
    assert math.isnan(first.prefix_queried)


def test_without_a_cache_config_the_capacity_is_unknown():
    page = b"".join(line for line in PAGE.splitlines(keepends=True) if b"cache_config" not in line)
    first = VLLM().samples(page)[0]
    assert first.kv_capacity == math.inf and math.isnan(first.kv_tokens)


def test_the_older_name_of_the_usage_is_known():
    older, newer = VLLM().samples(PAGE.replace(b"kv_cache_usage", b"gpu_cache_usage")), VLLM().samples(PAGE)
    assert repr(older) == repr(newer)  # a nan equals no other


@pytest.mark.parametrize("name", [b"num_requests_running", b"num_requests_waiting", b"kv_cache_usage_perc"])
def test_a_page_that_lacks_a_line_is_the_engines_error(name):
    page = b"".join(line for line in PAGE.splitlines(keepends=True) if name + b"{" not in line)
    with pytest.raises(EngineError, match=f"vllm:{name.decode()} of rank 0 is missing"):
        VLLM().samples(page)


def test_a_page_of_something_else_has_no_ranks():
    with pytest.raises(EngineError, match="num_requests_running"):
        VLLM().samples(b"<html></html>")


@pytest.mark.parametrize(
    ("version", "off", "chat_from_ids"),
    [
        ("", "absent", True),
        ("0.32.0+cpu", "absent", True),
        ("0.26.0", "absent", False),
        ("0.19.1", "null", False),
        ("1" * 5000, "absent", True),
    ],
)
def test_the_dialect_goes_by_the_version(version, off, chat_from_ids):
    dialect = VLLM(version).dialect
    assert dialect.completion_usage_off == off
    assert dialect.chat_from_ids == chat_from_ids
    assert dialect.handover == "kv_transfer_params"


HERE = Path(__file__).parent / "recorded"
RECORDED = json.loads((HERE / "vllm-0.32.0.json").read_text(encoding="utf-8"))
STREAMS = [name for name, kept in RECORDED.items() if isinstance(kept, dict)]
FINGERPRINT = b'"vllm-0.32.0-ffcbdebd"'


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("size", [1, 7, 100, 1 << 20])
def test_a_recorded_stream_without_our_questions_is_what_the_engine_said_without_them(name, size):
    kept = RECORDED[name]
    request = read_request(name.split()[0], json.dumps(kept["request"]).encode())
    adapter = VLLM("0.32.0")
    _, asked = upstream(request, adapter.dialect, token_ids=True)
    known = FINGERPRINT if request.slots > 1 else b""
    reply = ReplyStream(
        adapter.dialect,
        chat=request.chat,
        client=request.asked,
        engine=asked,
        choices=request.slots,
        fingerprint=known,
    )
    sent, said = kept["engine"].encode(), kept["client"].encode()
    got = b"".join(reply.feed(sent[i : i + size]) for i in range(0, len(sent), size)) + reply.end()
    if request.slots == 1:
        assert got == said
    else:  # the order of the choices is the engine's, and differs from run to run
        assert sorted(got.split(b"\n\n")) == sorted(said.split(b"\n\n"))
    assert reply.done and reply.produced == 6 * request.slots
    assert reply.prompt_tokens == (24 if request.chat else 6)
    assert (reply.fingerprint == FINGERPRINT) or request.asked.usage


@pytest.mark.parametrize(("kind", "prompt_tokens"), [("completions", 6), ("chat", 24)])
def test_recorded_answers_are_counted(kind, prompt_tokens):
    answer = read_answer(RECORDED[f"{kind} answer"].encode())
    assert (answer.prompt_tokens, answer.produced) == (prompt_tokens, 1)


def test_a_recorded_refusal_keeps_its_words():
    refusal = of_engine(RECORDED["chat refused"].encode(), 400)
    assert refusal.status == 400 and refusal.message == "n must be 1 when using greedy sampling, got 2."


def test_the_recorded_metrics_page_is_read():
    (only,) = VLLM().samples((HERE / "vllm-0.32.0-metrics.txt").read_bytes())
    assert (only.rank, only.running, only.kv_capacity) == (0, 0, 2016)
    assert only.kv_tokens == 0
