"""Admission by a believed length that is an upper bound never runs out of memory."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import engine_runs

from evenstep.scheduling.policies.a_max import AMax
from evenstep.scheduling.policies.a_random import ARandom
from evenstep.scheduling.policies.h_sf import HindsightShortestFirst
from evenstep.sim.engine.simulation import simulate_engine


@pytest.mark.slow
@settings(max_examples=60)
@given(
    run=engine_runs(),
    policy=st.sampled_from([AMax(), ARandom(), ARandom(0.5), HindsightShortestFirst()]),
    more=st.integers(0, 30),
)
def test_with_upper_bounds_nobody_is_evicted_under_any_budget_limit_or_block(run, policy, more):
    trace, engine, seed = run
    out = trace.output_tokens
    bounds = (np.maximum(out - more, 1), out + more * (1 + np.arange(out.size) % 3))
    done = simulate_engine(
        trace, policy, engine=replace(engine, keeps_evicted=False, overflow="never"), bounds=bounds, seed=seed
    )
    assert done.totals.evictions == 0 and done.totals.requests == len(trace)
    assert done.iterations is not None
    if engine.kv_tokens:
        assert (done.iterations.kv_held <= engine.kv_tokens).all()


@given(run=engine_runs())
def test_who_is_admitted_runs_on_without_a_pause_where_nothing_but_memory_limits(run):
    trace, engine, seed = run
    free = replace(engine, keeps_evicted=False, overflow="never", token_budget=0, batch_limit=0)
    out = trace.output_tokens
    done = simulate_engine(trace, AMax(), engine=free, bounds=(out, out + 3), seed=seed).requests
    later = 1 if engine.first_token == "decode" else 0
    assert np.array_equal(done.last_iteration - done.first_iteration + 1, out + later)
