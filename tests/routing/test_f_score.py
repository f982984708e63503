"""The F-score against its definition, and every solver against brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenstep.routing.balance_route.assign import discounts
from evenstep.routing.balance_route.f_score import (
    FScore,
    best_by_bits,
    best_enumerated,
    best_single,
    fitting,
    largest,
)


@st.composite
def scores(draw):
    H = draw(st.integers(0, 4))
    margins = draw(st.lists(st.integers(0, 60), min_size=H + 1, max_size=H + 1))
    weights = discounts(draw(st.sampled_from([1.0, 0.9, 0.5])), H)
    reward = draw(st.sampled_from([1.0, float(weights.sum()), 0.25]))
    return FScore(np.array(margins, float), weights, reward, float(draw(st.sampled_from([0, 1, 2, 16]))))


sizes = st.lists(st.integers(1, 50), min_size=1, max_size=7).map(lambda x: np.array(x, float))


def brute_force(score, size, slots, kv_free):
    """Largest score over all subsets of at most `slots` requests and `kv_free` tokens."""
    found = -math.inf
    for r in range(1, slots + 1):
        for rows in itertools.combinations(range(size.size), r):
            tokens = size[list(rows)].sum()
            if tokens <= kv_free:
                found = max(found, float(score.of(tokens)))
    return found


def close(a, b):
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-6)


def test_the_score_of_br_0_is_the_drop_of_imbalance():
    load, tokens = np.array([10.0, 4.0, 7.0]), 9.0
    after = load + np.array([0.0, tokens, 0.0])
    drop = (3 * load.max() - load.sum()) - (3 * after.max() - after.sum())
    assert FScore(np.array([6.0]), np.ones(1), 1.0, 3.0).of(tokens) == drop == 9 - 3 * 3


@given(scores())
def test_the_score_is_largest_on_its_peak(score):
    low, high = score.peak()
    totals = np.arange(0.0, 200.0)
    best = score.of(min(low, 199.0))
    assert np.all(score.of(totals) <= best + 1e-6)
    inside = totals[(totals >= low) & (totals <= high)]
    assert np.allclose(score.of(inside), best, atol=1e-6)


@given(scores(), sizes)
def test_the_best_single_is_as_good_as_any(score, size):
    row = best_single(score, size, np.arange(size.size))
    assert close(float(score.of(size[row])), brute_force(score, size, 1, math.inf))


@given(scores(), sizes, st.integers(1, 4), st.sampled_from([math.inf, 50.0, 80.0]))
def test_both_subset_solvers_equal_brute_force(score, size, slots, kv_free):
    best = brute_force(score, size, slots, kv_free)
    slots = min(slots, size.size)
    for solver in (best_enumerated, best_by_bits):
        chosen, tokens, value = solver(score, size, np.arange(size.size), slots, kv_free)
        assert 1 <= chosen.size <= slots
        assert tokens == size[chosen].sum() <= kv_free
        assert close(value, best)
        assert value == score.of(tokens)


def test_the_largest_come_larger_first_and_older_first():
    assert largest(np.array([5.0, 9.0, 5.0, 2.0]), np.arange(4), 3).tolist() == [1, 0, 2]


def test_those_that_fit_stand_around_the_peak():
    score = FScore(np.array([5.0]), np.ones(1), 1.0, 8.0)
    size = np.array([1.0, 9.0, 5.0, 6.0, 4.0, 6.0])
    assert fitting(score, size, np.arange(6), 3).tolist() == [3, 2, 4]
    assert fitting(score, size, np.array([1, 3, 5, 0]), 3).tolist() == [3, 5, 0]
    assert fitting(score, size, np.array([0, 2, 4]), 2).tolist() == [2, 4]
