"""The fitted law of steps."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from evenstep.compiled import as_plain
from evenstep.dispatch.steps import step_fit
from evenstep.dispatch.steps.groups import GroupSteps
from evenstep.dispatch.steps.step_fit import fit_of


class Fitted:
    """Steps of one group, and the law they make."""

    def __init__(self):
        self.at = GroupSteps([[0, 1]], [0]).at

    def add(self, envelope, seconds):
        as_plain(step_fit.add)(self.at, 0, envelope, seconds)

    def __getattr__(self, name):
        return getattr(fit_of(self.at, 0), name)


def test_a_law_is_found_again():
    fit, chance = Fitted(), random.Random(0)
    for _ in range(300):
        envelope = chance.uniform(1e5, 2e5)
        fit.add(envelope, 0.005 + 1e-7 * envelope)
    assert fit.overhead_s == pytest.approx(0.005)
    assert fit.seconds_per_token == pytest.approx(1e-7)
    assert fit.r_squared == pytest.approx(1.0)


def test_it_follows_a_change():
    fit, chance = Fitted(), random.Random(0)
    for number in range(12_000):
        envelope = chance.uniform(0, 100)
        fit.add(envelope, (1.0 if number < 2000 else 3.0) * envelope)
    assert fit.seconds_per_token == pytest.approx(3.0, rel=0.01)


def test_little_is_nothing():
    fit = Fitted()
    for _ in range(60):
        fit.add(5.0, 1.0)
    assert math.isnan(fit.seconds_per_token) and math.isnan(fit.r_squared)


@pytest.mark.parametrize("seed", range(5))
def test_steps_that_say_nothing_of_tokens_make_no_law(seed):
    """Loads that hardly differ, and steps whose length is other processes' doing: a slope below 0, or an R^2 of 0.002."""
    fit, chance = Fitted(), random.Random(seed)
    for _ in range(2000):
        fit.add(chance.uniform(9.9e4, 1e5), 0.02 + chance.expovariate(200.0))
    assert math.isnan(fit.seconds_per_token) and math.isnan(fit.overhead_s) and math.isnan(fit.r_squared)
    assert fit.error > 0.25


def test_a_slope_below_zero_is_no_law_however_well_it_fits():
    fit, chance = Fitted(), random.Random(0)
    for _ in range(300):
        envelope = chance.uniform(1e5, 2e5)
        fit.add(envelope, 0.05 - 1e-7 * envelope)
    assert math.isnan(fit.seconds_per_token)


@pytest.mark.parametrize("seed", range(5))
def test_a_law_that_is_shown_is_within_its_error(seed):
    fit, chance = Fitted(), random.Random(seed)
    for _ in range(2000):
        envelope = chance.uniform(0.0, 2e5)
        fit.add(envelope, 0.005 + 1e-7 * envelope + chance.gauss(0.0, 0.004))
    assert 0.0 < fit.error < 0.25
    assert abs(fit.seconds_per_token - 1e-7) < 1.5 * fit.error * 1e-7
    assert fit.r_squared > 0.5


@pytest.mark.parametrize(
    ("loads", "law", "noise", "found"),
    [
        ((0.0, 100.0), (1.0, 0.02), 0.3, (1.0, 0.02)),
        ((0.0, 100.0), (1.0, 0.02), 3.0, None),  # the slope is hardly known
        ((900.0, 1000.0), (1.0, 0.02), 2.0, None),  # the slope is, and the fixed part is not
        ((0.0, 100.0), (-0.6, 0.02), 0.1, None),  # no step has a fixed part below 0
        ((0.0, 100.0), (-0.02, 0.02), 0.3, (0.0, 0.02)),  # which may be 0
    ],
)
def test_the_law_and_its_error_are_those_of_weighted_least_squares(loads, law, noise, found):
    fit, chance = Fitted(), random.Random(1)
    x = np.array([chance.uniform(*loads) for _ in range(400)])
    y = law[0] + law[1] * x + noise * np.array([chance.gauss(0.0, 1.0) for _ in x])
    weights = 0.999 ** np.arange(len(x))[::-1]
    for load, seconds in zip(x.tolist(), y.tolist(), strict=True):
        fit.add(load, seconds)
    (slope, fixed), unscaled = np.polyfit(x, y, 1, w=np.sqrt(weights), cov="unscaled")
    rest = (weights * (y - slope * x - fixed) ** 2).sum() / (weights.sum() - 2.0)
    of_slope, of_fixed = 2.0 * np.sqrt(rest * np.diag(unscaled))
    assert fit.error == pytest.approx(of_slope / slope, rel=1e-6)
    known = slope > 0.0 and of_slope <= 0.25 * slope and of_fixed <= 0.25 * np.average(y, weights=weights)
    assert (known and fixed >= -of_fixed) == (found is not None)
    if found is None:
        assert math.isnan(fit.seconds_per_token) and math.isnan(fit.overhead_s) and math.isnan(fit.r_squared)
    else:
        assert (fit.overhead_s, fit.seconds_per_token) == pytest.approx((max(0.0, fixed), slope), rel=1e-6)
        assert fit.r_squared == pytest.approx(
            1.0 - rest * (weights.sum() - 2.0) / (weights * (y - np.average(y, weights=weights)) ** 2).sum()
        )


def test_a_law_needs_fifty_steps():
    fit = Fitted()
    for number in range(50):
        assert math.isnan(fit.seconds_per_token) and math.isnan(fit.error)
        fit.add(100.0 + number % 7, 1.0 + 0.01 * (number % 7))
    assert fit.seconds_per_token == pytest.approx(0.01)
