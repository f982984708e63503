"""Time and commands, which all parts share."""

from __future__ import annotations

from tests.dispatch.told import Story

from evenstep.dispatch import events as ev


def test_time_never_goes_back():
    story = Story()
    story.tell(ev.Tick, at=5.0)
    story.tell(ev.Tick, at=3.0)
    assert story.d.now_s == 5.0


def test_commands_are_told_once():
    story = Story()
    story.worker("a")
    story.arrives(1)
    assert len(story.tick()) == 1 and story.tick() == []
