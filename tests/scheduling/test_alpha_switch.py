"""The switch takes one policy or the other, by the ratio of the bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import engine_runs, examples

from evenstep.errors import InputError
from evenstep.scheduling.policies.a_ell import AEll
from evenstep.scheduling.policies.a_min import AMin
from evenstep.scheduling.policies.alpha_switch import AlphaSwitch
from evenstep.sim.engine.simulation import simulate_engine


@pytest.mark.slow
@examples(15, fast=6)
@given(run=engine_runs(), alpha=st.sampled_from([0.1, 0.38, 0.39, 1.0]))
def test_it_runs_as_the_policy_it_chooses(run, alpha):
    trace, engine, seed = run
    chosen = AEll() if alpha < 0.3819 else AMin()
    for door in ("plain", "compiled"):
        own = simulate_engine(trace, AlphaSwitch(alpha), engine=engine, seed=seed, door=door)
        other = simulate_engine(trace, chosen, engine=engine, seed=seed, door=door)
        assert own.digest == other.digest


@pytest.mark.parametrize("alpha", [0.0, 1.5, np.nan])
def test_a_ratio_out_of_range_is_refused(alpha):
    with pytest.raises(InputError, match="alpha"):
        AlphaSwitch(alpha)
