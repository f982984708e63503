"""Deadlines of newcomers."""

from __future__ import annotations

import pytest
from tests.dispatch.batches import Batches, state
from tests.dispatch.told import Story

from evenstep.dispatch import events as ev
from evenstep.dispatch.commands import Reject, SendDecode
from evenstep.dispatch.settings import Settings
from evenstep.errors import InputError


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
    assert story.d.newcomers and not len(story.d.timers)
    story.tick()
    assert not story.d.newcomers and not len(story.d.timers)


def test_who_still_waits_after_a_tick_has_the_deadline_of_its_arrival():
    story = full()
    story.arrives(2)
    story.tick(1.0)
    assert story.wake_s == story.d.deadline_s == 5.0
    assert expired(story.tick(4.9)) == [] and expired(story.tick(5.0)) == [2]


def test_a_deadline_that_is_over_at_the_next_tick_is_over_before_its_round():
    story = Story("jsq", ttl_s=5.0)
    story.worker("a", slots=9)
    story.arrives(1)
    story.arrives(2, at=3.0)
    told = story.tick(6.0)
    assert expired(told) == [1] and [c.request for c in told if isinstance(c, SendDecode)] == [2]


def test_other_rules_hold_for_those_who_come_after_them():
    story = full()
    story.arrives(2)
    story.tell(ev.Reloaded, settings=Settings(ttl_s=50.0, gather_ms=0.0))
    story.arrives(3)
    assert expired(story.tick(5.0)) == [2] and expired(story.tick(50.0)) == [3]


def test_a_request_of_no_tokens_is_refused():
    story = full()
    with pytest.raises(InputError, match="prompt_tokens is 0"):
        story.arrives(2, prompt_tokens=0)


def test_a_prompt_that_is_counted_by_row_is_what_its_event_leaves():
    found = []
    for is_by_row in (True, False):
        story = Batches(0)
        d = story.d
        d.handle(ev.Reloaded(now_s=0.0, policy="jsq:ties=lowest", settings=None))
        story.one_by_one([ev.Arrived(now_s=1.0, request=1, prompt_tokens=30)])
        story.one_by_one([ev.Tick(now_s=1.0)])
        row = d.rows.by_request[1]
        d.now_s = 1.5
        d.produced(row, 1)
        before = state(d)
        if is_by_row:
            d.counted(row, 44)
        else:
            assert d.handle(ev.PromptCounted(now_s=1.5, request=1, prompt_tokens=44)) == []
        assert state(d) != before
        found.append(state(d))
    assert found[0] == found[1]
