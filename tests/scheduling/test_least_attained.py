"""Least attained service."""

import numpy as np
import pytest

from evenstep.cost.unit import Unit
from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.scheduling.policies.least_attained import LeastAttained
from evenstep.sim.engine.simulation import Engine, simulate_engine


def test_a_newcomer_catches_up_and_then_they_take_turns():
    trace = Trace(np.array([1, 1]), np.array([6, 4]), arrival_s=np.array([0.0, 2.5]))
    run = simulate_engine(trace, LeastAttained(), engine=Engine(batch_limit=1, resident_limit=0), batch_time=Unit())
    assert run.requests.first_token_s.tolist() == [1.0, 4.0]
    assert run.requests.finished_s.tolist() == [10.0, 8.0]


def test_a_bad_weight_is_named():
    with pytest.raises(InputError, match="prompt_weight"):
        LeastAttained(prompt_weight=-1.0)
