"""One barrier group on its own: requests that deliver and leave, without a dispatcher."""

from __future__ import annotations

import numpy as np

from evenstep import compiled
from evenstep.dispatch.columns import Columns
from evenstep.dispatch.fleet.mirror import WorkerColumns
from evenstep.dispatch.requests.rows import RequestColumns
from evenstep.dispatch.rounds.barriers import tables_of
from evenstep.dispatch.steps.groups import GroupSteps
from evenstep.dispatch.steps.lockstep import count_chunks, count_leave
from evenstep.dispatch.steps.state import NEW

_count, _leave = compiled.entry(count_chunks), compiled.entry(count_leave)


class OneGroup:
    """Its requests by name, and when its steps ended.

    Args:
        workers: in the group; all requests are on the first.
    """

    def __init__(self, workers: int = 1) -> None:
        self.steps = GroupSteps([list(range(workers))], [0])
        self.requests, self.workers = Columns(RequestColumns, 64), Columns(WorkerColumns, workers)
        self.requests.at.step[:] = memoryview(np.full(64, NEW)).cast("B").cast("q")
        self.requests.arrays.copies[:] = 1
        self.row, self.free, self.ended = {}, list(range(64)), []
        self.at = self.steps.at

    def tables(self):
        one, other = np.ones(1, np.int64), np.full(1, -1)
        signals = (one, other) if compiled.numba else (memoryview(one).cast("B").cast("q"), [-1])
        return tables_of(self.steps, self.requests.given, self.workers.given, signals)

    def delivers(self, name, now_s: float, tokens: int = 1, copies: int = 1) -> None:
        row = self.row.get(name, -1)
        joined = row < 0
        if joined:
            row = self.row[name] = self.free.pop(0)
            self.requests.at.step[row], self.requests.at.copies[row] = NEW, copies
            self.requests.at.produced[row] = 0
            self.at.running[0] += 1
        self.steps.make_room(0, self.requests.at.step[row], tokens)
        told = np.array([row]), np.array([tokens]), np.array([now_s])
        before = self.at.step[0], self.at.ended_s[0]
        assert _count(*told, 0, 1, row if joined else -1, self.tables()) == 1
        self._note(*before)

    def leaves(self, name) -> None:
        before = self.at.step[0], self.at.ended_s[0]
        row = self.row.pop(name)
        _leave(row, self.tables())
        self.free.append(row)
        self._note(*before)

    def _note(self, step: int, ended_s: float) -> None:
        """Steps that ended at once share the time since the last one."""
        count, at_s = self.at.step[0] - step, self.at.ended_s[0]
        if count == 1:
            self.ended.append(at_s)
        else:
            self.ended += [ended_s + (at_s - ended_s) * n / count for n in range(1, count + 1)]

    def last(self, name) -> int:
        return self.requests.at.step[self.row[name]]

    @property
    def is_between(self) -> bool:
        return not self.at.delivered[0]

    @property
    def expected(self) -> int:
        return self.at.expected[0]

    @property
    def running(self) -> int:
        return self.at.running[0]

    def begun(self, names):
        """So many requests in step: three steps of a second."""
        for now_s in (1.0, 2.0, 3.0):
            for name in names:
                self.delivers(name, now_s)
        assert self.ended[-2:] == [2.0, 3.0]
        self.ended.clear()
        return self
