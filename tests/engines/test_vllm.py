"""vLLM's metrics page and dialect, on lines as 0.32 writes them."""

from __future__ import annotations

import math

import pytest

from evenstep.engines.vllm import VLLM
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
    assert (first.rank, first.running, first.waiting, first.block_size) == (0, 12, 3, 32)
    assert first.kv_capacity == 63 * 32
    assert first.kv_tokens == pytest.approx(32 * 32)
    assert first.generated_tokens == 1200
    assert (second.rank, second.running, second.kv_tokens) == (1, 0, 0)


def test_without_a_cache_config_the_capacity_is_unknown():
    page = b"".join(line for line in PAGE.splitlines(keepends=True) if b"cache_config" not in line)
    first = VLLM().samples(page)[0]
    assert first.kv_capacity == math.inf and math.isnan(first.kv_tokens) and first.block_size == 0


def test_the_older_name_of_the_usage_is_known():
    assert VLLM().samples(PAGE.replace(b"kv_cache_usage", b"gpu_cache_usage")) == VLLM().samples(PAGE)


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
    ],
)
def test_the_dialect_goes_by_the_version(version, off, chat_from_ids):
    dialect = VLLM(version).dialect
    assert (dialect.completion_usage_off, dialect.chat_usage_off) == (off, "absent")
    assert dialect.chat_from_ids == chat_from_ids
    assert dialect.handover == "kv_transfer_params"
