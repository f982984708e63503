"""A_ell against its formula on outputs of two lengths."""

import numpy as np
import pytest

from evenstep.cost.unit import Unit
from evenstep.request import Trace
from evenstep.scheduling.policies.a_ell import AEll
from evenstep.scheduling.policies.h_sf import HindsightShortestFirst
from evenstep.sim.engine.simulation import Engine, simulate_engine


@pytest.mark.parametrize(("low", "high"), [(2, 20), (10, 20)])
def test_its_latency_over_that_of_hindsight_is_the_papers_within_a_percent(low, high):
    memory = 3200
    count = 8 * memory
    short = round(count * 10 / 11)
    output = np.full(count, high)
    output[np.random.default_rng(5).permutation(count)[:short]] = low
    trace = Trace(prompt_tokens=np.ones(count, np.int64), output_tokens=output)  # holds what a prompt of 0 holds there
    engine = Engine(token_budget=0, batch_limit=0, kv_tokens=memory, overflow="restart")
    ones = np.ones(count, np.int64)
    own = simulate_engine(trace, AEll(), engine=engine, batch_time=Unit(), bounds=(ones * low, ones * high), records=False)
    best = simulate_engine(
        trace,
        HindsightShortestFirst(),
        engine=engine,
        batch_time=Unit(),
        bounds=(output, output),
        records=False,
    )
    a, x, y = (low / high) ** 2, short, count - short
    expected = 1 + (a * x * y + 2 * a * y * y) / (a * x * x + 2 * a * x * y + y * y)
    assert own.summary["tel_s"] / best.summary["tel_s"] == pytest.approx(expected, rel=0.01)


def test_a_long_request_loses_its_memory_once_and_ends_behind_the_short_ones():
    trace = Trace(prompt_tokens=np.ones(3, np.int64), output_tokens=np.array([5, 2, 2]))
    engine = Engine(token_budget=0, batch_limit=1, kv_tokens=20, overflow="restart")
    done = simulate_engine(trace, AEll(), engine=engine, batch_time=Unit(), bounds=(np.full(3, 2), np.full(3, 5)))
    assert done.requests.evictions.tolist() == [1, 0, 0]
    assert done.requests.finished_s.tolist() == [11.0, 4.0, 6.0]
