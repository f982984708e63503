"""BF-IO's theorems in their own settings, at their reduced size."""

from __future__ import annotations

import math

import pytest
from tests.experiments.papers.quick import quick

from evenstep.experiments.papers.bf_io import _bf_io as bf
from evenstep.experiments.papers.bf_io.bfio_theorems import DRIFTS, EQUAL, S_MAX, expected_max, exponents, measured
from evenstep.experiments.reproduce import Setting
from evenstep.experiments.vocabulary import near
from evenstep.measure.comparison import Interval

VARIANCES = {"delta = 0": 0.0, "delta = 0.5": 0.25, "delta = 1": 1.0, "delta = 3": 9.0}


@pytest.mark.slow
def test_what_no_size_can_break_holds_at_the_reduced_size_too():
    found = quick("bfio-theorems")
    held = {claim.says: claim.holds for claim in found.findings.claims}
    assert held["Definition 1 (overload) holds at every counted step"]
    assert held["Lemma 1: BF-IO(0)'s imbalance is at most (G - 1) s_max at every counted step"]
    assert held["Theorems 2, 3: BF-IO(0)'s gap is at most s_max / p"]
    assert held["Theorems 1 to 3: the gain seen is at least the one proven, at every B and G"]


def test_fcfs_with_equal_outputs_is_as_extreme_values_say():
    """64 rounds of 16 workers: 1.766 sigma sqrt(B) G, within 10 %; three standard errors are 8 %."""
    (only,) = measured(Setting(seeds=1), EQUAL, (16, 36), 64, bf.FCFS)
    expected = 16 * 1.766 * math.sqrt((S_MAX**2 - 1) / 12) * 6
    assert only.asserted and only.imbalance.mean() == pytest.approx(expected, rel=0.1)


def test_the_variance_of_a_slot_has_the_prompt_s_and_the_drift_s():
    for model in DRIFTS[:-1]:
        q = 0.99
        assert model.variance == pytest.approx((S_MAX**2 - 1) / 12 + VARIANCES[model.name] * q / 0.01**2, rel=1e-6)


def test_a_drift_twice_as_large_for_long_is_not_the_first_step_s():
    """delta = 2 for 50 steps, 0.25 then: more than 0.25 always, less than 2 always."""
    prompt, steps = (S_MAX**2 - 1) / 12, 0.99 / 0.01**2
    assert prompt + 0.25**2 * steps < DRIFTS[-1].variance < prompt + 4 * steps


def test_the_largest_of_normals():
    assert expected_max(2) == pytest.approx(1 / math.sqrt(math.pi), abs=1e-6)
    assert expected_max(16) == pytest.approx(1.76599, abs=1e-4) and expected_max(32) == pytest.approx(2.06967, abs=1e-4)


def test_exponents_are_slopes():
    assert exponents({4: [2.0, 8.0], 16: [4.0, 8.0]}, "B") == pytest.approx([0.5, 0.0])
    assert exponents({2: [1.0], 16: [2.0]}, "log G") == pytest.approx([0.5])


def test_a_band_holds_all_of_an_interval_or_none_of_it():
    assert near(Interval(101, 100, 102), 100, 0.03) is True
    assert near(Interval(101, 96, 106), 100, 0.03) is None and near(Interval(110, 104, 116), 100, 0.03) is False
