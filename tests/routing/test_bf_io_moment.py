"""What BF-IO reads out of a view."""

from __future__ import annotations

import numpy as np
from tests.oracles.bf_io_moment import Moment
from tests.routing._routed import moment as view_of


def test_groups_are_numbered_in_order_of_appearance() -> None:
    view = view_of([1.0, 2.0, 3.0], [1, 1, 1], [5.0], group=[7, 3, 7])
    assert Moment.of(view, 0, 1.0, 0.0, 0, 0.0).group.tolist() == [0, 1, 0]


def test_a_window_is_never_smaller_than_what_is_admitted() -> None:
    view = view_of([0.0, 0.0], [1, 2], [5.0, 6.0, 7.0, 8.0])
    assert Moment.of(view, 0, 1.0, 0.0, 1, 0.0).size.tolist() == [5.0, 6.0, 7.0]


def test_only_the_oldest_that_waited_too_long_are_forced() -> None:
    view = view_of([0.0], [8], [5.0, 6.0, 7.0], waited_s=[9.0, 4.0, 1.0])
    assert Moment.of(view, 0, 1.0, 0.0, 0, 3.0).forced == 2
    assert Moment.of(view, 0, 1.0, 0.0, 0, 0.0).forced == 0


def test_weights_are_powers_of_the_discount() -> None:
    view = view_of([4.0], [1], [5.0], projections=[[4.0, 4.0, 4.0]], growth=[0.0, 1.0, 2.0])
    assert np.array_equal(Moment.of(view, 2, 0.5, 0.0, 0, 0.0).weight, [1.0, 0.5, 0.25])


def test_a_request_of_known_end_leaves() -> None:
    view = view_of([4.0], [1], [5.0], projections=[[4.0, 4.0, 4.0]], growth=[0.0, 1.0, 2.0], waiting_steps=[2.0])
    assert Moment.of(view, 2, 1.0, 0.0, 0, 0.0).profile.tolist() == [[5.0, 6.0, 0.0]]
