"""The F-score by hand, against its definition, and against its oracle."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from tests.oracles import f_score as oracle
from tests.routing._balance_route import peak, scores, value

from evenstep.routing.balance_route.f_score import FScore


def score_of(margins, weights, penalty, reward=1.0):
    return FScore(np.array(margins, float), np.array(weights, float), reward, penalty)


def test_the_score_of_br_0_is_the_drop_of_imbalance():
    load, tokens = np.array([10.0, 4.0, 7.0]), 9.0
    after = load + np.array([0.0, tokens, 0.0])
    drop = (3 * load.max() - load.sum()) - (3 * after.max() - after.sum())
    assert value(tokens, score_of([6], [1], 3.0)) == drop == 9 - 3 * 3


def test_each_step_counts_what_is_over_its_own_margin_with_its_own_weight():
    """12 tokens are 2 over the first margin and 8 over the second, which counts half."""
    assert value(12.0, score_of([10, 4], [1, 0.5], 3.0, reward=2.0)) == 24 - 3 * (2 + 4)
    assert value(4.0, score_of([10, 4], [1, 0.5], 3.0, reward=2.0)) == 8


def test_the_peak_is_the_margin_behind_which_the_penalties_outweigh_the_reward():
    """A reward of 4: penalties of 3, 3 + 1.5 and 5.25 a token are charged behind margins of 4, 10 and 20."""
    assert peak(score_of([10, 4, 20], [0.5, 1, 0.25], 3.0, reward=4.0)) == (10, 10, -0.5)
    assert peak(score_of([20, 10, 4], [0.25, 0.5, 1], 3.0, reward=5.0)) == (20, 20, -0.25)


def test_the_peak_is_a_stretch_where_the_score_is_level():
    assert peak(score_of([10, 4], [1, 1], 1.0)) == (4, 10, -1)
    assert peak(score_of([7, 7], [1, 1], 1.0)) == (7, 7, -1)
    assert peak(score_of([10, 4], [1, 1], 0.5)) == (10, math.inf, -math.inf)


def test_a_score_that_never_falls_has_no_peak():
    assert peak(score_of([10, 4], [1, 1], 0.0)) == (math.inf, math.inf, -math.inf)
    assert peak(score_of([10, 4], [1, 1], 0.25)) == (math.inf, math.inf, -math.inf)


def test_a_slope_that_only_rounding_keeps_from_zero_is_level():
    """Slopes of 1e-10 and -1e-10 are level for a reward of 1, and steep for one of 0.01; -1e-9 is just level."""
    assert peak(score_of([4], [1], 1.0 - 1e-10)) == (4, math.inf, -math.inf)
    assert peak(score_of([4], [1], 1.0 + 1e-10)) == (4, math.inf, -math.inf)
    assert peak(score_of([4], [1], 0.01 - 1e-10, reward=0.01)) == (math.inf, math.inf, -math.inf)
    assert peak(score_of([4], [1], 0.01 + 1e-10, reward=0.01))[:2] == (4, 4)


@given(scores())
def test_the_score_is_largest_on_its_peak(score):
    low, high, slope = peak(score)
    totals = [float(d) for d in range(200)]
    best = value(min(low, 199.0), score)
    assert all(value(d, score) <= best + 1e-6 for d in totals)
    assert all(math.isclose(value(d, score), best, abs_tol=1e-6) for d in totals if low <= d <= high)
    if high < math.inf:
        fall = value(high + 0.5, score) - value(high, score)
        assert slope < 0
        assert fall <= 0.5 * slope + 1e-6


@given(scores())
def test_score_and_peak_equal_their_oracle(score):
    other = oracle.FScore(*score)
    assert peak(score)[:2] == other.peak()
    assert [value(d, score) for d in (0.0, 7.0, 55.0)] == other.of(np.array([0.0, 7.0, 55.0])).tolist()
