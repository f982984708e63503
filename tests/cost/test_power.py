from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.energy import energy_j

from evenstep.cost.power import Power, watts
from evenstep.errors import InputError

PLAIN = Power(model_params=1.0, peak_flops=6.0, idle_w=100.0, max_w=400.0, mfu_sat=0.5, gamma=0.5)  # mfu = tokens/s


def test_the_papers_defaults():
    assert Power().mfu_per_tokens_per_s == 6 * 8e9 / 312e12
    assert watts(Power(), np.array([0.0, 1e9])).tolist() == [100.0, 400.0]
    half = 0.225 / Power().mfu_per_tokens_per_s
    assert watts(Power(), np.array([half]))[0] == pytest.approx(100 + 300 * 0.5**0.7)


def test_a_step_by_hand():
    running, local = np.array([1, 2]), np.array([2.0, 6.0])  # C = 2: busy 4 s and 8 s of 8 s
    busy_idle, average = energy_j(PLAIN, running, local, 2.0, 8.0)
    first = (100 + 300 * (0.25 / 0.5) ** 0.5) * 4 + 100 * 4
    second = (100 + 300 * (0.25 / 0.5) ** 0.5) * 8
    assert busy_idle == pytest.approx(first + second)
    assert average == pytest.approx((100 + 300 * (0.125 / 0.5) ** 0.5) * 8 + second)


def test_an_empty_worker_draws_idle_power():
    assert energy_j(PLAIN, np.array([0, 0]), np.zeros(2), 1.0, 3.0) == (600.0, 600.0)


def test_a_step_that_takes_no_time_costs_nothing():
    assert energy_j(PLAIN, np.array([4]), np.zeros(1), 0.0, 0.0) == (0.0, 0.0)


@given(
    st.lists(st.tuples(st.integers(0, 200), st.floats(0, 0.1)), min_size=1, max_size=8),
    st.floats(1e-4, 0.1),
    st.floats(0, 0.1),
)
def test_energy_lies_between_idle_and_full_power_and_both_agree_when_nobody_waits(rows, overhead, late):
    running = np.array([r[0] for r in rows])
    local = np.array([r[1] for r in rows])
    duration = overhead + local.max() + late
    for joules in energy_j(Power(), running, local, overhead, duration):
        assert 100 * duration * len(rows) * (1 - 1e-9) <= joules <= 400 * duration * len(rows) * (1 + 1e-9)
    even = np.full(local.shape, local.max())
    busy_idle, average = energy_j(Power(), running, even, overhead, overhead + local.max())
    assert busy_idle == pytest.approx(average)


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_power_never_falls_with_utilisation(a, b):
    low, high = watts(Power(), np.array(sorted((a, b))))
    assert low <= high


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model_params", 0.0),
        ("peak_flops", -1.0),
        ("model_params", float("inf")),
        ("idle_w", -1.0),
        ("max_w", float("nan")),
        ("max_w", 50.0),
        ("mfu_sat", 1.5),
        ("gamma", 0.0),
        ("gamma", 1.1),
    ],
)
def test_a_value_out_of_range_is_named(name, value):
    with pytest.raises(InputError, match=f"power: {name} is {value:g}"):
        Power(**{name: value})


def test_a_worker_may_draw_nothing_when_it_waits():
    assert watts(Power(idle_w=0.0), np.zeros(1))[0] == 0.0


def test_a_worker_may_draw_the_same_whatever_it_does():
    assert watts(Power(idle_w=300.0, max_w=300.0), np.array([0.0, 1e3])).tolist() == [300.0, 300.0]
