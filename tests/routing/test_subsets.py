"""Subsets by number: by hand, and every solver against brute force and its oracle."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles import f_score as oracle
from tests.routing._balance_route import peak, scores, value

from evenstep.compiled import as_plain
from evenstep.routing.balance_route.subsets import enumerated, pairs

#: The smallest of the space that rules give; what it holds beforehand does not matter.
SPACE = 1 << 7


def of_any(sizes, slots, kv_free, low, high):
    sums, counts = np.full(SPACE, -7.0), np.full(SPACE, -7)
    size = np.array(sizes, float)
    return as_plain(enumerated)(size, size.size, slots, kv_free, low, high, sums, counts), sums


def of_two(sizes, slots, kv_free, low, high):
    sums, size = np.full(SPACE, -7.0), np.array(sizes, float)
    return as_plain(pairs)(size, size.size, kv_free, low, high, sums), sums


@pytest.mark.parametrize("solver", [of_any, of_two])
def test_a_subset_on_the_peak_and_its_neighbours_are_found(solver):
    """Sums of 5, 3, 9: 5, 3, 8, 9, 14, 12; bit i stands for size i."""
    found, sums = solver([5, 3, 9], 2, math.inf, 10.0, 11.0)
    assert found == (0, 0b100, 0b110)
    assert [sums[subset] for subset in (0b000, 0b001, 0b010, 0b011, 0b100, 0b101, 0b110)] == [
        0,
        5,
        3,
        8,
        9,
        14,
        12,
    ]
    assert solver([5, 3, 9], 2, math.inf, 8.0, 9.0)[0] == (0b011, 0b001, 0b110)
    assert solver([5, 3, 9], 2, math.inf, 9.0, 9.0)[0] == (0b100, 0b011, 0b110)
    assert solver([5, 3, 9], 2, math.inf, 14.5, 20.0)[0] == (0, 0b101, 0)
    assert solver([5, 3, 9], 2, math.inf, 1.0, 2.0)[0] == (0, 0, 0b010)


@pytest.mark.parametrize("solver", [of_any, of_two])
def test_of_equal_sums_the_smallest_number_is_found(solver):
    assert solver([4, 4, 4], 2, math.inf, 5.0, 6.0)[0] == (0, 0b001, 0b011)
    assert solver([4, 4, 4], 2, math.inf, 4.0, 8.0)[0] == (0b001, 0, 0)


@pytest.mark.parametrize("solver", [of_any, of_two])
def test_a_subset_beyond_the_memory_is_no_answer(solver):
    assert solver([5, 3, 9], 2, 9.0, 10.0, 11.0)[0] == (0, 0b100, 0)
    assert solver([5, 3, 9], 2, 8.0, 1.0, 4.0)[0] == (0b010, 0, 0b001)
    assert solver([5, 3, 9], 2, 2.0, 1.0, 4.0)[0] == (0, 0, 0)


def test_a_subset_has_no_more_members_than_slots():
    assert of_any([1, 2, 4], 1, math.inf, 5.0, 5.5)[0] == (0, 0b100, 0)
    assert of_any([1, 2, 4], 2, math.inf, 6.5, 6.5)[0] == (0, 0b110, 0)
    assert of_any([1, 2, 4], 3, math.inf, 6.5, 6.5)[0] == (0, 0b110, 0b111)
    assert of_any([1, 2, 4], 3, math.inf, 7.0, 9.0)[0] == (0b111, 0b110, 0)


SIZES = st.lists(st.integers(1, 50), min_size=1, max_size=7).map(lambda x: np.array(x, float))


def brute_force(score, size, slots, kv_free):
    """Largest score over all subsets of at most `slots` requests and `kv_free` tokens."""
    found = -math.inf
    for r in range(1, slots + 1):
        for rows in itertools.combinations(range(size.size), r):
            tokens = size[list(rows)].sum()
            if tokens <= kv_free:
                found = max(found, value(float(tokens), score))
    return found


def close(a, b):
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-6)


@given(scores(), SIZES, st.integers(1, 4), st.sampled_from([math.inf, 50.0, 80.0]))
def test_one_of_those_found_is_as_good_as_any(score, size, slots, kv_free):
    low, high, _ = peak(score)
    for solver in (of_any, of_two) if slots == 2 else (of_any,):
        found, sums = solver(size, slots, kv_free, low, high)
        best = max(value(float(sums[subset]), score) for subset in found if subset)
        assert close(best, brute_force(score, size, slots, kv_free))


@given(scores(), SIZES, st.integers(1, 4), st.sampled_from([math.inf, 50.0, 80.0]))
def test_the_oracles_equal_brute_force(score, size, slots, kv_free):
    best = brute_force(score, size, slots, kv_free)
    slots, other = min(slots, size.size), oracle.FScore(*score)
    for solver in (oracle.best_enumerated, oracle.best_by_bits):
        chosen, tokens, worth = solver(other, size, np.arange(size.size), slots, kv_free)
        assert 1 <= chosen.size <= slots
        assert tokens == size[chosen].sum() <= kv_free
        assert close(worth, best)
        assert worth == other.of(tokens)
    row = oracle.best_single(other, size, np.arange(size.size))
    assert close(float(other.of(size[row])), brute_force(score, size, 1, math.inf))
