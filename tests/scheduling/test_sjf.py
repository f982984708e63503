"""Shortest predicted output first, without interruption."""

import numpy as np
import pytest

from evenstep.cost.unit import Unit
from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.scheduling.policies.sjf import Sjf
from evenstep.sim.engine.simulation import Engine, simulate_engine


def started(policy, low, high, prompt=(1, 1, 1)):
    output = np.array([3, 3, 3])
    trace = Trace(np.array(prompt), output, output_low=np.array(low), output_high=np.array(high))
    run = simulate_engine(trace, policy, engine=Engine(batch_limit=1), batch_time=Unit())
    return np.argsort(run.requests.first_iteration).tolist()


@pytest.mark.parametrize(("statistic", "order"), [("low", [1, 0, 2]), ("high", [2, 0, 1]), ("middle", [0, 2, 1])])
def test_the_queue_is_sorted_by_the_statistic_asked_for(statistic, order):
    assert started(Sjf(statistic=statistic), low=[2, 1, 3], high=[4, 9, 3]) == order


def test_a_long_prompt_can_count():
    assert started(Sjf(prompt_weight=1.0), [1, 2, 3], [1, 2, 3], prompt=(9, 1, 1)) == [1, 2, 0]


def test_who_runs_is_not_interrupted():
    arrival = np.array([0.0, 1.5])
    trace = Trace(
        np.array([1, 1]), np.array([9, 1]), arrival_s=arrival, output_low=np.array([9, 1]), output_high=np.array([9, 1])
    )
    run = simulate_engine(trace, Sjf(), engine=Engine(batch_limit=1), batch_time=Unit())
    assert run.requests.finished_s.tolist() == [9.0, 10.0]


def test_a_bad_weight_is_named():
    with pytest.raises(InputError, match="prompt_weight"):
        Sjf(prompt_weight=float("nan"))
