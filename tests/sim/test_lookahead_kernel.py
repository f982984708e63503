"""What the compiled cluster knows of the coming steps."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sim.kernels import plainly, scalars

from evenstep.routing.view import RUNNING as ON_WORKER
from evenstep.routing.view import WAITING_LOAD
from evenstep.sim import cluster_layout as at
from evenstep.sim import lookahead_kernel

overloaded, due_predictions = (
    plainly(lookahead_kernel.overloaded),
    plainly(lookahead_kernel.due_predictions),
)


@given(st.lists(st.integers(1, 3), max_size=12), st.integers(0, 8), st.integers(0, 3))
def test_a_step_is_overloaded_by_the_words_of_definition_1(loads, free, first):
    waiting = np.zeros((3, first + len(loads)))
    waiting[WAITING_LOAD, first:] = loads
    commonest = max(Counter(loads).values(), default=0)
    assert overloaded(waiting, first, len(loads), free) == (
        len(loads) - commonest >= free or (free == 0 and len(loads) >= free)
    )


@pytest.mark.parametrize(
    ("predicted", "leave", "is_due"),
    [(-1, at.NEVER, True), (8, at.NEVER, False), (6, at.NEVER, True), (8, 11, False), (8, 10, True)],
    ids=["never asked", "fresh", "old", "leaves later", "should have left"],
)
def test_a_prediction_is_due_when_missing_old_or_overtaken(predicted, leave, is_due):
    sc = scalars(workers=2, slots_max=2, refresh_every=4, tokens_per_step=1)
    wi, group_i = np.zeros((4, 2), np.int64), np.full((9, 1), 10)  # step 10
    wi[ON_WORKER] = 0, 1
    slots, look, due = np.full((4, 8), -1), np.full((4, 4), -1), np.zeros(4, np.int64)
    curves = np.zeros((0, 0))
    slots[3, at.ROW] = 5
    look[3, at.PREDICTED], look[3, at.LEAVE] = predicted, leave
    due_predictions(sc, wi, group_i, slots, look, curves, due)
    assert due[: sc[at.DUE_COUNT]].tolist() == [3] * is_due


def test_answers_enter_the_window_of_departures_rounded_up_and_replace_older_ones():
    sc = scalars(
        workers=1, slots_max=2, horizon=3, window_mask=3, delta=2, due_count=2, prediction=at.DEPARTURES
    )
    wi, group_i = np.zeros((4, 1), np.int64), np.zeros((9, 1), np.int64)
    group_i[at.STEP] = 5
    slots, look, leaves = (
        np.zeros((2, 8), np.int64),
        np.zeros((2, 4), np.int64),
        np.zeros((2, 1, 4), np.int64),
    )
    slots[:, at.LOAD0], slots[:, at.ADMIT] = (100, 40), (5, 4)
    take = plainly(lookahead_kernel.take_predictions)
    due = np.array([0, 1])
    take(sc, wi, group_i, slots, look, leaves, due, np.array([1.2, -1.0]))
    assert look[:, at.LEAVE].tolist() == [7, at.NEVER]
    assert leaves[0, 0].tolist() == [0, 0, 0, 1]  # step 7 stands at 7 mod 4
    assert leaves[1, 0].tolist() == [0, 0, 0, 104]
    sc[at.DUE_COUNT] = 2
    take(sc, wi, group_i, slots, look, leaves, due, np.array([3.0, 0.0]))
    assert look[:, at.LEAVE].tolist() == [8, 6]  # a request leaves after one step at the earliest
    assert leaves[0, 0].tolist() == [1, 0, 1, 0]
    assert leaves[1, 0].tolist() == [106, 0, 44, 0]
    assert sc[at.DUE_COUNT] == 0


def test_projections_grow_with_the_running_and_fall_with_those_that_leave():
    sc = scalars(workers=1, slots_max=2, horizon=3, window_mask=3, delta=1)
    sf = np.zeros(32)
    sf[at.UNIT] = 0.5
    wi, group_i = np.zeros((4, 1), np.int64), np.zeros((9, 1), np.int64)
    wi[ON_WORKER], group_i[at.STEP] = 2, 6
    leaves = np.zeros((2, 1, 4), np.int64)
    leaves[:, 0, 8 & 3] = 1, 12  # one of the two leaves at h = 2 with 12 units
    found = np.full((1, 4), np.nan)
    nothing = np.zeros((0, 8), np.int64)
    plainly(lookahead_kernel.project)(
        sc, sf, wi, np.array([30]), group_i, nothing, nothing, leaves, found, np.zeros(0, np.int64), np.zeros(0)
    )  # fmt: skip
    assert found.tolist() == [[15.0, 16.0, 11.0, 11.5]]


def test_expected_loads_count_every_request_with_its_chance_to_be_there_still():
    sc = scalars(workers=1, slots_max=2, horizon=2, delta=1)
    sf = np.zeros(32)
    sf[at.UNIT] = 1.0
    wi, group_i = np.zeros((4, 1), np.int64), np.zeros((9, 1), np.int64)
    group_i[at.STEP] = 6
    slots, look = np.full((2, 8), -1), np.zeros((2, 4), np.int64)
    slots[1, [at.ROW, at.LOAD0, at.ADMIT]] = 0, 100, 2
    look[1, at.PREDICTED] = 5
    curves = np.array([[np.nan] * 4, [1.0, 0.5, 0.25, 0.0]])
    found = np.full((1, 3), np.nan)
    plainly(lookahead_kernel.project_expected)(
        sc, sf, wi, group_i, slots, look, curves, np.arange(3.0), found, np.zeros(1, np.int64), np.zeros(0)
    )
    assert found.tolist() == [[104.0, 105 * 0.5, 0.0]]
