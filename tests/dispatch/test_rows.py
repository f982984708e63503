"""The table of requests."""

from __future__ import annotations

import pytest

from evenstep.dispatch.requests.rows import Rows
from evenstep.dispatch.transitions import State


def test_a_row_is_used_again_and_clean():
    rows = Rows(1)
    row = rows.take(5)
    rows.at.prompt[row] = 9
    rows.place(row, 3)
    rows.move(row, State.POOLED)
    rows.give_back(row, 5)
    rows.clean(row)
    assert rows.take(6) == row and rows.by_request == {6: row}
    assert (rows.at.prompt[row], rows.at.worker[row]) == (0, -1)


def test_the_table_grows_and_keeps_what_it_has():
    rows = Rows(2)
    for request in range(5):
        row = rows.take(request)
        rows.at.prompt[row], rows.at.produced[row], rows.at.copies[row] = request, 7, 2
    assert [rows.load(rows.by_request[r]) for r in range(5)] == [7, 8, 9, 10, 11]
    assert rows.age(0) == 3 and rows.generation == 2
    assert rows.columns.arrays.prompt[rows.by_request[4]] == 4  # arrays and views are the same bytes


def test_a_request_moves_by_the_table_only():
    rows = Rows(2)
    row = rows.take(1)
    with pytest.raises(RuntimeError, match="FREE cannot become RUNNING"):
        rows.move(row, State.RUNNING)
    rows.move(row, State.POOLED)
    assert rows.state(row) is State.POOLED and rows.at.state[row] == State.POOLED
