"""Deadlines of newcomers."""

from __future__ import annotations

from tests.dispatch.told import Story

from evenstep.dispatch import events as ev
from evenstep.dispatch.commands import Reject, SendDecode
from evenstep.dispatch.settings import Settings


def full(**options) -> Story:
    """A worker whose only slot is taken."""
    story = Story("jsq", **{"ttl_s": 5.0, **options})
    story.worker("a", slots=1)
    story.sent(1)
    return story


def expired(told) -> list[int]:
    return [c.request for c in told if isinstance(c, Reject) and c.reason == "expired"]


def test_who_is_sent_by_the_next_tick_never_had_a_deadline():
    story = Story("jsq")
    story.worker("a", slots=1)
    story.arrives(1)
    assert story.d.parts.deadlines.newcomers and not story.d.parts.fleet.timers.at
    story.tick()
    assert not story.d.parts.deadlines.newcomers and not story.d.parts.fleet.timers.at


def test_who_still_waits_after_a_tick_has_the_deadline_of_its_arrival():
    story = full()
    story.arrives(2)
    story.tick(1.0)
    assert story.wake_s == story.d.parts.deadlines.next_s == 5.0
    assert expired(story.tick(4.9)) == [] and expired(story.tick(5.0)) == [2]


def test_a_deadline_that_is_over_at_the_next_tick_is_over_before_its_round():
    story = Story("jsq", ttl_s=5.0)
    story.worker("a", slots=9)
    story.arrives(1)
    story.arrives(2, at=3.0)
    told = story.tick(6.0)
    assert expired(told) == [1] and [c.request for c in told if isinstance(c, SendDecode)] == [2]


def test_other_rules_hold_for_those_who_wait_already():
    story = full()
    story.arrives(2)
    story.tell(ev.Reloaded, settings=Settings(ttl_s=50.0, gather_ms=0.0))
    story.arrives(3, at=1.0)
    assert expired(story.tick(5.0)) == []
    story.tell(ev.Reloaded, settings=Settings(ttl_s=8.0, gather_ms=0.0))
    assert story.wake_s == 8.0
    assert expired(story.tick(8.0)) == [2] and expired(story.tick(9.0)) == [3]
