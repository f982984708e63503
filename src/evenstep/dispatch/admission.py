"""Decides the rounds that are due, and sends the requests they admit.

A round must not keep the host from its reads, however large fleet and pool are. So it looks at `pool_window` requests at
most, and offers `round_slots` slots at most; later rounds, after further reads, decide the rest. If many predictions are
due, they are made first, in parts, and the decision follows after the next reads as well.

A small fleet looks at fewer requests (`window_per_slot`). A policy that balances prefers what fits. If it saw a whole long
pool, it would take what fits first. Only large requests would be left, and all would run together.
"""

from __future__ import annotations

from collections.abc import Collection

from evenstep.dispatch.parts import Parts
from evenstep.routing.view import HOLD, KV_FREE

_AGAIN_S = 0.05  # a policy that holds requests though slots are free is asked again after this long at the latest
_MOST_TURNS = 128  # turns that may go to predictions before a decision; the decision asks for the rest
_FEWEST = 8  # requests that a round looks at however few slots there are


class Admission:
    """Decides rounds: asks the policy about the waiting requests, and sends those it admits to their workers."""

    def __init__(self, parts: Parts) -> None:
        self._turn, self._rows, self._mirror, self._pool = parts.turn, parts.rows, parts.fleet.mirror, parts.pool
        self._rounds, self._slots, self._deciding = parts.rounds, parts.slots, parts.deciding
        self._exclusions, self._timers, self._meters = parts.exclusions, parts.fleet.timers, parts.meters

    def close_rounds(self) -> None:
        """Decide the rounds that need not wait any longer, if there are any; called at each `Tick`.

        One decision covers all groups but those that still gather. If many predictions are due, a call may only make some of
        them and set `Turn.due`; the decision then follows at a later tick.
        """
        turn, rounds, deciding = self._turn, self._rounds, self._deciding
        gather_s = turn.settings.gather_ms / 1000
        if not rounds.ripe and rounds.deadline_s(gather_s) > turn.now_s:
            return
        waiting = self._pool.here
        if waiting and deciding.ahead is not None and deciding.prepared < _MOST_TURNS:
            deciding.look()
            if deciding.has_prepared(turn.now_s):
                deciding.prepared += 1
                rounds.ripe = turn.due = True  # the rest, or the decision, follows after the next reads
                return
        deciding.prepared = 0
        gathering = rounds.close(gather_s)
        if waiting:
            self._decide(0, gathering)

    def bind_waiting(self) -> None:
        """Pool bypass: decide at once about the waiting requests, also beyond workers' slots (BalanceRoute App. D.6).

        As many requests are looked at as in a round. A worker's requests may take `bypass_margin` slots beyond its own.
        """
        self._decide(self._turn.settings.bypass_margin)

    def _decide(self, margin: int, gathering: Collection[int] = ()) -> None:
        """Decide on `_window` requests and send those admitted; ask for another round if some are left (`_ask_for_more`).

        A worker's requests may take `margin` slots beyond its own; a group in `gathering` is offered nothing.
        """
        deciding, pool, offered = self._deciding, self._pool, self._turn.settings.round_slots
        deciding.look()
        packed, size = deciding.packed, len(pool.here)
        asked = min(self._window() or size, size)
        if gathering:
            packed.gathers[[*gathering]] = 1
        decided = deciding.decide(pool, asked, margin, offered, self._turn.now_s, self._exclusions.excluded)
        if gathering:
            packed.gathers[[*gathering]] = 0
        if not decided:
            return
        sent = self._send_admitted(decided)
        if deciding.stopwatch:
            self._meters.stages["apply"].add(deciding.stopwatch() - deciding.decided_s)
        self._ask_for_more(decided, sent, is_part=0 < offered < deciding.free)

    def _ask_for_more(self, shown: int, sent: int, is_part: bool) -> None:
        """Ask for another round if requests and free slots are left after one that covered `shown` requests and sent `sent`.

        If some were sent and the round covered only a part of the requests, or offered a part of the slots (`is_part`), the
        next follows after the next reads, else after 0.05 s. With pool bypass only `Turn.due` may be set.
        """
        left, rounds = len(self._pool.here), self._rounds
        if not left or rounds.binds_at_once:
            self._turn.due |= is_part and sent > 0 < left
            return
        is_part = is_part or shown < left + sent
        if sent and is_part and self._mirror.open_groups():  # the rest, after the next reads
            rounds.again()
        elif self._mirror.open_groups():
            self._timers.set(("again", 0), self._turn.now_s + _AGAIN_S)

    def _window(self) -> int:
        """Most requests that a round looks at; 0 = all."""
        settings = self._turn.settings
        most, per_slot = settings.pool_window, settings.window_per_slot
        if not per_slot:
            return most
        fitting = max(_FEWEST, int(per_slot * self._mirror.slots))
        return min(most or fitting, fitting)

    def _send_admitted(self, decided: int) -> int:
        """Send the requests that the last decision, about `decided` requests, admits. Returns how many got a slot."""
        packed, wide, exclusions = self._deciding.packed, self._rows.wide, self._exclusions
        if wide or exclusions.excluded or exclusions.avoided:
            rows = packed.waiting[:decided].tolist()
            if not wide.isdisjoint(rows) or exclusions.concerns(rows):
                return self._send_one_by_one(rows, packed.worker[:decided].tolist(), packed.free.tolist())
        return self._slots.send(packed.waiting, packed.worker, decided)

    def _send_one_by_one(self, rows: list[int], worker: list[int], free: list[int]) -> int:
        """Send requests one by one, in a round where some want several slots or have failed; returns how many got a slot.

        `rows`: the requests. `worker`: the place of each one's worker, or `HOLD`. `free`: slots offered by place; what is
        taken is subtracted. A request whose worker is excluded or avoided for it, or has too few slots in all, goes to the
        lightest that may have it (`_elsewhere`). Without one it stays in the pool. Such a request, or one for several slots,
        may also take slots that are free but not offered (`round_slots`).
        """
        sent, moved = 0, list[int]()
        for row, g in zip(rows, worker, strict=True):
            if g == HOLD:
                continue
            if self._exclusions.forbids(row, self._mirror.names[g]) or not self._has_slots(row, g):
                moved.append(row)
            else:
                is_wide = self._rows.at.copies[row] > 1
                taken = self._slots.seat(row, g, self._mirror.free(g) if is_wide else free[g])
                free[g] = max(0, free[g] - taken)
                sent += taken > 0
        for row in moved:
            g = self._elsewhere(row, free)
            taken = self._slots.seat(row, g, max(free[g], self._mirror.free(g))) if g >= 0 else 0
            free[g] -= taken
            sent += taken > 0
            if taken and self._pool.here:  # another request may have the slot that was meant for this one
                self._rounds.again()
        return sent

    def _has_slots(self, row: int, g: int) -> bool:
        """Whether the worker in place `g` has as many slots as the request wants, free or not."""
        return self._rows.at.copies[row] <= self._mirror.workers[g].spec.slots

    def _elsewhere(self, row: int, free: list[int]) -> int:
        """Place of the lightest worker that is not excluded for a request and has room for it; -1 = no such worker.

        Room is a free slot, enough KV memory, and as many slots in all as the request wants. Workers with slots in `free`,
        those that the round offers, come first. The worker that handed the request back comes last.
        """
        out, avoided = self._exclusions.excluded.get(row, ()), self._exclusions.avoided.get(row)
        at, kv_free = self._mirror.at, self._deciding.packed.workers_f[KV_FREE]
        others = [
            (name == avoided, free[g] <= 0, at.load[g] + at.sent_load[g], g)
            for g, name in enumerate(self._mirror.names)
            if (free[g] > 0 or self._mirror.free(g) > 0)
            and name not in out
            and self._has_slots(row, g)
            and self._rows.load(row) <= kv_free[g]
        ]
        return min(others)[3] if others else -1
