"""Engines that a request may not be sent to again."""

from __future__ import annotations

from tests.dispatch.told import Story

from evenstep.dispatch import commands as co
from evenstep.dispatch import events as ev


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


def test_a_request_goes_only_to_workers_that_serve_its_model():
    story = Story("jsq:ties=lowest", ttl_s=5.0)
    story.worker("a")
    story.worker("b", slots=1)
    assert story.sent(1, excluded=("a",)).worker == "b"
    assert not [c for c in story.arrives(2, excluded=("a",)) + story.tick() if isinstance(c, co.SendDecode)]
    (expired,) = story.tick(at=5.0)
    assert (expired.request, expired.reason) == (2, "expired"), "it waits for b, and no longer than others"
    story.tell(ev.WorkerRemoved, worker="b", drain=True)
    (refused,) = story.arrives(3, excluded=("a",))
    assert refused.reason == "no-worker"


def test_requests_whose_workers_are_full_keep_no_others_from_a_round():
    """A round looks at a part of the pool. Requests for an adapter that only a full worker serves took all of it."""
    story = Story("jsq:ties=lowest", pool_window=8)
    story.worker("a", slots=1)
    story.worker("b", slots=4)
    for request in range(12):
        story.arrives(request, excluded=("b",))
    story.tick()
    for request in (12, 13):
        assert story.sent(request, excluded=("a",) if request == 13 else ()).worker == "b"
