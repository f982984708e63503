"""Steps of barrier groups when their workers change."""

from __future__ import annotations

from tests.dispatch.told import Story

from evenstep.dispatch import events as ev
from evenstep.dispatch.steps.state import BEHIND, WIDE


def test_running_requests_begin_anew_when_groups_change():
    story = Story("jsq")
    story.worker("a", slots=5)
    one, wide = story.sent(1), story.sent(2, copies=2)
    story.chunk(one.row)
    story.chunk(wide.row)
    before = story.d.parts.barriers.all
    story.worker("b", slots=5)
    found = story.d.parts.barriers
    assert found.all is not before and list(found.all.at.running) == [2, 0] and len(found.steps) == 2
    assert story.d.rows.at.step[one.row] == BEHIND and story.d.rows.at.step[wide.row] == WIDE


def test_a_group_in_which_nothing_runs_has_no_step():
    story = Story("jsq")
    story.worker("a")
    leg = story.sent(1)
    for at in (1.0, 2.0, 3.0):
        story.now_s = at
        story.chunk(leg.row)
    assert story.d.parts.barriers.all.at.steps[0] > 0
    story.tell(ev.Finished, request=1, leg=leg.leg)
    assert list(story.d.parts.barriers.all.at.running) == [0]


def test_who_leaves_ends_a_step_that_waited_only_for_it_and_what_gathers_is_decided():
    """Though one of the others has begun the next step."""
    story = Story("jsq", gather_ms=1000.0)
    story.worker("a", slots=4)
    legs = [story.sent(request) for request in (1, 2, 3, 4)]
    for now_s in (1.0, 2.0):
        story.now_s = now_s
        for leg in legs:
            story.chunk(leg.row)
    story.arrives(5)
    story.tick()
    story.now_s = 3.0
    story.chunk(legs[0].row, 2)
    story.chunk(legs[2].row)
    story.finishes(legs[3])
    assert story.tick() == [], "a slot is free, and a decision waits for the rest of the step"
    story.tell(ev.ClientGone, request=2)
    assert story.d.due and [told.request for told in story.tick()] == [5]
