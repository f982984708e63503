"""The engine simulator beside an engine in plain NumPy that was written independently of it, and beside Vidur's rules."""

from dataclasses import fields, replace

import numpy as np
import pytest
from benchmarks.contenders import plain_numpy_engine as plain
from hypothesis import given
from tests.strategies import engine_runs

from evenstep.measure.engine_records import IterationTable
from evenstep.request import Trace
from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.scheduling.policies.vllm import Vllm
from evenstep.scheduling.view import UNLIMITED
from evenstep.sim.engine.simulation import Engine, simulate_engine

#: What the plain engine does, too.
PLAIN = {
    "overflow": "recompute",
    "keeps_evicted": False,
    "schedules_ahead": False,
    "first_token": "prefill",
    "hold_produced": False,
    "resident_limit": None,
    "recompute_s": (0.0, 0.0),
    "overhead_s": 0.0,
}


def both(trace, policy, form, engine):
    """Our run, and the plain engine's request and iteration rows."""
    block = engine.block_tokens
    _, _, requests, iterations = plain.simulate(
        trace.column("arrival_s"),
        trace.prompt_tokens,
        trace.output_tokens,
        form,
        budget=engine.token_budget or UNLIMITED,
        limit=engine.batch_limit or UNLIMITED,
        kv_tokens=engine.kv_tokens or UNLIMITED // block * block,
        block=block,
    )
    return simulate_engine(trace, policy, engine=engine), requests, iterations


def chat(requests, per_s, seed=0):
    rng = np.random.default_rng(seed)
    prompt = np.clip(np.round(rng.lognormal(4.5, 0.8, requests)), 4, 800).astype(np.int64)
    output = np.clip(np.round(rng.gamma(1.5, 40.0, requests)), 1, 300).astype(np.int64)
    return Trace(prompt, output, arrival_s=np.cumsum(rng.exponential(1 / per_s, requests)))


@given(engine_runs())
def test_every_request_and_iteration_is_the_plain_engine_s(run):
    trace, engine, _ = run
    ours, requests, iterations = both(trace, Sarathi(), plain.sarathi, replace(engine, **PLAIN))
    table = ours.requests
    assert table.evictions.tolist() == requests[:, 6].tolist()
    assert table.wasted_tokens.tolist() == requests[:, 7].tolist()
    assert table.first_iteration.tolist() == requests[:, 4].tolist()
    for column, times in ((1, table.scheduled_s), (2, table.first_token_s), (3, table.finished_s)):
        np.testing.assert_allclose(times, requests[:, column], rtol=1e-12)
    assert ours.iterations is not None
    for column, field in enumerate(fields(IterationTable)):
        np.testing.assert_allclose(
            getattr(ours.iterations, field.name), iterations[:, column], rtol=1e-12, err_msg=field.name
        )


@pytest.mark.parametrize("kv_tokens", [0, 2400])
@pytest.mark.parametrize("block_tokens", [1, 16])
def test_iterations_are_within_a_hundredth_of_vidur_s_rules(kv_tokens, block_tokens):
    """Its whole prompts and its hundredth of the memory are `vllm`'s options; what an eviction waits for differs a little."""
    engine = Engine(token_budget=128, batch_limit=24, kv_tokens=kv_tokens, block_tokens=block_tokens)
    ours, requests, iterations = both(chat(400, 12.0), Vllm(watermark=0.01), plain.vidur, engine)
    assert (requests[:, 6].sum() > 0) == (ours.totals.evictions > 0) == (kv_tokens > 0)
    assert abs(ours.totals.iterations / len(iterations) - 1) < 0.01
