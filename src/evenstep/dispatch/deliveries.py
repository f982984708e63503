"""The path of a chunk: how many tokens came for which request, and which step of its group they belong to.

Rules of this file. Chunks are counted by compiled code, many at once (`deliveries_kernel`), steps that begin and end with
them included; `Deliveries.produced` has a shortcut for a chunk that neither begins nor ends a step. Everything else goes
through `Deliveries.deliver`.
"""

from __future__ import annotations

from array import array

import numpy as np

from evenstep.addresses import placed
from evenstep.dispatch.deliveries_kernel import PLACES, QUIET, deliver
from evenstep.dispatch.fleet.mirror_layout import LOAD
from evenstep.dispatch.life import Requests
from evenstep.dispatch.parts import Parts
from evenstep.dispatch.requests.rows_layout import COPIES, PRODUCED, WORKER
from evenstep.dispatch.steps.lockstep import NEW, WIDE
from evenstep.request import I8


class Deliveries:
    """Counts chunks.

    Args:
        parts: where everything about requests and workers is kept.
        requests: moves a request on that has its first token.

    Attributes:
        counts: int64[PLACES], where `deliveries_kernel.deliver` finds everything; it stays the same array.
    """

    def __init__(self, parts: Parts, requests: Requests) -> None:
        self._turn, self._rows, self._mirror = parts.turn, parts.rows, parts.fleet.mirror
        self._barriers, self._rounds, self._pool = parts.barriers, parts.rounds, parts.pool
        self._requests, self._journal = requests, parts.journal
        self._is_logged, self._chunks = parts.journal.log is not None, parts.journal.chunks
        self.counts: I8 = np.zeros(PLACES, np.int64)
        self._quiet: memoryview[int] = memoryview(self.counts).cast("B").cast("q")  # type: ignore[assignment]
        self.bind()

    def produced(self, row: int, tokens: int) -> None:
        """A chunk of the request in this row carried so many tokens, 1 or more, of all its copies together."""
        now_s = self._turn.now_s
        if self._is_logged:
            self._chunks.append((row, tokens, now_s))
        worker, step = self._on[row], self._step_of[row] + 1
        group = self._group[worker]
        delivered = self._delivered[group]
        is_usual = step == self._step[group] and 0 < delivered < self._expected[group] - 1
        if is_usual and (tokens == 1 or not self._counts_tokens[group]):
            self._step_of[row] = step  # neither the first of its step nor the last
            self._delivered[group] = delivered + 1
            self._seen_s[group] = now_s
            self._produced[row] += tokens
            self._load[worker] += tokens
        else:
            self.deliver(row, worker, group, tokens)

    def produced_all(self, told: I8, counted: int, count: int) -> None:
        """As `produced`, of several chunks in order.

        Args:
            told: int64[2 n], the row of each, then the tokens of each.
            counted: so many of them the host has counted by `deliveries_kernel.deliver`, with `counts`.
            count: how many they are.
        """
        now_s = self._turn.now_s
        if self._is_logged:
            pairs = told.reshape(2, -1)[:, :count].T.tolist()
            self._chunks += [(row, tokens, now_s) for row, tokens in pairs]
            counted = deliver(told, 0, count, now_s, self.counts)
        while counted < count:
            row = int(told[counted])
            worker = self._on[row]
            self.deliver(row, worker, self._group[worker], int(told[told.size // 2 + counted]))
            counted = deliver(told, counted + 1, count, now_s, self.counts)

    def deliver(self, row: int, worker: int, group: int, tokens: int) -> None:
        """A chunk that begins or ends a step, or is not of the one under way: any chunk."""
        barriers, now_s = self._barriers, self._turn.now_s
        lockstep, last, copies = barriers.lockstep, self._step_of[row], self._rows.i[COPIES][row]
        newcomer = 0
        if last == NEW:
            self._requests.first_token(row, worker)
            newcomer = self._rows.load(row) - copies
        step = WIDE if copies > 1 else lockstep.place(group, last, tokens, now_s)
        if step >= lockstep.step[group] and lockstep.is_between(group):
            barriers.steps[group].begins(self._mirror, worker, newcomer)
        self._produced[row] += tokens
        self._load[worker] += tokens
        self._step_of[row] = step if copies > 1 else lockstep.deliver(group, last, step, now_s)
        barriers.stepped(group)
        if lockstep.room != self._room:
            self.bind()

    def look(self) -> None:
        """Something may have changed: arrays are in other places, or a decision waits for the end of a step."""
        if self._rows.generation != self._bound[0] or self._mirror.generation != self._bound[1]:
            self.bind()
        rounds = self._rounds
        self._quiet[QUIET] = not (self._pool.here or rounds.opened_s or rounds.ripe)

    def bind(self) -> None:
        """Look again where the columns are that chunks write."""
        rows, mirror, lockstep = self._rows, self._mirror, self._barriers.lockstep
        self._bound = rows.generation, mirror.generation
        self._step_of, self._on, self._produced = rows.step, rows.i[WORKER], rows.i[PRODUCED]
        self._load, self._group = mirror.f[LOAD], mirror.group
        self._step, self._seen_s = lockstep.step, lockstep.seen_s
        self._delivered, self._expected = lockstep.delivered, lockstep.expected
        self._counts_tokens, self._room = lockstep.counts_tokens, lockstep.room
        begins, members = array("q", [0]), array("q")
        for one in self._barriers.steps:
            members += array("q", one.members)
            begins.append(len(members))
        self._members = array("q", [placed(one.numbers) for one in self._barriers.steps]), begins, members
        arrays = (
            rows.ints, rows.step, mirror.columns.ints, mirror.columns.floats, mirror.left, lockstep.step,
            lockstep.delivered, lockstep.expected, lockstep.going, lockstep.counts_tokens, lockstep.early,
            lockstep.early_delivered, lockstep.early_going, lockstep.seen_s, lockstep.ended_s, lockstep.lasted_s,
            lockstep.parted, lockstep.early_seen_s, *self._members,
        )  # fmt: skip
        sizes = len(rows.step), len(mirror.workers), len(lockstep.step), lockstep.room
        self.counts[:] = *sizes, False, *(placed(one) for one in arrays)
        rounds = self._rounds
        self._quiet[QUIET] = not (self._pool.here or rounds.opened_s or rounds.ripe)


def warm() -> None:
    """Compile what counts chunks, where it was not compiled yet."""
    deliver(np.zeros(2, np.int64), 0, 0, 0.0, np.zeros(PLACES, np.int64))
