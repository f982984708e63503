"""Requests that arrive: who may come in, and the row, the queue and the deadline of who does.

Rules of this file. Most requests are sent by the next tick: their deadlines are noted as `newcomers` and are set when a
tick has left them waiting, or when somebody asks what the next deadline is.
"""

from __future__ import annotations

from collections.abc import Callable

from evenstep.dispatch import events as ev
from evenstep.dispatch.commands import Reject
from evenstep.dispatch.ending import Ending
from evenstep.dispatch.records import Record
from evenstep.dispatch.rows_layout import (
    CAP,
    CLASS,
    CONTINUES,
    COPIES,
    EXPECTED,
    KEY,
    PROMPT,
    QUEUED_AT,
    SESSION,
    SINCE,
    STATE,
)  # fmt: skip
from evenstep.dispatch.settings import Settings
from evenstep.dispatch.transitions import NEXT, Cause, State
from evenstep.errors import InputError

_POOLED, _SEATING = int(State.POOLED), int(State.SEATING)
_WAITS = NEXT[State.FREE][Cause.ARRIVES_FOR_DECODE]


class Arriving(Ending):
    """Requests, from their arrival on.

    Args:
        settings, policy, predictor, stopwatch, overruns, log: as in `Dispatcher`.

    Attributes:
        newcomers: rows that arrived since their deadlines were last set. newcomers_s: when the first of them did.
    """

    def __init__(
        self, settings: Settings, policy: str, predictor: str, stopwatch: Callable[[], float] | None,
        overruns: frozenset[int], log: Callable[[Record], None] | None,
    ) -> None:  # fmt: skip
        super().__init__(settings, policy, predictor, stopwatch, overruns, log)
        self.is_draining = False
        self.newcomers, self.newcomers_s = list[int](), 0.0
        self._most: tuple[float, int] | None = None  # until the fleet changes

    def _arrived(self, event: ev.Arrived) -> None:
        request, prompt, copies, rows = event.request, event.prompt_tokens, event.copies, self.rows
        if request in rows.by_request:
            raise RuntimeError(f"request {request} arrived twice")
        if prompt < 1 or copies < 1:
            field = "prompt_tokens" if prompt < 1 else "copies"
            raise InputError(f"request {request}", field, getattr(event, field), "an integer >= 1")
        most, settings, pool = self._most or self.most, self.settings, self.pool
        if (
            prompt > most[0] or copies > most[1] or self.is_draining or settings.tenants
            or len(pool.here) + len(self.for_prefiller) >= settings.pool_limit
        ):  # fmt: skip
            refusal = self._refusal(event)
            if refusal is not None:
                self.meters.requests[str(refusal[0])] += 1
                self.out.append(Reject(request, *refusal))
                return
        row = rows.take(request)
        if rows.generation != self._generation:
            self.bind()
        i, f, now_s = rows.i, rows.f, self.now_s
        i[PROMPT][row] = prompt
        if copies > 1:
            i[COPIES][row] = copies
        elif event.can_continue:
            i[CONTINUES][row] = 1
        self._note(row, event)
        f[SINCE][row] = now_s
        self.tenants[row] = self.door.enters(event.tenant)
        if event.blocks:
            self.prefixes.add(row, event.blocks)
        if self.prefill.prefillers and self.fleet.is_split:
            self.enqueue(row, Cause.ARRIVES_FOR_PREFILL)
            return
        i[STATE][row] = _WAITS
        f[QUEUED_AT][row] = now_s
        if not self.newcomers:
            self.newcomers_s = now_s
        self.newcomers.append(row)
        pool.add(row)
        self.open_rounds()

    def _note(self, row: int, event: ev.Arrived) -> None:
        """What is zero with most requests; rows are clean."""
        i = self.rows.i
        if event.max_tokens:
            i[CAP][row] = event.max_tokens
        if event.key:
            i[KEY][row] = event.key
        if event.session:
            i[SESSION][row] = event.session
        if event.request_class:
            i[CLASS][row] = event.request_class
        if event.expected_tokens:
            i[EXPECTED][row] = event.expected_tokens

    def set_deadlines(self) -> None:
        """Set those of the newcomers that still wait; who failed meanwhile has another one."""
        states, queued_at, excluded = self.rows.i[STATE], self.rows.f[QUEUED_AT], self.excluded
        ttl_s, timers = self.settings.ttl_s, self.timers
        for row in self.newcomers:
            if states[row] in (_POOLED, _SEATING) and row not in excluded:
                timers.set(("ttl", row), queued_at[row] + ttl_s)
        self.newcomers.clear()

    @property
    def deadline_s(self) -> float:
        """The next deadline of anything; inf when there is none."""
        next_s = self.timers.next_s
        return min(next_s, self.newcomers_s + self.settings.ttl_s) if self.newcomers else next_s

    def _refusal(self, event: ev.Arrived) -> tuple[int, str, int] | None:
        """Status, reason and Retry-After of a request that is turned away at once."""
        if self.is_draining:
            return 503, "draining", 1
        capacity, slots = self.most
        if not slots:
            return 503, "no-worker", 1
        if event.prompt_tokens > capacity:
            return 400, "too-long", 0
        if event.copies > slots:
            return 400, "too-wide", 0
        waiting = len(self.pool) + len(self.for_prefiller)
        return self.door.refusal(event.tenant, waiting, self.waits.mean_s, self.now_s)

    @property
    def most(self) -> tuple[float, int]:
        """KV tokens and slots of the largest workers that take requests; 0 where there is none."""
        if self._most is None:
            workers = [worker for worker in self.mirror.workers if not worker.leaves]
            self._most = (
                max((worker.capacity for worker in workers), default=0.0),
                max((worker.spec.slots for worker in workers), default=0),
            )
        return self._most
