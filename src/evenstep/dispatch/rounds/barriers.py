"""The steps of all barrier groups: which step each request delivered last, and how long the steps took."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep import compiled
from evenstep.dispatch.columns import Restored, numbers
from evenstep.dispatch.fleet.mirror import Mirror, WorkerColumns
from evenstep.dispatch.requests.rows import RequestColumns, Rows
from evenstep.dispatch.rounds.rounds import Rounds
from evenstep.dispatch.steps.groups import GroupSteps, Steps
from evenstep.dispatch.steps.lockstep import count_leave
from evenstep.dispatch.steps.state import BEHIND, WIDE, Held, StepTables, Told
from evenstep.dispatch.transitions import State

_leave = compiled.entry(count_leave)


class Barriers(Restored):
    """Steps and step times of all barrier groups. The end of a step ends the gathering of its group's round.

    Attributes:
        all: the steps of all groups.
        steps: the figures of each group, by its number.
        quiet: one number, 1 while no request waits for the end of a step.
        ended: one number, the group of which a step ended while a request waited for that; -1 = no group.
    """

    made_anew = ("quiet", "ended", "_signals", "_tables", "_bound")

    def __init__(self, rows: Rows, mirror: Mirror, rounds: Rounds) -> None:
        self._rows, self._mirror, self._rounds = rows, mirror, rounds
        self._make_anew()
        self._have(GroupSteps())

    def _make_anew(self) -> None:
        """Make `quiet` and `ended` anew, and drop the tables that refer to them."""
        self._signals = np.zeros(1, np.int64), np.full(1, -1, np.int64)
        self.quiet, self.ended = map(numbers, self._signals)
        self._tables: StepTables | None = None
        self._bound: tuple[Any, ...] = ()

    def _have(self, steps: GroupSteps) -> None:
        """Use these steps from now on. All rounds are closed, and the tables are dropped."""
        self.all = steps
        self.steps = [Steps(steps, group) for group in range(len(steps))]
        self._rounds.begin(steps)
        self._tables = None

    def begin(self) -> None:
        """Begin rounds and steps anew after workers or groups changed; step counts, step times and fits are lost."""
        rows, mirror = self._rows, self._mirror
        running = [0] * mirror.groups
        for group, requests in zip(mirror.group, mirror.requests, strict=True):
            running[group] += requests
        for row in rows.by_request.values():
            if rows.state(row) is State.RUNNING:
                rows.at.step[row] = WIDE if rows.at.copies[row] > 1 else BEHIND
        members = [[g for g, q in enumerate(mirror.group) if q == group] for group in range(mirror.groups)]
        self._have(GroupSteps(members, running))

    def tables(self) -> StepTables:
        """The tables to pass to `count_chunks` and `count_leave`, rebuilt if columns were replaced; ask before each call."""
        requests, workers = self._rows.columns.given, self._mirror.columns.given
        found, bound = self._tables, self._bound
        if found is None or bound[0] is not requests or bound[1] is not workers or bound[2] != self.all.generation:
            self._bound = requests, workers, self.all.generation
            signals = (self.quiet, self.ended) if compiled.numba is None else self._signals
            found = self._tables = tables_of(self.all, requests, workers, signals)
        return found

    def stepped(self) -> None:
        """End the gathering of the group in `ended`, whose step ended while a request waited, and set `ended` to -1."""
        group, self.ended[0] = self.ended[0], -1
        self._rounds.stepped(group)

    def leaves(self, row: int, worker: int) -> None:
        """Count off the running request in this row, which leaves its worker; next steps are complete without it.

        Call it before the row loses its worker, whose place is `worker`. If a step ends by it, its group's gathering ends.
        """
        group = self._mirror.group[worker]
        self._mirror.runs(worker, -1)
        self.all.make_room(group)
        if _leave(row, self.tables()):
            self._rounds.stepped(group)


def tables_of(steps: GroupSteps, requests: RequestColumns, workers: WorkerColumns, signals: tuple[Any, Any]) -> StepTables:
    """The tables that chunks and leaving requests change; `signals` are `quiet` and `ended` of `StepTables`."""
    return StepTables(
        requests=Told(requests.worker, requests.prompt, requests.produced, requests.copies, requests.step),
        workers=Held(workers.group, workers.running, workers.load, workers.foreign_load, workers.left),
        groups=steps.groups.given,
        early=steps.early.given,
        members=steps.members.given,
        news=steps.news.given,
        early_room=steps.early_room,
        news_room=steps.news_room,
        quiet=signals[0],
        ended=signals[1],
    )
