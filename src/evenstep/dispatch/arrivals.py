"""Admits or refuses requests that arrive, and gives each a row and a queue.

Checks come in a fixed order. A request that is known already, or has no tokens or copies, is an error of the host. Refusals
follow: draining, the fleet's size, the queue's length and the limits of tenants.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from evenstep.dispatch.commands import Reject
from evenstep.dispatch.events import Arrived
from evenstep.dispatch.lifecycle import Lifecycle
from evenstep.dispatch.parts import Parts
from evenstep.dispatch.requests.tenants import retry_after
from evenstep.dispatch.transitions import State
from evenstep.errors import check_range

_POOLED = int(State.POOLED)


class Arrivals:
    """Admits requests that arrive, with a row and a queue for each, or refuses them with a `Reject`."""

    def __init__(self, parts: Parts, lifecycle: Lifecycle) -> None:
        self._parts, self._lifecycle = parts, lifecycle
        self._turn, self._rows, self._pool, self._limits = parts.turn, parts.rows, parts.pool, parts.limits
        self._mirror = parts.fleet.mirror
        self._most: tuple[float, int] | None = None

    def arrived(self, events: Sequence[Arrived]) -> int:
        """Admit or refuse requests, in order: an admitted one gets a row and is queued, a refused one gets a `Reject`.

        Returns how many of `events` were handled: all, or those before one that is an error of the host. If that is the
        first, it raises InputError (no tokens or copies) or RuntimeError (the request is known already).
        """
        parts, turn, rows, is_split = self._parts, self._turn, self._rows, self._parts.fleet.is_split
        is_logged, deadlines, opens = parts.journal.log is not None, parts.deadlines, True
        limit, may_refuse = turn.settings.pool_limit, turn.is_draining or bool(turn.settings.tenants)
        here, queue, (capacity, slots) = self._pool.here, parts.prefills.waiting, self._most or self.most
        for count, event in enumerate(events):
            is_wrong = event.prompt_tokens < 1 or event.copies < 1 or event.request in rows.by_request
            if is_wrong and count:
                return count
            if is_wrong:  # it changes nothing, and no log has it
                where = f"request {event.request}"
                check_range(where, "an integer >= 1", low=1, prompt_tokens=event.prompt_tokens, copies=event.copies)
                raise RuntimeError(f"{where} arrived twice")
            if is_logged:
                event = self._noted(event)
            turn.now_s = max(turn.now_s, event.now_s)
            is_too_large = event.prompt_tokens > capacity or event.copies > slots
            if may_refuse or is_too_large or len(here) + len(queue) >= limit:
                refusal = self.refusal(event, turn.now_s)
                if refusal is not None:
                    turn.out.append(Reject(event.request, *refusal))
                    continue
            row = self._enter(event)
            deadlines.arrives(row, waits=not is_split)
            if is_split:
                self._lifecycle.enqueue(row, State.FOR_PREFILLER)
                continue
            rows.move(row, _POOLED)
            rows.at.queued_s[row] = turn.now_s
            self._pool.add(row)
            if opens:  # the rounds that the first request opens are open for those after it
                parts.rounds.open(is_arrival=True)
                opens = False
        return len(events)

    def _noted(self, event: Arrived) -> Arrived:
        """Log an event with the verdict of its tenant's limits, which a replay cannot compute; returns it with that.

        If tenants have limits and `judged` is empty, they are checked here; a request they admit counts against the rate.
        """
        turn = self._turn
        if turn.settings.tenants and not event.judged:
            found = self.refusal(event, max(turn.now_s, event.now_s))
            if found is None:
                event = msgspec.structs.replace(event, judged="in")
            elif found[0] == 429:
                event = msgspec.structs.replace(event, judged=found[1], retry_after_s=found[2])
        self._parts.journal.note(event, turn.now_s)
        return event

    def _enter(self, event: Arrived) -> int:
        """Fill a row for an admitted request, count it for its tenant, and keep its sort key and blocks; returns the row."""
        rows = self._rows
        row = rows.take(event.request)
        at = rows.at
        at.prompt[row] = event.prompt_tokens
        rows.at.since_s[row] = self._turn.now_s
        if event.copies > 1:
            at.copies[row] = event.copies
            rows.wide.add(row)
        elif event.can_continue:
            at.continues[row] = 1
        if event.max_tokens:
            at.cap[row] = event.max_tokens
        if event.key:
            at.key[row] = event.key
        if event.session:
            at.session[row] = event.session
        if event.request_class:
            at.request_class[row] = event.request_class
        if event.expected_tokens:
            at.expected[row] = event.expected_tokens
        order = self._turn.settings.order
        if order != "fcfs":
            self._pool.tasks.arrives(row, event, order)
        self._limits.enters(row, event.tenant)
        if event.blocks:
            self._parts.prefixes.add(row, event.blocks)
        return row

    def refusal(self, event: Arrived, now_s: float) -> tuple[int, str, int] | None:
        """The refusal of a request; None if it is admitted, which counts against its tenant's rate.

        A refusal has the HTTP status, the reason as in `Reject`, and Retry-After in whole seconds, 0 = without that header.
        If `event.judged` has a verdict, tenants' limits are not checked, and nothing is counted.
        """
        if self._turn.is_draining:
            return 503, "draining", 1
        capacity, slots = self._most or self.most
        if not slots:
            return 503, "no-worker", 1
        if event.prompt_tokens > capacity:
            return 400, "too-long", 0
        if event.copies > slots:
            return 400, "too-wide", 0
        settings, waiting = self._turn.settings, len(self._pool.here) + len(self._parts.prefills.waiting)
        mean_wait_s = self._parts.meters.waits.mean_s
        if waiting >= settings.pool_limit:
            return 503, "pool-full", retry_after(mean_wait_s)
        if event.judged == "in" or not settings.tenants:
            return None
        if event.judged:
            return 429, event.judged, event.retry_after_s
        return self._limits.refusal(event.tenant, mean_wait_s, now_s)

    @property
    def most(self) -> tuple[float, int]:
        """Largest KV capacity (tokens, inf if one is not known) and most slots of decode workers that stay; else 0, 0."""
        if self._most is None:
            workers = [worker for worker in self._mirror.workers if not worker.leaves]
            slots = max((worker.spec.slots for worker in workers), default=0)
            self._most = max((worker.capacity for worker in workers), default=0.0), slots
        return self._most

    def fleet_changed(self) -> None:
        """Forget `most`, which is then computed anew; call it when workers or their capacities changed."""
        self._most = None
