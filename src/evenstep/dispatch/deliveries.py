"""Counts delivered chunks: tokens for each request, and the step of the barrier group that they belong to.

Rules of this file. `Deliveries.produced` itself counts only chunks of one step that neither begin nor end it. The others go
to `steps.lockstep`. That leaves first tokens and tables without room to `Deliveries.deliver`, and reports ended steps for
which rounds wait.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep import compiled
from evenstep.dispatch.columns import numbers
from evenstep.dispatch.lifecycle import Lifecycle
from evenstep.dispatch.parts import Parts
from evenstep.dispatch.steps.lockstep import AHEAD, count_chunks
from evenstep.dispatch.steps.state import NEW
from evenstep.request import I8

_count = compiled.entry(count_chunks)


class Deliveries:
    """Counts delivered chunks: their tokens, and the steps of barrier groups that they begin and end."""

    def __init__(self, parts: Parts, lifecycle: Lifecycle) -> None:
        self._turn, self._rows, self._mirror = parts.turn, parts.rows, parts.fleet.mirror
        self._barriers, self._rounds, self._pool = parts.barriers, parts.rounds, parts.pool
        self._lifecycle, self._journal = lifecycle, parts.journal
        self._is_logged, self._chunks = parts.journal.log is not None, parts.journal.chunks
        self._one: I8 = np.zeros(2, np.int64)
        self._single = numbers(self._one)
        self._bound: tuple[Any, ...] = (None, None, None, 0)
        self.look()

    def produced(self, row: int, tokens: int) -> None:
        """Count a chunk of the request in this row, at the dispatcher's present time (`Dispatcher.now_s`).

        Call it for each chunk of the current decode call; `row` is as in its command. The call's first moves the request
        to running. `tokens` are new output tokens, 1 or more, of all copies together. `Dispatcher.due` may become true.
        """
        now_s = self._turn.now_s
        if self._is_logged:
            self._chunks.append((row, tokens, now_s))
        worker, step = self._on[row], self._step_of[row] + 1
        group = self._group[worker]
        ahead, delivered = step - self._step[group], self._delivered[group]
        if ahead == 0:  # neither the first of its step nor the last
            is_usual = 0 < delivered < self._expected[group] - 1
        else:  # not the first of a step that the group has yet to begin
            is_usual = delivered > 0 and 0 < ahead <= self._early[group] and ahead < AHEAD
        if is_usual and (tokens == 1 or not self._counts_tokens[group]):
            self._step_of[row] = step
            if ahead == 0:
                self._delivered[group] = delivered + 1
                self._seen_s[group] = now_s
            else:
                at = group * self._early_room + ahead - 1
                self._early_delivered[at] += 1
                self._early_seen_s[at] = now_s
            self._produced[row] += tokens
            self._load[worker] += tokens
        else:
            self._single[0], self._single[1] = row, tokens
            if not _count(self._one, 0, 1, now_s, -1, self._barriers.tables()):
                self.deliver(row, tokens)
            if self._ended[0] >= 0:
                self._barriers.stepped()

    def deliver(self, row: int, tokens: int) -> None:
        """Count a chunk that `count_chunks` did not: a first token, or one for which the tables get more room here.

        Raises RuntimeError if it still cannot be counted.
        """
        worker, last, joined = self._on[row], self._step_of[row], -1
        if last == NEW:
            self._lifecycle.first_token(row, worker)
            joined = row
        self._barriers.all.make_room(self._group[worker], last, tokens)
        self._single[0], self._single[1] = row, tokens
        if not _count(self._one, 0, 1, self._turn.now_s, joined, self._barriers.tables()):
            raise RuntimeError(f"a chunk of row {row} cannot be counted")
        if self._barriers.all.generation != self._bound[3]:
            self._bind()

    def look(self) -> None:
        """Refresh references to columns that may have been replaced, and `Barriers.quiet`; call it after each event."""
        barriers, rounds, bound = self._barriers, self._rounds, self._bound
        steps = barriers.all
        is_bound = self._rows.at is bound[0] and self._mirror.group is bound[1] and steps is bound[2]
        if not is_bound or steps.generation != bound[3]:
            self._bind()
        barriers.quiet[0] = not (self._pool.here or rounds.opened_s or rounds.ripe)

    def _bind(self) -> None:
        """Keep references to the present columns that `produced` reads and writes."""
        rows, mirror, steps = self._rows.at, self._mirror.at, self._barriers.all
        self._bound = rows, self._mirror.group, steps, steps.generation
        self._step_of, self._on, self._produced = rows.step, rows.worker, rows.produced
        self._load, self._group, self._ended = mirror.load, self._mirror.group, self._barriers.ended
        self._step, self._seen_s = steps.at.step, steps.at.seen_s
        self._delivered, self._expected = steps.at.delivered, steps.at.expected
        self._counts_tokens, self._early = steps.at.counts_tokens, steps.at.early
        early = steps.early.at
        self._early_delivered, self._early_seen_s, self._early_room = early.delivered, early.seen_s, steps.early_room
