"""The compiled engine simulator is its oracle in every bit, through both doors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.engine import Reference, simulate_reference
from tests.strategies import engine_runs, examples

from evenstep import names
from evenstep.measure.engine_records import EngineRun
from evenstep.sim.engine.simulation import simulate_engine


def same(run: EngineRun, wanted: Reference) -> None:
    for ours, theirs in ((run.requests, wanted.requests), (run.iterations, wanted.iterations)):
        for name in theirs.__slots__:
            a, b = getattr(ours, name), getattr(theirs, name)
            assert a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype == np.float64), name
    for name, value in wanted.totals.items():
        ours: Any = getattr(run.totals, name)
        if name == "gap_mean_s":  # a mean of sums that add in another order
            assert ours == pytest.approx(value, rel=1e-12, nan_ok=True)
            continue
        assert np.array_equal(ours, value, equal_nan=isinstance(value, float)), name


@pytest.mark.parametrize("name", names.members("scheduling"))
@examples(14, fast=3)
@given(run=engine_runs())
def test_every_policy_runs_the_oracle_s_iterations(name, run):
    trace, engine, seed = run
    policy = names.build("scheduling", {"name": name})
    wanted = simulate_reference(trace, policy, engine=engine, seed=seed)
    for door in ("plain", "auto"):
        same(simulate_engine(trace, policy, engine=engine, seed=seed, door=door), wanted)


@pytest.mark.parametrize("name", ["vllm", "best"])
@examples(30, 6)
@given(run=engine_runs(), until_s=st.sampled_from([0.05, 0.3, 1.0]))
def test_a_run_that_is_stopped_stops_where_the_oracle_does(name, run, until_s):
    trace, engine, seed = run
    policy = names.build("scheduling", {"name": name})
    wanted = simulate_reference(trace, policy, engine=engine, seed=seed, until_s=until_s)
    same(simulate_engine(trace, policy, engine=engine, seed=seed, until_s=until_s), wanted)
