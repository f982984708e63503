"""When a round is ripe."""

from __future__ import annotations

from types import SimpleNamespace

from evenstep.dispatch.rounds.rounds import Rounds
from evenstep.dispatch.settings import Settings
from evenstep.dispatch.steps.lockstep import NEW, Lockstep
from evenstep.dispatch.turn import Turn


class OneGroup:
    """Rounds of one group that always has a free slot, while a request waits."""

    def __init__(self, lockstep: Lockstep) -> None:
        self.turn = Turn(Settings())
        pool, mirror = SimpleNamespace(here=[0]), SimpleNamespace(open_groups=lambda: [0])
        self.rounds = Rounds(self.turn, pool, mirror)
        self.rounds.begin(lockstep)

    def open(self, now_s: float) -> None:
        self.turn.now_s = now_s
        self.rounds.open()

    def close(self, now_s: float, gather_s: float) -> set[int]:
        self.turn.now_s = now_s
        return self.rounds.close(gather_s)


def two_running():
    """A group in which one of two requests has begun the second step."""
    lockstep = Lockstep([0])
    last = []
    for _ in range(2):
        lockstep.joins(0)
        step = lockstep.place(0, NEW, 1, 1.0)
        last.append(lockstep.deliver(0, NEW, step, 1.0))
    while lockstep.is_between(0):
        last[0] = lockstep.deliver(0, last[0], last[0] + 1, 2.0)
    return OneGroup(lockstep), lockstep, last


def test_an_open_round_is_ripe_when_the_step_is_delivered_or_its_time_is_over():
    found, lockstep, last = two_running()
    found.open(5.0)
    assert not found.rounds.ripe
    found.open(5.4)
    assert found.rounds.deadline_s(0.5) == 5.5
    assert found.close(5.4, 0.5) == {0}
    lockstep.deliver(0, last[1], last[1] + 1, 5.1)
    found.rounds.stepped(0)
    assert found.rounds.ripe and found.close(5.1, 0.5) == set()
    assert not found.rounds.ripe and found.rounds.deadline_s(0.5) == float("inf")


def test_a_step_that_is_delivered_makes_a_round_ripe_though_somebody_has_begun_the_next():
    found, lockstep, last = two_running()
    found.open(5.0)
    lockstep.deliver(0, last[0], last[0] + 1, 5.0)
    lockstep.deliver(0, last[1], last[1] + 1, 5.1)
    assert not lockstep.is_between(0)
    found.rounds.stepped(0)
    assert found.rounds.ripe and found.close(5.1, 0.5) == set()


def test_a_round_opened_between_two_steps_decides_at_once():
    found, lockstep, last = two_running()
    lockstep.deliver(0, last[1], last[1] + 1, 5.1)
    found.open(5.2)
    assert found.rounds.ripe


def test_an_idle_group_decides_at_once():
    found = OneGroup(Lockstep([0]))
    found.open(0.0)
    assert found.rounds.ripe
