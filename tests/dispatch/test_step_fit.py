"""The fitted law of steps."""

from __future__ import annotations

import math
import random

import pytest

from evenstep.dispatch.step_fit import StepFit


def test_a_law_is_found_again():
    fit, chance = StepFit(), random.Random(0)
    for _ in range(300):
        envelope = chance.uniform(1e5, 2e5)
        fit.add(envelope, 0.005 + 1e-7 * envelope)
    assert fit.overhead_s == pytest.approx(0.005)
    assert fit.seconds_per_token == pytest.approx(1e-7)
    assert fit.r_squared == pytest.approx(1.0)


def test_it_follows_a_change():
    fit, chance = StepFit(), random.Random(0)
    for number in range(12_000):
        envelope = chance.uniform(0, 100)
        fit.add(envelope, (1.0 if number < 2000 else 3.0) * envelope)
    assert fit.seconds_per_token == pytest.approx(3.0, rel=0.01)


def test_little_is_nothing():
    fit = StepFit()
    for _ in range(60):
        fit.add(5.0, 1.0)
    assert math.isnan(fit.seconds_per_token) and math.isnan(fit.r_squared)
