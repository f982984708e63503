"""What the compiled cluster knows of the coming steps."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sim.kernels import put, state
from tests.sim.policies import Fingerprint

from evenstep.compiled import as_plain, column, cut
from evenstep.request import Trace
from evenstep.sim.cluster import lookahead as lookahead_kernel
from evenstep.sim.cluster.drift import Drift
from evenstep.sim.cluster.model import DEPARTURES, EXPECTED, NEVER
from evenstep.sim.cluster.state import Options

overloaded, due_predictions = (
    as_plain(lookahead_kernel.overloaded),
    as_plain(lookahead_kernel.due_predictions),
)
ONE = Trace(np.array([100]), np.array([6]))


def looking(horizon: int, prediction: int = DEPARTURES, growth: float = 1.0, workers: int = 1, **options):
    """A run of workers with two slots, whose policy looks ahead."""
    asked = Options(prediction=prediction, decisions=True, **options)
    fleet = {"workers": workers, "slots": 2, "drift": Drift(growth=growth)}
    return state(ONE, Fingerprint(horizon=horizon), options=asked, **fleet).run


@given(st.lists(st.integers(1, 3), max_size=12), st.integers(0, 8), st.integers(0, 3))
def test_a_step_is_overloaded_by_the_words_of_definition_1(loads, free, first):
    waiting = np.concatenate([np.zeros(first), loads])
    commonest = max(Counter(loads).values(), default=0)
    assert overloaded(waiting, first, len(loads), free) == (
        len(loads) - commonest >= free or (free == 0 and len(loads) >= free)
    )


@pytest.mark.parametrize(
    ("predicted", "leave", "is_due"),
    [(-1, NEVER, True), (8, NEVER, False), (6, NEVER, True), (8, 11, False), (8, 10, True)],
    ids=["never asked", "fresh", "old", "leaves later", "should have left"],
)
def test_a_prediction_is_due_when_missing_old_or_overtaken(predicted, leave, is_due):
    run = looking(3, workers=2, refresh_every=4)
    run.fleet.groups[0].step = 10
    run.fleet.running[:] = 0, 1
    run.slots.rows[3].row = 5
    put(run.ahead.look[3], predicted=predicted, leave=leave)
    due_predictions(run)
    assert column(cut(run.ahead.due, 0, int(run.now.due)), "slot").tolist() == [3] * is_due


def answered(run, *steps_left: float) -> None:
    """The host answers for the first slots."""
    for slot, steps in enumerate(steps_left):
        put(run.ahead.due[slot], slot=slot, steps_left=steps)
    run.now.due = len(steps_left)
    as_plain(lookahead_kernel.take_predictions)(run)


def test_answers_enter_the_window_of_departures_rounded_up_and_replace_older_ones():
    run = looking(2, growth=2.0)
    run.fleet.groups[0].step = 5
    put(run.slots.rows[0], units=100, admit=5)
    put(run.slots.rows[1], units=40, admit=4)
    answered(run, 1.2, -1.0)
    assert column(run.ahead.look, "leave").tolist() == [7, NEVER]
    assert run.ahead.leaving[0].tolist() == [0, 0, 0, 1]  # step 7 is at 7 mod 4
    assert run.ahead.leaving_units[0].tolist() == [0, 0, 0, 104]
    answered(run, 3.0, 0.0)
    assert column(run.ahead.look, "leave").tolist() == [
        8,
        6,
    ]  # a request leaves after one step at the earliest
    assert run.ahead.leaving[0].tolist() == [1, 0, 1, 0]
    assert run.ahead.leaving_units[0].tolist() == [106, 0, 44, 0]
    assert run.now.due == 0


def test_projections_grow_with_the_running_and_fall_with_those_that_leave():
    run = looking(3)
    run.fixed.unit, run.fleet.groups[0].step = 0.5, 6
    run.fleet.running[0], run.fleet.units[0] = 2, 30
    place = 8 & run.fixed.window_mask  # one of the two leaves at h = 2 with 12 units
    run.ahead.leaving[0, place], run.ahead.leaving_units[0, place] = 1, 12
    as_plain(lookahead_kernel.project)(run)
    assert run.ahead.projections.tolist() == [[15.0, 16.0, 11.0, 11.5]]


def test_expected_loads_count_every_request_with_its_chance_to_be_there_still():
    run = looking(2, EXPECTED, refresh_every=1)
    run.fleet.groups[0].step = 6
    put(run.slots.rows[1], row=0, units=100, admit=2)
    run.ahead.look[1].predicted = 5
    run.ahead.curves[:] = [np.nan] * 4, [1.0, 0.5, 0.25, 0.0]
    as_plain(lookahead_kernel.project_expected)(run)
    assert run.ahead.projections.tolist() == [[104.0, 105 * 0.5, 0.0]]
