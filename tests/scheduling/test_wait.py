"""WAIT by its rule."""

import numpy as np
import pytest

from evenstep.cost.unit import Unit
from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.scheduling.policies.wait import Wait
from evenstep.sim.engine.simulation import Engine, simulate_engine


@pytest.mark.parametrize("door", ["plain", "compiled"])
def test_a_type_runs_only_while_its_threshold_waits_and_the_other_goes_on_alone(door):
    trace = Trace(
        prompt_tokens=np.ones(5, np.int64),
        output_tokens=np.array([2, 2, 2, 2, 2]),
        arrival_s=np.array([0.0, 0.0, 0.0, 4.0, 4.0]),
        request_class=np.array([0, 0, 1, 0, 0]),
    )
    done = simulate_engine(
        trace, Wait((2, 1), 10.0), engine=Engine(token_budget=0, batch_limit=0), batch_time=Unit(), door=door
    ).requests
    # type 0 pauses from 1 to 4, for nobody of it waits for prefill; type 1 pauses until the hold time has passed
    assert done.first_token_s.tolist() == [1.0, 1.0, 1.0, 5.0, 5.0]
    assert done.finished_s[:2].tolist() == [5.0, 5.0]
    assert done.finished_s[2] == 11.0


def test_a_stage_takes_no_more_than_the_threshold():
    trace = Trace(prompt_tokens=np.ones(9, np.int64), output_tokens=np.full(9, 3))
    done = simulate_engine(trace, Wait((2,), 4.0), engine=Engine(token_budget=0, batch_limit=0), batch_time=Unit())
    assert done.iterations is not None
    assert done.iterations.prefill_tokens.max() == 2 and done.iterations.requests.max() == 6


@pytest.mark.parametrize("bad", [(), (0,), (2, -1)])
def test_thresholds_below_one_are_refused(bad):
    with pytest.raises(InputError, match="thresholds"):
        Wait(bad)


def test_a_time_that_is_none_is_refused():
    with pytest.raises(InputError, match="max_hold_s"):
        Wait((1,), float("nan"))
