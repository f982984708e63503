"""Rounds: when they are opened, what they are about, and how their decisions are carried out.

A round must not keep the host from its reads, whatever the size of fleet and pool: it looks at the oldest `pool_window`
requests, offers `round_slots` slots at most, and what is left is decided in the next round, right after the next reads.
Where many predictions are due they are made first, in parts, and the decision follows after the next reads as well.

A small fleet looks at fewer (`window_per_slot`): a policy that balances likes what fits, and with the whole of a long pool
before it takes that first, until only the large are left and run all together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from evenstep import addresses, compiled
from evenstep.dispatch.commands import SendDecode
from evenstep.dispatch.deciding import Deciding
from evenstep.dispatch.mirror_layout import LOAD, SENT_LOAD
from evenstep.dispatch.requests import Requests
from evenstep.dispatch.rows_layout import PROMPT, REQUEST, WORKER
from evenstep.dispatch.settings import Settings
from evenstep.dispatch.turn_kernel import seat as seat_kernel
from evenstep.routing.view import HOLD, KV_FREE

_seat = compiled.entry(seat_kernel)
_AGAIN_S = (
    0.05  # a policy that holds requests though slots are free is asked again after this long at the latest
)
_MOST_TURNS = 64  # in which predictions are asked for before a decision; what is due then is asked for in it
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
        self._prepared = 0  # turns in which predictions were asked for since the last decision
        self.deciding = Deciding(
            policy, predictor, rows=self.rows, mirror=self.mirror, prefixes=self.prefixes, waits=self.waits,
            meters=self.meters, notice=self.fleet.notice, settings=settings, stopwatch=stopwatch, overruns=overruns,
        )  # fmt: skip

    def open_rounds(self) -> None:
        """Something changed that a decision should see: the groups with free slots gather for it."""
        if not self.pool.here or self.deciding.door.binds_at_once:
            return
        rounds = self.rounds
        rounds.open(self.mirror.open_groups(), self.now_s)
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
        waiting = self.pool.here
        is_ahead = waiting and self.deciding.ahead is not None and self._prepared < _MOST_TURNS
        if is_ahead and self.deciding.has_prepared(self.now_s):
            self._prepared += 1
            rounds.ripe = self.due = True  # the rest, or the decision, follows after the next reads
            return
        self._prepared = 0
        gathering = rounds.close(self.now_s, gather_s)
        if waiting:
            self._decide(0, gathering)

    def bind_waiting(self) -> None:
        """Pool bypass: who waits is sent as soon as that can be (BalanceRoute App. D.6)."""
        self._decide(self.settings.bypass_margin)

    def _decide(self, margin: int, gathering: Collection[int] = ()) -> None:
        """Decide about the oldest requests.

        Args:
            margin: slots that a worker may be sent beyond its own.
            gathering: groups that are offered nothing.
        """
        deciding, pool, offered = self.deciding, self.pool, self.settings.round_slots
        packed, size = deciding.packed, len(pool.here)
        asked = min(self._window() or size, size)
        if gathering:
            packed.gathers[[*gathering]] = 1
        worker = deciding.decide(pool, asked, margin, offered, self.now_s, self.excluded)
        if gathering:
            packed.gathers[[*gathering]] = 0
        if not worker:
            return
        shown = len(worker)
        is_part = 0 < offered < deciding.free
        sent = self._send_all(shown, worker)
        if sent < 0:
            sent = self._apply(packed.waiting[:shown].tolist(), worker, packed.free.tolist())
        if deciding.stopwatch:
            self.meters.stages["apply"].add(deciding.stopwatch() - deciding.decided_s)
        left = len(pool.here)
        if not left or deciding.door.binds_at_once:
            self.due |= is_part and sent > 0 < left
            return
        is_part = is_part or shown < left + sent
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
        fitting = int(per_slot * self.mirror.slots)
        fitting = fitting if fitting > _FEWEST else _FEWEST  # a call costs more
        return most if 0 < most < fitting else fitting

    def bind(self) -> None:
        """Look again where the columns are that a round writes."""
        rows, columns = self.rows, self.mirror.columns
        waits = np.frombuffer(self.waits.sums)
        self._seating = (
            (rows.ints, rows.floats, columns.ints, columns.floats),
            (np.zeros(1, np.int64), waits, *self.meters.pool_wait_s.arrays()),
        )  # fmt: skip

    def _send_all(self, shown: int, worker: list[int]) -> int:
        """As `_apply`, where all that are admitted are in their usual course (`turn_kernel.seat`).

        Args:
            shown: requests that the answer is about. worker: of each of them.

        Returns:
            Requests that were sent; -1 where one is not, and nothing was done.
        """
        columns, counted = self._seating
        here, packed, leg = self.pool.here, self.deciding.packed, self.legs
        sent = _seat(
            *columns,
            addresses.placed(here),
            len(here),
            packed.waiting,
            packed.worker,
            shown,
            leg,
            self.now_s,
            *counted,
        )
        if sent <= 0:
            return sent
        waiting = packed.waiting[:shown].tolist()
        if sent < shown:
            waiting = [row for row, g in zip(waiting, worker, strict=True) if g != HOLD]
        i, names, out = self.rows.i, self.mirror.names, self.out
        requests, placed = i[REQUEST], i[WORKER]
        for number, row in enumerate(waiting, leg + 1):
            out.append(SendDecode(requests[row], number, names[placed[row]], row))
        self._sent_all(waiting, int(counted[0][0]))
        self.legs = leg + sent
        del here[len(here) - sent :]
        self.mirror.slots_changed()
        return sent

    def _sent_all(self, sent: list[int], tokens: int) -> None:
        """These rows wait no longer; their prompts have so many tokens."""
        tenants, prefixes, timers = self.tenants, self.prefixes, self.timers
        for row in sent:
            tenants[row].waiting -= 1
        if timers.at:
            for row in sent:
                timers.clear(("ttl", row))
        if not prefixes.has_any:
            prefixes.sent_tokens += tokens
            return
        prompts, placed = self.rows.i[PROMPT], self.rows.i[WORKER]
        for row in sent:
            prefixes.sent(row, placed[row], prompts[row])

    def _apply(self, waiting: list[int], worker: list[int], free: list[int]) -> int:
        """Send what the answer admits; a request that failed on that engine, or was handed back by it, goes to the lightest
        other one instead. Handed back it goes to the same one where no other has room.

        Returns:
            Requests that got a slot.
        """
        sent, moved = 0, list[int]()
        for row, g in zip(waiting, worker, strict=True):
            if g == HOLD:
                continue
            name = self.mirror.names[g]
            if self.avoided.get(row) == name or (row in self.excluded and name in self.excluded[row]):
                moved.append(row)
            else:
                taken = self.seat(row, g, free[g])
                free[g] -= taken
                sent += taken > 0
        for row in moved:
            g = self._elsewhere(row, free)
            taken = self.seat(row, g, max(free[g], self.mirror.free(g))) if g >= 0 else 0
            free[g] -= taken
            sent += taken > 0
            if taken and self.pool.here:  # another request may have the slot that was meant for this one
                self.open_rounds()
                self.rounds.ripe = self.due = True
        return sent

    def _elsewhere(self, row: int, free: list[int]) -> int:
        """The worker with a free slot and memory for a request that it has not failed on; -1 = there is no such worker.

        One that the round does not offer is taken where no other is left, and so, last of all, is the one that handed the
        request back. Among equals the lightest.
        """
        out, avoided = self.excluded.get(row, ()), self.avoided.get(row)
        f, kv_free = self.mirror.f, self.deciding.packed.workers_f[KV_FREE]
        others = [
            (name == avoided, free[g] <= 0, f[LOAD][g] + f[SENT_LOAD][g], g)
            for g, name in enumerate(self.mirror.names)
            if (free[g] > 0 or self.mirror.free(g) > 0)
            and name not in out
            and self.rows.load(row) <= kv_free[g]
        ]
        return min(others)[3] if others else -1
