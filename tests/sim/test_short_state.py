"""Rows that follow from words and times: as column arithmetic says."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenstep.sim.cluster.model import SHIFT
from evenstep.sim.cluster.short_state import follow


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 300), st.integers(1, 60)), max_size=20),
    st.integers(0, 9),
)
def test_rows_are_those_of_whole_columns(requests, first):
    rows = np.array(requests, np.int64).reshape(-1, 3)
    admitted, worker, output = rows[:, 0] + first, rows[:, 1], rows[:, 2].copy()
    place = admitted << SHIFT | worker
    began = np.arange(200) * 0.5
    ended = began + 0.25
    whole, times = np.empty((3, len(requests)), np.int64), np.empty((3, len(requests)))
    assert follow(place, output, began, ended, first, whole, times) == len(requests)
    last = admitted + output - 1
    assert np.array_equal(whole, [worker, admitted, last])
    assert np.array_equal(times, [began[admitted - first], ended[admitted - first], ended[last - first]])
