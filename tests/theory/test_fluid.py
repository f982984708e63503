"""The fluid equilibrium, against its own equations and a simulated engine."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstep.cost.affine_kv import AffineKv
from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.sim.engine.simulation import Engine, simulate_engine
from evenstep.theory.fluid import Types, equilibrium

NUMBERS = st.lists(st.tuples(st.floats(0.1, 50), st.integers(1, 100), st.integers(1, 100)), min_size=1, max_size=4)


@given(NUMBERS, st.floats(0.001, 0.1))
def test_in_equilibrium_as_many_arrive_in_an_iteration_as_stand_at_a_stage(numbers, d0_s):
    rates, prompt, output = zip(*numbers, strict=True)
    types = Types(rates, prompt, output, d0_s, 0.0)
    d1_s = 0.7 / float(np.dot(rates, types.work))
    types = Types(rates, prompt, output, d0_s, d1_s)
    found = equilibrium(types)
    assert np.allclose(found.per_stage, np.array(rates) * found.iteration_s)
    assert found.iteration_s == pytest.approx(types.iteration_s(found.per_stage))
    assert found.kv_tokens == pytest.approx(np.dot(found.per_stage, types.work))
    stages = np.array(output) + 1
    assert found.tokens_per_s == pytest.approx(np.dot(found.per_stage, stages) / found.iteration_s)


def test_types_at_a_load_keep_their_proportions():
    types = Types((2, 1), (20, 40), (10, 30), 0.01, 1e-5).at_load(0.7)
    assert types.load == pytest.approx(0.7)
    assert types.arrivals_per_s[0] == 2 * types.arrivals_per_s[1]
    with pytest.raises(InputError, match="load is 0"):
        Types((0.0,), (20,), (10,), 0.01, 1e-5).at_load(0.7)


def test_an_engine_that_cannot_keep_up_has_no_equilibrium():
    with pytest.raises(InputError, match="load"):
        equilibrium(Types((10.0,), (100,), (100,), 0.01, 1e-4))


@pytest.mark.parametrize("d1_s", [0.25, 0.375])
def test_a_load_of_one_and_a_half_or_of_one_has_no_equilibrium_and_a_type_may_have_rate_zero(d1_s):
    """A prompt of one token and one output: W = 2 * 3/2 = 3; an output of two: 3 * 2 = 6, which never arrives."""
    types = Types((4 / 3, 0.0), (1, 1), (1, 2), 0.1, d1_s)
    assert types.load == pytest.approx(4 * d1_s)
    with pytest.raises(InputError, match="load"):
        equilibrium(types)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"arrivals_per_s": (-1.0,)}, "arrivals_per_s"),
        ({"prompt_tokens": (1, 2)}, "prompt_tokens"),
        ({"d0_s": 0.0}, "d0_s"),
        ({"d1_s": -1.0}, "d1_s"),
    ],
)
def test_numbers_out_of_range_are_refused(change, field):
    good = {"arrivals_per_s": (1.0,), "prompt_tokens": (1,), "output_tokens": (1,), "d0_s": 0.1, "d1_s": 0.0}
    with pytest.raises(InputError, match=field):
        Types(**{**good, **change})


def test_a_simulated_engine_without_limits_holds_what_the_fluid_does():
    types = Types((300.0, 100.0), (20, 20), (10, 30), 0.01, 4e-6)
    assert 0.3 < types.load < 0.9
    count, is_long = 20_000, np.arange(20_000) % 4 == 3
    trace = Trace(
        np.full(count, 20),
        np.where(is_long, 30, 10),
        arrival_s=np.arange(count) / 400.0,
        synthetic=True,
    )
    done = simulate_engine(
        trace,
        Sarathi(),
        engine=Engine(token_budget=0, batch_limit=0, first_token="decode"),
        batch_time=AffineKv(types.d0_s, types.d1_s),
    )
    steps = done.iterations
    assert steps is not None
    middle = slice(steps.kv_batch.size // 2, -steps.kv_batch.size // 10)
    assert steps.kv_batch[middle].mean() == pytest.approx(equilibrium(types).kv_tokens, rel=1e-3)
