"""How loads grow."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.energy import energy_j

from evenstep.cost.linear import Linear
from evenstep.cost.power import Power
from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.routing.policies.fcfs import FCFS
from evenstep.sim.cluster.drift import GRAIN, Drift, Profiles, cumulated, rounded
from evenstep.sim.cluster.simulation import Cluster, simulate

TRACE = Trace(np.array([4, 4, 4]), np.array([1, 6, 7]))


def test_decoding_takes_one_step_a_token_and_gains_one_token_a_step():
    assert Drift().steps(TRACE).tolist() == [1, 6, 7] and Drift().gains(3).tolist() == [0, 1, 2, 3]


def test_two_drifts_of_the_same_values_are_equal():
    assert Drift() == Drift(growth=1) != Drift(growth=2)
    assert len({Drift(sequence=(1, 2)), Drift(sequence=[1, 2])}) == 1


def test_speculative_decoding_rounds_steps_up():
    drift = Drift(growth=3, tokens_per_step=3)
    assert drift.steps(TRACE).tolist() == [1, 2, 3] and drift.gains(2).tolist() == [0, 3, 6]


@pytest.mark.parametrize(
    ("drift", "made"),
    [
        (Drift(tokens_per_step=3), [[4, 3], [3, 3], [1, 0]]),
        (Drift(profiles=Profiles(np.arange(6.0), np.array([0, 1, 3, 6]))), [[2, 1], [1, 5], [5, 0]]),
    ],
    ids=["several tokens a step", "profiles"],
)
def test_energy_counts_the_tokens_that_each_worker_makes(drift, made):
    law, power = Linear(overhead_s=0.01, per_token_s=0.001), Power()
    fleet = Cluster(workers=2, slots=2, drift=drift)
    run = simulate(TRACE, FCFS(), cluster=fleet, step_time=law, power=power, workers=9)
    for k, tokens in enumerate(made):
        local_s, duration_s = law.per_token_s * run.workers.load[k], run.steps.duration_s[k]
        wanted = energy_j(power, np.array(tokens), local_s, law.overhead_s, duration_s)
        found = run.steps.energy_busy_idle_j[k], run.steps.energy_step_average_j[k]
        assert found == pytest.approx(wanted, rel=1e-6) and run.steps.tokens[k] == sum(tokens)


def test_constant_work_gains_nothing():
    assert Drift(growth=0).gains(2).tolist() == [0, 0, 0]


def test_the_last_value_of_a_sequence_repeats():
    assert Drift(sequence=(2.0, -5.0)).gains(4).tolist() == [0, 2, -3, -8, -13]
    assert Drift(sequence=(2.0, 3.0, 4.0)).gains(1).tolist() == [0, 2]
    assert Drift(sequence=(2.0,)).gains(0).tolist() == [0]


def test_a_profile_sets_the_number_of_steps_and_no_common_gain():
    drift = Drift(profiles=Profiles(np.array([5.0, 1.0, 2.5, 7.0]), np.array([0, 1, 2, 4])))
    assert drift.steps(TRACE).tolist() == [1, 1, 2] and not drift.is_linear
    gains = drift.gains(2)
    assert gains[0] == 0 and np.isnan(gains[1:]).all()


@given(st.floats(-1e6, 1e6))
def test_rounding_goes_to_the_nearest_multiple_of_the_grain(tokens):
    near = rounded(tokens)
    assert (near / GRAIN).is_integer() and abs(near - tokens) <= GRAIN / 2
    assert rounded(near) == near


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=8), st.integers(1, 20))
def test_cumulated_gains_are_the_sums_of_rounded_values_exactly(sequence, steps):
    wanted = [sum(rounded(sequence[min(j, len(sequence) - 1)]) for j in range(n)) for n in range(steps)]
    assert cumulated(tuple(sequence), steps).tolist() == wanted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"growth": -1.0}, "drift: growth is -1.0; expected a finite number of tokens >= 0 a step."),
        ({"growth": math.nan}, "drift: growth is nan"),
        ({"tokens_per_step": 0}, "drift: tokens_per_step is 0; expected an integer >= 1."),
        ({"tokens_per_step": 1.5}, "drift: tokens_per_step is 1.5; expected an integer >= 1."),
        ({"sequence": (1.0, math.inf)}, "drift: sequence is (1.0, inf); expected finite numbers of tokens."),
    ],
)
def test_values_out_of_range_are_named(options, message):
    with pytest.raises(InputError) as error:
        Drift(**options)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("values", "offsets", "message"),
    [
        ([1.0], [0, 1], "profiles is '1 row'; expected one a request, 3."),
        ([1.0, 2.0], [0, 1, 1, 2], "profiles is 'an empty profile (request 1)'"),
        ([1.0, 2.0], [0, 1, 2, 4], "profiles is 'offsets from 0 to 4'; expected offsets from 0 to 2, the number of loads."),
        ([1.0, 2.0, 3.0, 4.0], [1, 2, 3, 4], "profiles is 'offsets from 1 to 4'"),
        ([1.0, -2.0, 1.0], [0, 1, 2, 3], "profiles is 'a negative or non-finite load'"),
        ([1.0, math.nan, 1.0], [0, 1, 2, 3], "profiles is 'a negative or non-finite load'"),
    ],
)
def test_profiles_that_do_not_fit_the_trace_are_named(values, offsets, message):
    drift = Drift(profiles=Profiles(np.array(values), np.array(offsets)))
    with pytest.raises(InputError) as error:
        drift.steps(TRACE)
    assert message in str(error.value)
