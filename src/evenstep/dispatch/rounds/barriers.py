"""The steps of all barrier groups: which step each request delivered last, and what the steps cost."""

from __future__ import annotations

from evenstep.dispatch.fleet.mirror import Mirror
from evenstep.dispatch.requests.rows import Rows
from evenstep.dispatch.requests.rows_layout import COPIES
from evenstep.dispatch.rounds.rounds import Rounds
from evenstep.dispatch.steps.lockstep import BEHIND, WIDE, Lockstep
from evenstep.dispatch.steps.steps import Steps
from evenstep.dispatch.transitions import State


class Barriers:
    """Lockstep and step times of each group.

    Args:
        rows: the table of requests.
        mirror: the workers.
        rounds: they need not wait for a step that has ended.

    Attributes:
        lockstep: who delivered which step. steps: what the steps of each group took.
    """

    def __init__(self, rows: Rows, mirror: Mirror, rounds: Rounds) -> None:
        self._rows, self._mirror, self._rounds = rows, mirror, rounds
        self.lockstep, self.steps = Lockstep([]), list[Steps]()

    def begin(self) -> None:
        """Places or groups of workers changed: rounds and steps begin anew."""
        rows, mirror = self._rows, self._mirror
        running = [0] * mirror.groups
        for group, requests in zip(mirror.group, mirror.requests, strict=True):
            running[group] += requests
        self.lockstep = Lockstep(running)
        self._rounds.begin(self.lockstep)
        for row in rows.by_request.values():
            if rows.state(row) is State.RUNNING:
                rows.step[row] = WIDE if rows.i[COPIES][row] > 1 else BEHIND
        members = [[g for g, q in enumerate(mirror.group) if q == group] for group in range(mirror.groups)]
        self.steps = [Steps(places) for places in members]

    def stepped(self, group: int) -> None:
        """Count the steps of a group that have ended; its rounds need not wait any longer."""
        ended, steps = self.lockstep.ended, self.steps[group]
        if not ended:
            return
        for number, at_s in enumerate(ended):
            if number:
                steps.begins(self._mirror)
            steps.completed(at_s)
        ended.clear()
        if not self.lockstep.is_between(group):
            steps.begins(self._mirror)
        self._rounds.stepped(group)

    def leaves(self, row: int, worker: int) -> None:
        """A running request leaves its worker: the next steps of its group are delivered without it."""
        mirror, lockstep, last = self._mirror, self.lockstep, self._rows.step[row]
        group = mirror.group[worker]
        mirror.leaves(worker)
        if lockstep.was_in_step(group, last):
            mirror.left[worker] += self._rows.load(row) - self._rows.i[COPIES][row]
        lockstep.leave(group, last)
        self.stepped(group)
        if not lockstep.running[group]:
            self.steps[group].stopped(mirror)
