"""Levels of a feedback queue."""

import numpy as np
import pytest

from evenstep.cost.unit import Unit
from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.scheduling.policies.mlfq import Mlfq
from evenstep.sim.engine.simulation import Engine, simulate_engine


def finished(prompt, output, arrival, **options):
    trace = Trace(np.array(prompt), np.array(output), arrival_s=np.array(arrival))
    run = simulate_engine(trace, Mlfq(**options), engine=Engine(batch_limit=1, resident_limit=0), batch_time=Unit())
    return run.requests.finished_s.tolist()


def test_a_request_that_has_used_its_quantum_lets_others_pass():
    """Of 10 tokens with a prompt of 1 and quanta of 4, 8 and 16: at its fourth token the newcomer goes first."""
    assert finished([1, 1], [10, 2], [0.0, 0.5], quantum=4.0, level_wait_s=1e6) == [12.0, 5.0]


def test_a_long_prompt_joins_further_down():
    assert finished([40, 1], [2, 2], [0.0, 0.0], quantum=4.0, level_wait_s=1e6) == [4.0, 2.0]


def test_who_came_long_before_goes_first_all_the_same():
    assert finished([1, 1], [10, 2], [0.0, 0.5], quantum=4.0, level_wait_s=0.1) == [10.0, 12.0]


@pytest.mark.parametrize("options", [{"quantum": 0.0}, {"level_wait_s": -1.0}, {"watermark": 2.0}])
def test_a_bad_option_is_named(options):
    with pytest.raises(InputError, match=next(iter(options))):
        Mlfq(**options)
