"""Scans of the pool by key: by hand, with sizes in place of keys."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles import f_score as oracle

from evenstep.compiled import as_plain
from evenstep.routing.balance_route.f_score import FScore
from evenstep.routing.balance_route.keys import (
    NONE,
    count_above,
    first_between,
    key_at_rank,
    key_of,
    list_first,
    list_fitting,
    nearest,
    tokens_of,
)
from evenstep.routing.filling import first_with

GONE = -1.0


def key(size: float) -> int:
    return int(as_plain(key_of)(size))


def pool(*sizes: float) -> np.ndarray:
    """Keys of a pool; `GONE` is a request that left."""
    return np.array([-1 if size == GONE else key(size) for size in sizes], np.int64)


def listed(function, *arguments, count):
    """What a function lists: sizes and rows."""
    rows, row_keys = np.full(8, -7), np.full(8, -7)
    n = as_plain(function)(*arguments, count, rows, row_keys)
    return rows[:n].tolist(), [as_plain(tokens_of)(k) for k in row_keys[:n]]


def test_keys_order_like_sizes_and_give_them_back():
    sizes = [0.0, 0.125, 1.0, 1.5, 4096.0, math.inf]
    assert sorted(key(size) for size in sizes) == [key(size) for size in sizes]
    assert [as_plain(tokens_of)(key(size)) for size in sizes] == sizes
    assert key(math.inf) < NONE
    assert key(-3.0) < 0


def test_nearest_are_the_neighbours_of_the_peak_among_those_that_fit():
    waiting = pool(5, 9, GONE, 7, 3, 12, 8)
    neighbours = as_plain(nearest)
    assert neighbours(waiting, key(7), key(20)) == (key(7), key(8), 3)
    assert neighbours(waiting, key(7), key(8)) == (key(7), key(8), 1)
    assert neighbours(waiting, key(6), key(4)) == (key(3), NONE, 0)
    assert neighbours(waiting, key(2), key(20)) == (-1, key(3), 6)
    assert neighbours(waiting, key(20), key(20)) == (key(12), NONE, 0)
    assert neighbours(waiting, key(2), key(1)) == (-1, NONE, 0)
    assert neighbours(waiting, key(2), key(-1)) == (-1, NONE, 0)


def test_requests_above_are_counted_up_to_what_fits():
    waiting = pool(5, 9, GONE, 7, 3)
    assert [as_plain(count_above)(waiting, key(low), key(9)) for low in (0, 3, 5, 9)] == [4, 3, 2, 0]
    assert as_plain(count_above)(waiting, key(3), key(8)) == 2


def test_the_oldest_of_equal_sizes_is_found():
    waiting = pool(5, 9, GONE, 9, 3)
    assert as_plain(first_with)(waiting, key(9)) == 1
    assert as_plain(first_with)(waiting, key(3)) == 4
    assert as_plain(first_between)(waiting, key(4), key(9)) == 0
    assert as_plain(first_between)(waiting, key(6), key(9)) == 1
    assert as_plain(first_between)(waiting, key(3), key(3)) == 4
    assert as_plain(first_between)(waiting, key(10), key(20)) == -1


def test_ranks_count_equal_sizes_one_by_one():
    waiting = pool(5, 9, GONE, 9, 3, 7)
    found = [as_plain(key_at_rank)(waiting, key(20), rank) for rank in (1, 2, 3, 4, 5)]
    assert found == [key(size) for size in (9, 9, 7, 5, 3)]
    assert as_plain(key_at_rank)(waiting, key(8), 2) == key(5)
    assert as_plain(key_at_rank)(waiting, key(9), 1) == key(9)


def test_the_largest_come_larger_first_and_older_first():
    waiting = pool(5, 9, 5, GONE, 2, 9)
    assert listed(list_first, 1, waiting, -1, key(20), count=3) == ([1, 5, 0], [9, 9, 5])
    assert listed(list_first, 1, waiting, -1, key(9), count=1) == ([1], [9])
    assert listed(list_first, 1, waiting, -1, key(8), count=8) == ([0, 2, 4], [5, 5, 2])
    assert listed(list_first, 1, waiting, -1, key(20), count=0) == ([], [])
    assert listed(list_first, 1, waiting, -1, key(1), count=3) == ([], [])
    assert listed(list_first, 1, pool(0, 1), -1, key(20), count=3) == ([1, 0], [1, 0])


def test_the_smallest_above_come_smaller_first_and_older_first():
    waiting = pool(9, 5, 7, GONE, 2, 5, 6)
    assert listed(list_first, -1, waiting, key(2), key(20), count=3) == ([1, 5, 6], [5, 5, 6])
    assert listed(list_first, -1, waiting, key(2), key(20), count=1) == ([1], [5])
    assert listed(list_first, -1, waiting, key(5), key(7), count=8) == ([6, 2], [6, 7])
    assert listed(list_first, -1, waiting, key(2), key(20), count=0) == ([], [])


def test_those_that_fit_stand_around_the_peak():
    """The smallest above it, then the largest up to it, then more from above."""
    waiting = pool(1, 9, 5, 6, 4, 6)
    assert listed(list_fitting, waiting, key(5), key(20), count=3) == ([3, 2, 4], [6, 5, 4])
    assert listed(list_fitting, waiting, key(5), key(20), count=2) == ([3, 2], [6, 5])
    assert listed(list_fitting, waiting, key(5), key(20), count=1) == ([3], [6])
    assert listed(list_fitting, pool(5, 7, 4), key(5), key(20), count=2) == ([1, 0], [7, 5])
    assert listed(list_fitting, waiting, key(5), key(5), count=2) == ([2, 4], [5, 4])
    assert listed(list_fitting, pool(1, 9, GONE, 6, GONE, 6), key(5), key(20), count=3) == (
        [3, 5, 0],
        [6, 6, 1],
    )
    assert listed(list_fitting, waiting, key(20), key(4), count=3) == ([4, 0], [4, 1])
    assert listed(list_fitting, waiting, key(0.5), key(20), count=8) == (
        [0, 4, 2, 3, 5, 1],
        [1, 4, 5, 6, 6, 9],
    )


SIZES = st.lists(st.integers(1, 12), min_size=1, max_size=9)


@given(SIZES, st.integers(0, 13), st.integers(1, 14), st.integers(1, 7))
def test_lists_equal_their_oracle(sizes, high, limit, count):
    size = np.array(sizes, float)
    rows = np.flatnonzero(size <= limit)
    score = FScore(np.array([float(high)]), np.ones(1), 1.0, 8.0)
    found = listed(list_first, 1, pool(*size), -1, key(limit), count=count)
    assert found[0] == oracle.largest(size, rows, count).tolist()
    found = listed(list_fitting, pool(*size), key(high), key(limit), count=count)
    expected = oracle.fitting(oracle.FScore(*score), size, rows, count).tolist()
    assert found == (expected, size[expected].tolist())
