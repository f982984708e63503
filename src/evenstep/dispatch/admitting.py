"""Rounds: when they are opened, what they are about, and how their decisions are carried out.

A round must not keep the host from its reads, whatever the size of fleet and pool: it looks at the oldest `pool_window`
requests, offers `round_slots` slots at most, and what is left is decided in the next round, right after the next reads.
Where many predictions are due they are made first, and the decision follows after the next reads as well.

A small fleet looks at fewer (`window_per_slot`): a policy that balances likes what fits, and with the whole of a long pool
before it takes that first, until only the large are left and run all together.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from evenstep.dispatch import deciding_kernel as kernel
from evenstep.dispatch.deciding import Deciding
from evenstep.dispatch.mirror_layout import LOAD, SENT_LOAD
from evenstep.dispatch.requests import Requests
from evenstep.dispatch.settings import Settings
from evenstep.request import I8
from evenstep.routing.view import HOLD, KV_FREE

_AGAIN_S = (
    0.05  # a policy that holds requests though slots are free is asked again after this long at the latest
)
_FEWEST = 8  # requests that a round looks at however few slots there are


class Admitting(Requests):
    """Requests, and the rounds that admit them.

    Args:
        settings: limits and deadlines.
        policy, predictor, stopwatch, overruns: as in `Dispatcher`.
    """

    def __init__(
        self, settings: Settings, policy: str, predictor: str, stopwatch: Callable[[], float] | None,
        overruns: frozenset[int],
    ) -> None:  # fmt: skip
        super().__init__(settings)
        self._is_prepared = False  # predictions were asked for; the decision is next
        self.deciding = Deciding(
            policy, predictor, rows=self.rows, mirror=self.mirror, prefixes=self.prefixes, waits=self.waits,
            meters=self.meters, notice=self.fleet.notice, settings=settings, stopwatch=stopwatch, overruns=overruns,
        )  # fmt: skip

    def open_rounds(self) -> None:
        """Something changed that a decision should see: the groups with free slots gather for it."""
        if self.pool.is_empty or self.deciding.door.binds_at_once:
            return
        rounds = self.rounds
        for group in self.mirror.open_groups():
            if not rounds.ripe or group not in rounds.opened_s:
                rounds.open(group, self.now_s)
        self.due |= rounds.ripe

    def stepped(self, group: int) -> None:
        """Count the steps of a group that have ended; its rounds need not wait any longer."""
        ended, steps = self.lockstep.ended, self.steps[group]
        if not ended:
            return
        for number, at_s in enumerate(ended):
            if number:
                steps.begins(self.mirror)
            steps.completed(at_s)
        ended.clear()
        if not self.lockstep.is_between(group):
            steps.begins(self.mirror)
        self.rounds.stepped(group)
        if self.rounds.ripe:
            self.due = True
        elif len(self.pool):
            self.open_rounds()

    def close_rounds(self) -> None:
        """Decide the rounds that need not wait any longer, if there is one."""
        rounds, gather_s = self.rounds, self.settings.gather_ms / 1000
        if not rounds.ripe and rounds.deadline_s(gather_s) > self.now_s:
            return
        if len(self.pool) and not self._is_prepared:
            self._is_prepared = self.deciding.has_prepared(self.now_s)
            if self._is_prepared:  # the decision follows after the next reads
                rounds.ripe = self.due = True
                return
        self._is_prepared = False
        gathering = rounds.gathering(self.now_s, gather_s)
        rounds.close(gathering)
        if not len(self.pool):
            return
        free = self.mirror.free_slots()
        if gathering:
            free[[group in gathering for group in self.mirror.group]] = 0
        self._decide(free)

    def bind_waiting(self) -> None:
        """Pool bypass: who waits is sent as soon as that can be (BalanceRoute App. D.6)."""
        self._decide(self.mirror.free_slots(self.settings.bypass_margin))

    def _decide(self, free: I8) -> None:
        total = sum(free.tolist())
        if not total:
            return
        watch = self.deciding.stopwatch
        offered = self._offered(free, total)
        waiting = self.pool.rows(self._window())
        worker = self.deciding.decide(waiting, free, self.now_s)
        start = watch() if watch else 0.0
        sent = self._apply(waiting, worker, free.tolist())
        if watch:
            self.meters.stages["apply"].add(watch() - start)
        if not len(self.pool) or self.deciding.door.binds_at_once:
            self.due |= sent > 0 and offered < total and len(self.pool) > 0
            return
        is_part = offered < total or waiting.size < len(self.pool) + sent
        if sent and is_part and self.mirror.open_groups():  # the rest, after the next reads
            self.open_rounds()
            self.rounds.ripe = self.due = True
        elif self.mirror.open_groups():
            self.timers.set(("again", 0), self.now_s + _AGAIN_S)

    def _window(self) -> int:
        """Requests that a round looks at; 0 = all."""
        most, per_slot = self.settings.pool_window, self.settings.window_per_slot
        if not per_slot:
            return most
        slots = sum(worker.spec.slots for worker in self.mirror.workers)
        return min(most or sys.maxsize, max(_FEWEST, int(per_slot * slots)))

    def _offered(self, free: I8, total: int) -> int:
        """Take slots out of `free` that this round does not offer; how many are left."""
        most = self.settings.round_slots
        if not most or total <= most:
            return total
        order = np.empty(free.size, np.int64)
        kernel.lightest_first(self.mirror.columns.floats, order)
        kernel.offer(free, most, order)
        return most

    def _apply(self, waiting: I8, worker: I8, free: list[int]) -> int:
        """Send what the answer admits; a request that failed on that engine goes to the lightest other one instead.

        Returns:
            Requests that got a slot.
        """
        sent, moved = 0, list[int]()
        for row, g in zip(waiting.tolist(), worker.tolist(), strict=True):
            if g == HOLD:
                continue
            if row in self.excluded and self.mirror.workers[g].spec.name in self.excluded[row]:
                moved.append(row)
            else:
                taken = self.seat(row, g, free[g])
                free[g] -= taken
                sent += taken > 0
        for row in moved:
            g = self._elsewhere(row, free)
            if g >= 0:
                free[g] -= self.seat(row, g, free[g])
                sent += 1
        return sent

    def _elsewhere(self, row: int, free: list[int]) -> int:
        """The lightest worker with a free slot and memory for a request that it has not failed on; -1 = none."""
        out, f, kv_free = self.excluded[row], self.mirror.f, self.deciding.packed.workers_f[KV_FREE]
        others = [
            (f[LOAD][g] + f[SENT_LOAD][g], g)
            for g, worker in enumerate(self.mirror.workers)
            if free[g] > 0 and worker.spec.name not in out and self.rows.load(row) <= kv_free[g]
        ]
        return min(others)[1] if others else -1
