"""Pieces of the compiled turn; whole turns are compared in test_ending.py."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.dispatch.told import Story

from evenstep.dispatch.commands import SendDecode
from evenstep.dispatch.meters import Histogram
from evenstep.dispatch.rows import Rows
from evenstep.dispatch.turn_kernel import clean, count


@given(st.lists(st.floats(0.0, 10.0) | st.sampled_from([1.0, 2.0, 5.0])))
def test_a_histogram_counts_alike_compiled_and_plain(values):
    one, other = Histogram((1.0, 2.0, 5.0)), Histogram((1.0, 2.0, 5.0))
    for value in values:
        one.add(value)
        count(value, *other.arrays())
    assert one.values() == other.values()


def test_a_row_is_clean_as_the_table_makes_it():
    rows = Rows(3)
    fresh = rows.ints.copy()
    rows.ints[:, 1] = 7
    clean(rows.ints, 1)
    assert np.array_equal(rows.ints, fresh)
    rows.ints[:, 1] = 7
    rows.clean(1)
    assert np.array_equal(rows.ints, fresh)


def test_a_round_with_a_request_of_several_copies_goes_the_long_way():
    story = Story("jsq")
    story.worker("a", slots=9)
    found = []
    send_all = story.d._send_all
    story.d._send_all = lambda *args, **more: found.append(send_all(*args, **more)) or found[-1]
    for request, copies in ((1, 1), (2, 2), (3, 1), (4, 1)):
        story.arrives(request, copies=copies)
        if request > 1:
            assert sum(isinstance(c, SendDecode) for c in story.tick()) == 4 - max(2, request) or request > 2
    assert found == [-1, 1, 1]
