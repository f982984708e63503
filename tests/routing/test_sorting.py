"""The stable sort of rules."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenstep.compiled import jit
from evenstep.routing import sorting


@jit
def sort_by(key, count, order, spare):
    sorting.sort_by(key, count, order, spare)


def test_equal_keys_keep_their_order():
    order = np.array([4, 0, 3, 1, 2])
    sort_by(np.array([2.0, 1.0, 2.0, 1.0, 0.0]), 5, order, np.zeros(5, np.int64))
    assert order.tolist() == [4, 3, 1, 0, 2]


def test_entries_beyond_the_count_stay():
    order = np.array([1, 0, 2])
    sort_by(np.array([1.0, 2.0, 0.0]), 2, order, np.zeros(2, np.int64))
    assert order.tolist() == [0, 1, 2]


@given(st.lists(st.integers(0, 5), max_size=40))
def test_it_sorts_as_numpy_does(keys):
    order, key = np.arange(len(keys)), np.array(keys, float)
    sort_by(key, len(keys), order, np.zeros(len(keys), np.int64))
    assert order.tolist() == np.argsort(key, kind="stable").tolist()
