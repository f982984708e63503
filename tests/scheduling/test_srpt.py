"""Shortest predicted remainder first."""

import numpy as np

from evenstep.cost.unit import Unit
from evenstep.request import Trace
from evenstep.scheduling.policies.srpt import Srpt
from evenstep.sim.engine.simulation import Engine, simulate_engine


def late_short_one(arrival_s, **engine):
    """A request of 9 output tokens, and later one of 2."""
    output = np.array([9, 2])
    trace = Trace(np.array([4, 4]), output, arrival_s=np.array([0.0, arrival_s]), output_low=output, output_high=output)
    return simulate_engine(trace, Srpt(watermark=0.0), engine=Engine(**engine), batch_time=Unit())


def test_a_shorter_one_takes_the_seat_and_the_longer_one_pauses_with_its_memory():
    run = late_short_one(1.5, batch_limit=1, resident_limit=0)
    assert run.requests.finished_s.tolist() == [11.0, 4.0]
    assert run.totals.evictions == 0
    assert late_short_one(1.5, batch_limit=1).requests.evictions.tolist() == [1, 0]


def test_where_memory_is_short_the_longer_one_is_evicted():
    """After six tokens it holds 9 and has 3 left; the newcomer needs 4 now and has 2."""
    assert late_short_one(5.5, kv_tokens=18).requests.evictions.tolist() == [0, 0]
    assert late_short_one(5.5, kv_tokens=12).requests.evictions.tolist() == [1, 0]


def test_a_longer_one_that_waits_costs_nobody_his_memory():
    assert late_short_one(7.5, kv_tokens=12).requests.evictions.tolist() == [0, 0]
