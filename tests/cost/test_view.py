from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstep.cost.view import PiecewiseLinear
from evenstep.errors import InputError


def test_lines_go_through_the_knots_and_on_beyond_them():
    lines = PiecewiseLinear(np.array([1.0, 2.0, 4.0]), np.array([[1.0, 3.0, 4.0]]))
    assert lines.local_seconds(np.array([0.0, 1, 1.5, 2, 3, 6])).tolist() == [-1.0, 1.0, 2.0, 3.0, 3.5, 5.0]


def test_rows_are_workers_and_are_repeated_over_the_fleet():
    lines = PiecewiseLinear(np.array([0.0, 1.0]), np.array([[0.0, 1.0], [0.0, 3.0]]))
    assert lines.local_seconds(np.array([2.0, 2.0, 4.0])).tolist() == [2.0, 6.0, 4.0]


def test_a_share_of_the_longest_is_added_to_the_load_and_never_taken_off():
    plain = PiecewiseLinear(np.array([0.0, 1.0]), np.array([[0.0, 1.0]]))
    shared = PiecewiseLinear(plain.load, plain.seconds, longest_share=0.5)
    workers = np.array([6.0, 6.0, 0.0]), np.array([2, 1, 0]), np.array([4.0, 4.0, 0.0])
    assert plain.effective_load(*workers).tolist() == [6.0, 6.0, 0.0]
    assert shared.effective_load(*workers).tolist() == [7.0, 6.0, 0.0]


@given(st.lists(st.floats(0, 100), min_size=1, max_size=9))
def test_inside_the_knots_it_is_numpys_interpolation(load):
    knots, seconds = np.array([0.0, 10, 40, 100]), np.array([0.0, 1, 2, 9])
    lines = PiecewiseLinear(knots, seconds[None, :])
    assert lines.local_seconds(np.array(load)) == pytest.approx(np.interp(load, knots, seconds))


@pytest.mark.parametrize(
    ("load", "seconds"),
    [
        ([0.0, 1.0], [0.0, 1.0]),
        ([0.0, 1.0], [[0.0, 1.0, 2.0]]),
        ([0.0], [[0.0]]),
        ([1.0, 0.0], [[0.0, 1.0]]),
        ([0.0, 1.0], [[0.0, np.nan]]),
        ([0.0, 1.0], np.zeros((0, 2))),
    ],
)
def test_lines_that_compiled_loops_would_read_beyond_their_end_are_refused(load, seconds):
    with pytest.raises(InputError, match="PiecewiseLinear: seconds is .of shape"):
        PiecewiseLinear(np.array(load), np.array(seconds))
