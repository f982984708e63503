"""Engines that a request may not be sent to again."""

from __future__ import annotations

from tests.dispatch.told import Story


def test_all_engines_of_a_barrier_group_are_lost_with_one_of_them():
    story = Story("jsq:ties=lowest")
    for name, group in (("a", "x"), ("b", "x"), ("c", "")):
        story.worker(name, group=group)
    leg = story.sent(1)
    story.fails(leg, "connect")
    found = story.d.parts.exclusions
    assert found.excluded == {leg.row: {"a", "b"}}
    assert found.has_others(leg.row) and not found.has_others(leg.row, without="c")
    assert found.forbids(leg.row, "b") and not found.forbids(leg.row, "c")
    assert found.concerns([leg.row]) and not found.concerns([leg.row + 1])


def test_nothing_is_kept_of_a_request_that_is_over():
    story = Story("jsq:ties=lowest")
    story.worker("a")
    story.worker("b")
    leg = story.sent(1)
    story.fails(leg, "recomputed")
    found = story.d.parts.exclusions
    assert found.avoided == {leg.row: "a"} and found.forbids(leg.row, "a")
    assert found.forget(leg.row) and not found.forget(leg.row) and not found.avoided
