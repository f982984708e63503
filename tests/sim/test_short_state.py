"""Rows that follow from words and times: as column arithmetic says."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenstep.sim.cluster.model import SHIFT, Requests
from evenstep.sim.cluster.short_state import StepTimes, completed_requests


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 300), st.integers(1, 60)), max_size=20),
    st.integers(0, 9),
)
def test_rows_are_those_of_whole_columns(requests, first):
    rows = np.array(requests, np.int64).reshape(-1, 3)
    admitted, worker, output = rows[:, 0] + first, rows[:, 1], rows[:, 2].copy()
    began, nothing = np.arange(200) * 0.5, np.zeros(0, np.int64)
    trace = Requests(output + 7, output, began, nothing, nothing, nothing, nothing)
    times = StepTimes(began, began + 0.25, first)
    table = completed_requests(trace, None, np.arange(len(rows)), admitted << SHIFT | worker, began[: len(rows)], times)
    assert np.array_equal(
        [table.worker, table.admitted_step, table.finished_step], [worker, admitted, admitted + output - 1]
    )
    assert np.array_equal(table.admitted_s, (admitted - first) * 0.5)
    assert np.array_equal(table.first_token_s, (admitted - first) * 0.5 + 0.25)
    assert np.array_equal(table.finished_s, (admitted - first + output - 1) * 0.5 + 0.25)
    assert np.array_equal(table.prompt_tokens - 7, table.output_tokens)
