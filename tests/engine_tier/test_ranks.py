"""Two data-parallel ranks behind one port of vLLM: the gateway picks the rank by header, and reads each rank's metrics."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest
from tests.engine_tier.clients import ask_all, body, metric
from tests.engine_tier.engines import Fleet, Process, make_model
from tests.engine_tier.prompts import SOME

from evenstep.dispatch.log.file import read_log
from evenstep.dispatch.log.records import Round

pytestmark = pytest.mark.engine
TOKENS = 32
MADE = 'vllm:generation_tokens_total{{engine="{rank}"'


@pytest.fixture(scope="module")
def served(models, tmp_path_factory):
    """The fleet, and in it the instance."""
    model = make_model("dense", models)
    flags = ["--max-model-len", "512", "--max-num-seqs", "16", "--kv-cache-memory-bytes", "2097152"]
    with Fleet(tmp_path_factory.mktemp("ranks")) as fleet:
        engine = fleet.vllm("engine", model, *flags, "--data-parallel-size", "2", "--api-server-count", "1")
        fleet.ready(engine)
        yield fleet, engine


def begin(fleet: Fleet, engine: Process, name: str) -> tuple[Process, Path]:
    """A gateway that knows the instance's two ranks of eight slots, and its decision log."""
    log = fleet.folder / f"{name}.jsonl"
    config = {
        "version": 1,
        "admin": {"enabled": False},
        "workers": [{"url": engine.url, "ranks": 2, "slots": 8}],
        "policy": "jsq:ties=lowest",
        "decisions": {"path": str(log)},
    }
    path = fleet.folder / f"{name}.yaml"
    path.write_text(json.dumps(config))
    gateway = fleet.gateway(name, "--config", str(path))
    fleet.ready(gateway, path="/readyz")
    return gateway, log


def test_each_rank_makes_the_tokens_that_the_gateway_sent_it(served):
    fleet, engine = served
    gateway, log = begin(fleet, engine, "sending")
    questions = [("completions", body("completions", text, TOKENS, stream=True)) for text in SOME]
    direct = asyncio.run(ask_all(engine.url, questions, at_once=1))
    before = [metric(engine.url, MADE.format(rank=rank)) for rank in range(2)]
    through = asyncio.run(ask_all(gateway.url, questions[:16], in_order=True))
    made = [metric(engine.url, MADE.format(rank=rank)) - was for rank, was in enumerate(before)]
    fleet.stop(gateway)  # then its log is whole
    sent = sent_to(log)
    assert [answer.ids for answer in through] == [answer.ids for answer in direct[:16]]
    assert sum(sent) == 16
    assert min(sent) > 0
    assert made == [requests * TOKENS for requests in sent]


def sent_to(log: Path) -> list[int]:
    """Requests that a gateway sent to each rank. How many depends on who has ended when the next is decided."""
    found = Counter(worker for record in read_log(log) if isinstance(record, Round) for worker in record.sent.values())
    return [found[worker] for worker in sorted(found, key=lambda name: int(name.rpartition("#")[2]))]


def test_a_client_cannot_pick_the_rank(served):
    """With both ranks idle the policy takes the first, whatever the client says."""
    fleet, engine = served
    gateway, _ = begin(fleet, engine, "picking")
    before = [metric(engine.url, MADE.format(rank=rank)) for rank in range(2)]
    for rank in range(2):
        asked = [("completions", body("completions", SOME[3], TOKENS, data_parallel_rank=rank))]
        asyncio.run(ask_all(gateway.url, asked, headers={"X-data-parallel-rank": str(rank)}))
    made = [metric(engine.url, MADE.format(rank=rank)) - was for rank, was in enumerate(before)]
    assert sorted(made) == [0, 2 * TOKENS]
