"""Tables of named columns: one memory under two kinds of window, and growth that leaves no window behind."""

from __future__ import annotations

import pickle

import pytest
from tests.dispatch.told import Story

from evenstep.dispatch.columns import Columns
from evenstep.dispatch.fleet.mirror import WorkerColumns


def three() -> Columns[WorkerColumns]:
    found = Columns(WorkerColumns, 3)
    for g in range(3):
        found.at.running[g], found.at.load[g] = g, 10.0 * g
    return found


def test_arrays_and_views_are_the_same_numbers():
    found = three()
    found.arrays.load[1] = 7.5
    assert found.at.load[1] == 7.5 and found.arrays.running.tolist() == [0, 1, 2]


def test_rows_are_added_after_the_others_and_taken_out_of_the_middle():
    found = three()
    found.add(1)
    assert found.arrays.running.tolist() == [0, 1, 2, 0] and len(found) == 4
    found.remove(1)
    assert found.arrays.running.tolist() == [0, 2, 0] and found.arrays.load.tolist() == [0.0, 20.0, 0.0]


def test_an_empty_table_has_columns_of_no_length():
    found = Columns(WorkerColumns)
    assert len(found) == len(found.at.running) == 0 and found.arrays.load.size == 0


def test_a_copy_has_the_same_numbers_of_its_own():
    found = three()
    copy = pickle.loads(pickle.dumps(found))
    assert copy.ints.tolist() == found.ints.tolist() and copy.floats.tolist() == found.floats.tolist()
    copy.at.running[0] = 9
    assert found.at.running[0] == 0


@pytest.mark.slow
def test_chunks_find_the_columns_that_a_grown_table_has():
    story = Story()
    story.worker("a", slots=3000)
    sent = story.sent(0)
    story.chunk(sent.row)
    before = story.d.parts.barriers.tables()
    assert story.d.parts.barriers.tables() is before
    for request in range(1, 1100):  # more than there are rows at first
        story.arrives(request)
    story.tick()
    after = story.d.parts.barriers.tables()
    assert after is not before and len(after.requests.worker) > len(before.requests.worker)
    story.chunk(sent.row)
    assert story.d.rows.at.produced[sent.row] == 2 and before.requests.produced[sent.row] == 1
    story.worker("b")
    assert story.d.parts.barriers.tables() is not after


def test_chunks_find_room_for_steps_far_ahead():
    story = Story()
    story.worker("a", slots=4)
    one, other = story.sent(0), story.sent(1)
    for row in (one.row, other.row):
        story.chunk(row)
    before = story.d.parts.barriers.tables()
    story.chunk(one.row, tokens=100)
    after = story.d.parts.barriers.tables()
    assert after.early_room >= 99 > before.early_room
    story.chunk(other.row, tokens=100)
    assert [story.d.rows.at.produced[row] for row in (one.row, other.row)] == [101, 101]
