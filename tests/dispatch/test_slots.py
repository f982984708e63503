"""Slots of workers as stories."""

from __future__ import annotations

import pytest
from tests.dispatch.told import Story

from evenstep.dispatch import events as ev
from evenstep.dispatch.commands import SendDecode


def half_seated() -> Story:
    """Request 2 holds one of the two slots that it wants."""
    story = Story("jsq")
    story.worker("a", slots=3)
    story.sent(1, copies=2)
    story.arrives(2, copies=2)
    story.tick()
    assert story.d.parts.slots.seating == {0: [story.d.rows.by_request[2]]}
    return story


def test_a_request_that_holds_some_slots_goes_back_to_the_pool_when_its_worker_leaves():
    story = half_seated()
    story.worker("b", slots=1)
    story.tell(ev.WorkerRemoved, worker="a")
    assert not story.d.parts.slots.seating and list(story.d.pool) == [story.d.rows.by_request[2]]


def test_a_request_that_holds_some_slots_gives_them_back_when_its_client_leaves():
    story = half_seated()
    story.tell(ev.ClientGone, request=2)
    assert not story.d.parts.slots.seating and story.d.mirror.free(0) == 1


def test_a_request_that_holds_some_slots_gives_them_back_when_its_worker_has_too_few_in_all():
    story = Story("jsq")
    story.worker("a", slots=4)
    story.sent(1, copies=2)
    story.arrives(2, copies=3)
    story.tick()
    assert story.d.mirror.free(0) == 0
    story.worker("b", slots=3, heard=False)
    story.worker("a", slots=2)
    assert not story.d.parts.slots.seating
    assert [c.worker for c in story.sampled("b") + story.tick() if isinstance(c, SendDecode)] == ["b"]


def test_who_holds_slots_moves_up_with_its_worker():
    story = Story("jsq")
    story.worker("a", slots=1)
    story.worker("b", slots=3)
    story.sent(1, copies=2)
    story.sent(3)
    story.arrives(2, copies=2)
    story.tick()
    assert list(story.d.parts.slots.seating) == [1]
    story.tell(ev.WorkerRemoved, worker="a", drain=False)
    assert list(story.d.parts.slots.seating) in ([0], [])


@pytest.mark.parametrize("policy", ["jsq", "br-0"])
def test_a_request_for_several_slots_takes_those_that_its_round_does_not_offer(policy):
    """A round offers 32 slots of the fleet, 4 of each worker."""
    story = Story(policy)
    for name in "abcdefgh":
        story.worker(name, slots=64)
    assert story.sent(1, copies=5).request == 1


def test_one_request_at_a_time_gathers_slots_of_a_worker():
    """Two of them would each hold slots that the other needs, and neither would run."""
    story = Story("jsq")
    story.worker("a", slots=4)
    (first,) = [story.sent(1, copies=3)]
    story.arrives(2, copies=4)
    story.arrives(3, copies=4)
    story.tick()
    assert list(story.d.parts.slots.seating.values()) == [[story.d.rows.by_request[2]]]
    sent = [c.request for c in story.tell(ev.ClientGone, request=1) if isinstance(c, SendDecode)]
    assert sent == [2] and first.worker == "a"
    assert not story.d.parts.slots.seating


def test_a_request_for_more_slots_than_a_worker_has_goes_to_a_larger_one():
    story = Story("round-robin")
    story.worker("small", slots=2)
    story.worker("large", slots=8)
    assert [story.sent(k, copies=3).worker for k in (1, 2)] == ["large", "large"]


def test_a_request_is_not_held_for_slots_that_others_have():
    """With two gateways each may use two of four slots. A request for three waits only for requests of ours."""
    story = Story("jsq", gateways=2)
    story.worker("a", slots=4)
    story.sampled("a")
    first = story.sent(1)
    story.arrives(2, copies=3)
    assert not [c for c in story.tick() if isinstance(c, SendDecode)]
    assert [c.request for c in (*story.finishes(first), *story.tick()) if isinstance(c, SendDecode)] == [2]
    story.d.check()
