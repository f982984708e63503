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
    ("loads", "fixed", "which", "ratio", "is_law"),
    [
        ((0.0, 100.0), 1.0, "slope", 0.24, True),
        ((0.0, 100.0), 1.0, "slope", 0.26, False),  # two standard errors are more than a quarter of it
        ((900.0, 1000.0), -1.5, "fixed", 0.24, True),
        ((900.0, 1000.0), -1.5, "fixed", 0.26, False),  # or of a mean step, for the fixed part
        ((0.0, 100.0), -0.1, "below", 0.95, True),  # it may be 0
        ((0.0, 100.0), -0.1, "below", 1.05, False),  # it is below 0, which no step has
    ],
)
def test_the_law_and_its_error_are_those_of_weighted_least_squares(loads, fixed, which, ratio, is_law):
    slope, chance = 0.02, np.random.default_rng(1)
    x, noise = chance.uniform(*loads, 400), chance.normal(size=400)
    weights = 0.999 ** np.arange(400)[::-1]
    fitted, unscaled = np.polyfit(x, noise, 1, w=np.sqrt(weights), cov="unscaled")
    noise -= np.polyval(fitted, x)  # so that the law is met exactly
    errors = 2.0 * np.sqrt((weights * noise**2).sum() / (weights.sum() - 2.0) * np.diag(unscaled))
    mean = fixed + slope * np.average(x, weights=weights)
    scale = {"slope": ratio * slope / errors[0], "fixed": ratio * mean / errors[1], "below": -fixed / ratio / errors[1]}[
        which
    ]
    y = fixed + slope * x + scale * noise
    fit = Fitted()
    for load, seconds in zip(x.tolist(), y.tolist(), strict=True):
        fit.add(load, seconds)
    assert fit.error == pytest.approx(scale * errors[0] / slope, rel=1e-6)
    if is_law:
        explained = 1.0 - (weights * (scale * noise) ** 2).sum() / (weights * (y - mean) ** 2).sum()
        assert (fit.overhead_s, fit.seconds_per_token) == pytest.approx((max(0.0, fixed), slope), rel=1e-6)
        assert fit.r_squared == pytest.approx(explained, rel=1e-6)
    else:
        assert math.isnan(fit.seconds_per_token) and math.isnan(fit.overhead_s) and math.isnan(fit.r_squared)


def test_a_law_needs_fifty_steps():
    fit = Fitted()
    for number in range(50):
        assert math.isnan(fit.seconds_per_token) and math.isnan(fit.error)
        fit.add(100.0 + number % 7, 1.0 + 0.01 * (number % 7))
    assert fit.seconds_per_token == pytest.approx(0.01)
