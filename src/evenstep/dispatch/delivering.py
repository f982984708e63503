"""The path of a chunk: how many tokens came for whom, and which step of its group that belongs to.

Rules of this file. What chunks usually do is written twice: here, and compiled for many chunks at once
(`delivering_kernel`), steps that begin and end with them included; both leave the same numbers. Everything else goes
through `Delivering._deliver`.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable

import numpy as np

from evenstep.addresses import placed
from evenstep.dispatch.delivering_kernel import PLACES, QUIET, deliver
from evenstep.dispatch.fitting import Fitting
from evenstep.dispatch.lockstep import NEW, WIDE
from evenstep.dispatch.mirror_layout import LOAD
from evenstep.dispatch.records import Chunks, Record
from evenstep.dispatch.rows_layout import COPIES, PRODUCED, WORKER
from evenstep.dispatch.settings import Settings
from evenstep.request import I8


class Delivering(Fitting):
    """Requests, the rounds that admit them, and the chunks they get.

    Args:
        settings, policy, predictor, stopwatch, overruns, log: as in `Dispatcher`.

    Attributes:
        counts: int64[PLACES], where `delivering_kernel.deliver` finds everything; it stays the same array.
    """

    def __init__(
        self, settings: Settings, policy: str, predictor: str, stopwatch: Callable[[], float] | None,
        overruns: frozenset[int], log: Callable[[Record], None] | None,
    ) -> None:  # fmt: skip
        super().__init__(settings, policy, predictor, stopwatch, overruns)
        self._log, self._chunks = log, list[tuple[int, int, float]]()
        self._logged_s = -math.inf
        self.counts: I8 = np.zeros(PLACES, np.int64)
        self._quiet: memoryview[int] = memoryview(self.counts).cast("B").cast("q")  # type: ignore[assignment]

    def produced(self, row: int, tokens: int) -> None:
        """A chunk of the request in this row carried so many tokens, 1 or more, of all its copies together."""
        if self._log is not None:
            self._chunks.append((row, tokens, self.now_s))
        worker, step = self._on[row], self._step_of[row] + 1
        group = self._group[worker]
        delivered = self._delivered[group]
        is_usual = step == self._step[group] and 0 < delivered < self._expected[group] - 1
        if is_usual and (tokens == 1 or not self._counts_tokens[group]):
            self._step_of[row] = step  # neither the first of its step nor the last
            self._delivered[group] = delivered + 1
            self._seen_s[group] = self.now_s
            self._produced[row] += tokens
            self._load[worker] += tokens
        else:
            self._deliver(row, worker, group, tokens)

    def produced_all(self, told: I8, counted: int, count: int) -> None:
        """As `produced`, of several chunks in order.

        Args:
            told: int64[2 n], the row of each, then the tokens of each.
            counted: so many of them the host has counted by `delivering_kernel.deliver`, with `counts`.
            count: how many they are.
        """
        if self._log is not None:
            now_s = self.now_s
            pairs = told.reshape(2, -1)[:, :count].T.tolist()
            self._chunks += [(row, tokens, now_s) for row, tokens in pairs]
            counted = deliver(told, 0, count, now_s, self.counts)
        while counted < count:
            row = int(told[counted])
            worker = self._on[row]
            self._deliver(row, worker, self._group[worker], int(told[told.size // 2 + counted]))
            counted = deliver(told, counted + 1, count, self.now_s, self.counts)

    def look_whether_quiet(self) -> None:
        """Say whether somebody waits for the end of a step, whenever that may have changed."""
        rounds = self.rounds
        self._quiet[QUIET] = not (self.pool.here or rounds.opened_s or rounds.ripe)

    @property
    def is_logged(self) -> bool:
        """Whether it writes a decision log."""
        return self._log is not None

    def flush(self) -> None:
        """Log the chunks since the last record."""
        if self._chunks and self._log is not None:
            rows, tokens, times = zip(*self._chunks, strict=True)
            before = (self._logged_s, *times)
            changes = [(place, now_s) for place, now_s in enumerate(times) if now_s != before[place]]
            self._logged_s = times[-1]
            self._log(Chunks(list(rows), [] if set(tokens) == {1} else list(tokens), changes))
            self._chunks.clear()

    def _deliver(self, row: int, worker: int, group: int, tokens: int) -> None:
        """A chunk that begins or ends a step, or is not of the one under way: any chunk."""
        lockstep, last, copies = self.lockstep, self._step_of[row], self.rows.i[COPIES][row]
        newcomer = 0
        if last == NEW:
            self.first_token(row, worker)
            newcomer = self.rows.load(row) - copies
        step = WIDE if copies > 1 else lockstep.place(group, last, tokens, self.now_s)
        if step >= lockstep.step[group] and lockstep.is_between(group):
            self.steps[group].begins(self.mirror, worker, newcomer)
        self._produced[row] += tokens
        self._load[worker] += tokens
        self._step_of[row] = step if copies > 1 else lockstep.deliver(group, last, step, self.now_s)
        self.stepped(group)
        if lockstep.room != self._room:
            self.bind()

    def bind(self) -> None:
        """Look again where the columns are that rounds and chunks write."""
        super().bind()
        rows, mirror = self.rows, self.mirror
        self._generation = rows.generation
        self._step_of, self._on, self._produced = rows.step, rows.i[WORKER], rows.i[PRODUCED]
        self._load, self._group = mirror.f[LOAD], mirror.group
        steps = self.lockstep
        self._step, self._seen_s = steps.step, steps.seen_s
        self._delivered, self._expected = steps.delivered, steps.expected
        self._counts_tokens = steps.counts_tokens
        self._room = steps.room
        begins, members = array("q", [0]), array("q")
        for one in self.steps:
            members += array("q", one.members)
            begins.append(len(members))
        self._members = array("q", [placed(one.numbers) for one in self.steps]), begins, members
        arrays = (
            rows.ints, rows.step, mirror.columns.ints, mirror.columns.floats, mirror.left, steps.step, steps.delivered,
            steps.expected, steps.going, steps.counts_tokens, steps.early, steps.early_delivered, steps.early_going,
            steps.seen_s, steps.ended_s, steps.lasted_s, steps.parted, steps.early_seen_s, *self._members,
        )  # fmt: skip
        sizes = len(rows.step), len(mirror.workers), len(steps.step), steps.room
        self.counts[:] = *sizes, False, *(placed(one) for one in arrays)
        self.look_whether_quiet()


def warm() -> None:
    """Have the compiled part ready for being called from here, compiled where it was not yet."""
    deliver(np.zeros(2, np.int64), 0, 0, 0.0, np.zeros(PLACES, np.int64))
