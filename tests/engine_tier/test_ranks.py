"""Two data-parallel ranks behind one port of vLLM: the gateway picks the rank by header, and reads each rank's metrics."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.engine_tier.clients import ask_all, body, metric
from tests.engine_tier.engines import Fleet, make_model
from tests.engine_tier.prompts import SOME

pytestmark = pytest.mark.engine
TOKENS = 32
MADE = 'vllm:generation_tokens_total{{engine="{rank}"'


@pytest.fixture(scope="module")
def served(models, tmp_path_factory):
    """The instance, and a gateway that knows its two ranks of eight slots."""
    model = make_model("dense", models)
    flags = ["--max-model-len", "512", "--max-num-seqs", "16", "--kv-cache-memory-bytes", "2097152"]
    with Fleet(tmp_path_factory.mktemp("ranks")) as fleet:
        engine = fleet.vllm("engine", model, *flags, "--data-parallel-size", "2", "--api-server-count", "1")
        fleet.ready(engine)
        config = {
            "version": 1,
            "workers": [{"url": engine.url, "ranks": 2, "slots": 8}],
            "policy": "jsq:ties=lowest",
        }
        path = fleet.folder / "gateway.yaml"
        path.write_text(json.dumps(config))
        gateway = fleet.gateway("gateway", "--config", str(path))
        fleet.ready(gateway, path="/readyz")
        yield engine, gateway


def test_each_rank_makes_the_tokens_that_the_gateway_sent_it(served):
    engine, gateway = served
    questions = [("completions", body("completions", text, TOKENS, stream=True)) for text in SOME]
    direct = asyncio.run(ask_all(engine.url, questions, at_once=1))
    before = [metric(engine.url, MADE.format(rank=rank)) for rank in range(2)]
    through = asyncio.run(ask_all(gateway.url, questions[:16], in_order=True))
    made = [metric(engine.url, MADE.format(rank=rank)) - was for rank, was in enumerate(before)]
    assert [answer.ids for answer in through] == [answer.ids for answer in direct[:16]]
    assert made == [8 * TOKENS, 8 * TOKENS]


def test_a_client_cannot_pick_the_rank(served):
    """With both ranks idle the policy takes the first, whatever the client says."""
    engine, gateway = served
    before = [metric(engine.url, MADE.format(rank=rank)) for rank in range(2)]
    for rank in range(2):
        asked = [("completions", body("completions", SOME[3], TOKENS, data_parallel_rank=rank))]
        asyncio.run(ask_all(gateway.url, asked, headers={"X-data-parallel-rank": str(rank)}))
    made = [metric(engine.url, MADE.format(rank=rank)) - was for rank, was in enumerate(before)]
    assert sorted(made) == [0, 2 * TOKENS]
