"""When a round is ripe."""

from __future__ import annotations

from types import SimpleNamespace

from tests.dispatch.one_group import OneGroup
from tests.dispatch.told import Story

from evenstep.dispatch.commands import SendDecode
from evenstep.dispatch.rounds.rounds import Rounds
from evenstep.dispatch.settings import Settings
from evenstep.dispatch.turn import Turn


class RoundsOfOne:
    """Rounds of one group that always has a free slot, while a request waits."""

    def __init__(self, group: OneGroup) -> None:
        self.turn = Turn(Settings())
        self.waiting = [0]
        pool, mirror = SimpleNamespace(here=self.waiting), SimpleNamespace(open_groups=lambda: [0])
        self.rounds = Rounds(self.turn, pool, mirror)
        self.rounds.begin(group.steps)

    def open(self, now_s: float) -> None:
        self.turn.now_s = now_s
        self.rounds.open()

    def close(self, now_s: float, gather_s: float) -> set[int]:
        self.turn.now_s = now_s
        return self.rounds.close(gather_s)


def two_running():
    """A group in which one of two requests has begun the second step."""
    group = OneGroup()
    for name in "ab":
        group.delivers(name, 1.0)
    while group.is_between:
        group.delivers("a", 2.0)
    return RoundsOfOne(group), group


def test_an_open_round_is_ripe_when_the_step_is_delivered_or_its_time_is_over():
    found, group = two_running()
    found.open(5.0)
    assert not found.rounds.ripe
    found.open(5.4)
    assert found.rounds.deadline_s(0.5) == 5.5
    assert found.close(5.4, 0.5) == {0}
    group.delivers("b", 5.1)
    found.rounds.stepped(0)
    assert found.rounds.ripe and found.close(5.1, 0.5) == set()
    assert not found.rounds.ripe and found.rounds.deadline_s(0.5) == float("inf")


def test_a_step_that_is_delivered_makes_a_round_ripe_though_somebody_has_begun_the_next():
    found, group = two_running()
    found.open(5.0)
    group.delivers("a", 5.0)
    group.delivers("b", 5.1)
    assert not group.is_between
    found.rounds.stepped(0)
    assert found.rounds.ripe and found.close(5.1, 0.5) == set()


def test_a_round_opened_between_two_steps_decides_at_once():
    found, group = two_running()
    group.delivers("b", 5.1)
    found.open(5.2)
    assert found.rounds.ripe


def test_an_idle_group_decides_at_once():
    found = RoundsOfOne(OneGroup())
    found.open(0.0)
    assert found.rounds.ripe


def test_a_request_that_comes_while_no_other_waits_decides_at_once():
    """Slots that it finds were free before the step; the one in front of it was offered those."""
    for waiting, is_arrival, is_ripe in ((1, True, True), (2, True, False), (1, False, False)):
        found, _ = two_running()
        found.waiting[:] = range(waiting)
        found.turn.now_s = 5.0
        found.rounds.open(is_arrival)
        assert found.rounds.ripe == is_ripe
        assert found.close(5.0, 0.5) == (set() if is_ripe else {0})


def sent_while_b_is_in_a_step(gather_ms: float, waits: bool) -> list[str]:
    """Where requests 4 and 5 go under round robin, while one worker of group b has delivered a step and the other has not.

    Args:
        waits: request 4 comes while a slot of group b is taken that falls free in this step, and none else is free.
    """
    story, sent = Story("round-robin", gather_ms=gather_ms), {}
    story.worker("a", slots=2 if waits else 4)
    for name in ("b0", "b1"):
        story.worker(name, slots=1 if waits else 4, group="b")
    for request in (1, 2, 3, 0)[: 4 if waits else 3]:
        sent[request] = story.sent(request)
    for story.now_s in (1.0, 1.02, 1.04):
        for command in sent.values():
            story.chunk(command.row)
    story.now_s = 1.06
    if waits:
        assert [sent[1].worker, sent[2].worker, sent[3].worker, sent[0].worker] == ["a", "b0", "b1", "a"]
        story.arrives(4)
        story.chunk(sent[2].row)
        told = story.finishes(sent[2]) + story.tick()
        return [command.worker for command in told if isinstance(command, SendDecode)]
    story.chunk(sent[1].row)
    story.chunk(sent[2].row)
    return [story.sent(request).worker for request in (4, 5)]


def test_a_slot_that_falls_free_in_a_step_waits_for_the_rest_of_it():
    assert sent_while_b_is_in_a_step(gather_ms=2.0, waits=True) == []
    assert sent_while_b_is_in_a_step(gather_ms=0.0, waits=True) == ["b0"]


def test_no_worker_is_passed_over_whose_slots_were_free_before_the_step():
    assert sent_while_b_is_in_a_step(gather_ms=2.0, waits=False) == ["a", "b0"]
