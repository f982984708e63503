"""Counts delivered chunks, a batch at a time: tokens for each request, and the step of the barrier group they belong to.

Rules of this file. `Deliveries.produced` keeps a chunk; `Deliveries.count` counts all that are kept, in order, by
`steps.lockstep.count_chunks`. That leaves first tokens and tables without room to this file, and reports ended steps for
which rounds wait.
"""

from __future__ import annotations

import numpy as np

from evenstep import compiled
from evenstep.dispatch.columns import numbers
from evenstep.dispatch.lifecycle import Lifecycle
from evenstep.dispatch.parts import Parts
from evenstep.dispatch.steps.lockstep import count_chunks
from evenstep.dispatch.steps.state import NEW

#: Chunks that are kept before they are counted.
ROOM = 512
_count = compiled.entry(count_chunks)


class Deliveries:
    """Counts delivered chunks: their tokens, and the steps of barrier groups that they begin and end."""

    def __init__(self, parts: Parts, lifecycle: Lifecycle) -> None:
        self._turn, self._rows, self._mirror = parts.turn, parts.rows, parts.fleet.mirror
        self._barriers, self._rounds, self._pool = parts.barriers, parts.rounds, parts.pool
        self._lifecycle, self._journal = lifecycle, parts.journal
        columns = np.zeros(ROOM, np.int64), np.zeros(ROOM, np.int64), np.zeros(ROOM)
        self._row, self._tokens, self._seen_s = map(numbers, columns)
        self._columns = (self._row, self._tokens, self._seen_s) if compiled.numba is None else columns
        self._kept = 0
        self.look()

    def produced(self, row: int, tokens: int) -> None:
        """Keep a chunk of the request in this row, at the dispatcher's present time (`Dispatcher.now_s`), for `count`.

        Call it for each chunk of the current decode call; `row` is as in its command. The call's first moves the request
        to running. `tokens` are new output tokens, 1 or more, of all copies together.
        """
        at = self._kept
        self._row[at], self._tokens[at], self._seen_s[at] = row, tokens, self._turn.now_s
        self._kept = at + 1
        if at + 1 == ROOM:
            self.count()

    def count(self) -> None:
        """Count the chunks that are kept, each at its own time, and log them. `Dispatcher.due` may become true."""
        kept, self._kept = self._kept, 0
        if not kept:
            return
        turn, ended, at = self._turn, self._barriers.ended, 0
        self._journal.chunks(self._row[:kept], self._tokens[:kept], self._seen_s[:kept])
        now_s = turn.now_s
        while at < kept:
            before, at = at, _count(*self._columns, at, kept, -1, self._barriers.tables())
            if at == before:
                turn.now_s = self._seen_s[at]
                self._deliver(at)
                at += 1
            if ended[0] >= 0:
                turn.now_s = self._seen_s[at - 1]
                self._barriers.stepped()
        turn.now_s = now_s

    def _deliver(self, at: int) -> None:
        """Count a chunk that `count_chunks` did not: a first token, or one for which the tables get more room here.

        `at` is its place among the chunks kept. Raises RuntimeError if it still cannot be counted.
        """
        row = self._row[at]
        worker, last, joined = self._rows.at.worker[row], self._rows.at.step[row], -1
        if last == NEW:
            self._lifecycle.first_token(row, worker)
            joined = row
        self._barriers.all.make_room(self._mirror.group[worker], last, self._tokens[at])
        if _count(*self._columns, at, at + 1, joined, self._barriers.tables()) == at:
            raise RuntimeError(f"a chunk of row {row} cannot be counted")

    def look(self) -> None:
        """Set `Barriers.quiet` anew; call it after each event."""
        rounds = self._rounds
        self._barriers.quiet[0] = not (self._pool.here or rounds.opened_s or rounds.ripe)
