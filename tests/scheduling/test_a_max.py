"""A_max by its example and its promise."""

import numpy as np

from evenstep.cost.unit import Unit
from evenstep.request import Trace
from evenstep.scheduling.policies.a_max import AMax
from evenstep.sim.engine.simulation import Engine, simulate_engine


def test_example_3_2_takes_a_total_of_nine():
    ones = np.ones(5, np.int64)
    engine = Engine(token_budget=0, batch_limit=0, kv_tokens=10, overflow="never", hold_produced=True)
    for door in ("plain", "compiled"):
        done = simulate_engine(
            Trace(prompt_tokens=ones, output_tokens=ones),
            AMax(),
            engine=engine,
            batch_time=Unit(),
            bounds=(ones, ones * 4),
            door=door,
        )
        assert done.summary["tel_s"] == 9.0
        assert sorted(done.requests.finished_s) == [1, 1, 2, 2, 3]
        assert done.totals.evictions == 0


def test_a_request_without_a_bound_runs_alone():
    trace = Trace(prompt_tokens=np.array([2, 2]), output_tokens=np.array([3, 3]))
    engine = Engine(token_budget=0, batch_limit=0, kv_tokens=50, overflow="never")
    done = simulate_engine(trace, AMax(), engine=engine, batch_time=Unit())
    assert sorted(done.requests.finished_s) == [3.0, 6.0]
