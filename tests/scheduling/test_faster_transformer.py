"""FasterTransformer's groups."""

import numpy as np
import pytest
from hypothesis import given
from tests.strategies import engine_runs

from evenstep.cost.unit import Unit
from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.scheduling.policies.faster_transformer import FasterTransformer
from evenstep.sim.engine.simulation import Engine, simulate_engine


def test_the_next_group_waits_for_the_last_of_this_one():
    requests = Trace(np.ones(5, np.int64), np.array([2, 9, 2, 3, 3]))
    run = simulate_engine(requests, FasterTransformer(group=2), engine=Engine(), batch_time=Unit())
    assert run.requests.first_iteration.tolist() == [0, 0, 9, 9, 12]


def test_a_group_is_prefilled_before_it_decodes_however_many_iterations_that_takes():
    requests = Trace(np.array([6, 6, 6]), np.array([3, 3, 3]))
    run = simulate_engine(requests, FasterTransformer(), engine=Engine(token_budget=4), batch_time=Unit())
    assert run.iterations is not None
    assert run.iterations.prefill_tokens.tolist()[:5] == [4, 4, 4, 4, 2]
    assert run.iterations.decodes.tolist()[5:] == [3, 3]


@given(engine_runs())
def test_no_batch_mixes_phases_and_no_group_is_larger_than_asked(run):
    requests, engine, seed = run
    done = simulate_engine(requests, FasterTransformer(group=3), engine=engine, seed=seed)
    assert done.iterations is not None
    assert ((done.iterations.decodes == 0) | (done.iterations.prefill_tokens == 0)).all()
    assert (done.iterations.running <= 3).all()


def test_a_bad_group_is_named():
    with pytest.raises(InputError, match="group"):
        FasterTransformer(group=-1)
