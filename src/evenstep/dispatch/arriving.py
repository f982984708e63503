"""Requests that arrive: who may come in, and the row, the queue and the deadline of who does.

Rules of this file. What most requests need is in one loop (`Arriving.arrived_all`), everything in `Arriving._arrived`; both
leave the same state. Most requests are sent by the next tick: their deadlines are noted as `newcomers` and are set when a
tick has left them waiting, or when somebody asks what the next deadline is.
"""

from __future__ import annotations

import math
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
    PRODUCED,
    PROMPT,
    QUEUED_AT,
    REQUEST,
    SESSION,
    SINCE,
    STATE,
)  # fmt: skip
from evenstep.dispatch.settings import Settings
from evenstep.dispatch.transitions import NEXT, Cause, State
from evenstep.errors import InputError

_POOLED, _SEATING, _FOR_PREFILLER = int(State.POOLED), int(State.SEATING), int(State.FOR_PREFILLER)
_WAITS = NEXT[State.FREE][Cause.ARRIVES_FOR_DECODE]


class Arriving(Ending):
    """Requests, from their arrival on.

    Args:
        settings, policy, predictor, stopwatch, overruns, log: as in `Dispatcher`.

    Attributes:
        newcomers: rows that arrived since their deadlines were last set. newcomers_s: when the first of them did.
        overdue_s: when to look for requests that have lasted longer than they may; inf = there was none to look for.
    """

    def __init__(
        self, settings: Settings, policy: str, predictor: str, stopwatch: Callable[[], float] | None,
        overruns: frozenset[int], log: Callable[[Record], None] | None,
    ) -> None:  # fmt: skip
        super().__init__(settings, policy, predictor, stopwatch, overruns, log)
        self.is_draining = False
        self.newcomers, self.newcomers_s, self.overdue_s = list[int](), 0.0, math.inf
        self._most: tuple[float, int] | None = None  # until the fleet changes

    def arrived_all(self, events: list[ev.Arrived]) -> int:
        """Requests arrive, up to the first that is not in its usual course; how many that were.

        That is: it may come in, it wants one slot, it comes behind all who wait, and nothing is known of its prompt's
        blocks. They wait for a slot as `_arrived` lets them.
        """
        rows, settings, here = self.rows, self.settings, self.pool.here
        free, known, (most, slots) = rows.free, rows.by_request, self._most or self.most
        room = min(len(free), settings.pool_limit - len(here) - len(self.for_prefiller))
        if self.is_draining or settings.tenants or self.prefill.prefillers or slots < 1 or room < 1:
            return 0
        i, f, tenants, newcomers = rows.i, rows.f, self.tenants, self.newcomers
        requests, prompts, states, enters = i[REQUEST], i[PROMPT], i[STATE], self.door.enters
        since, queued_at = f[SINCE], f[QUEUED_AT]
        now_s, last_s = self.now_s, since[here[-1]] if here else -math.inf
        last, count = requests[here[-1]] if here else -1, 0
        for event in events[:room]:
            request, prompt = event.request, event.prompt_tokens
            at_s = event.now_s if event.now_s > now_s else now_s
            if event.copies != 1 or event.blocks or not 0 < prompt <= most or request in known:
                break
            if at_s == last_s and request < last:
                break
            row = free.pop()
            if row >= rows.high:
                rows.high = row + 1
            known[request] = row
            requests[row], prompts[row], states[row] = request, prompt, _WAITS
            since[row] = queued_at[row] = now_s = last_s = at_s
            last = request
            _note(i, row, event)
            tenants[row] = enters(event.tenant)
            if not newcomers:
                self.newcomers_s = now_s
            newcomers.append(row)
            here.append(row)
            if not count:
                self.now_s = now_s
                self.open_rounds()
                if self.overdue_s == math.inf:
                    self.overdue_s = now_s + (settings.total_s or math.inf)
            count += 1
        self.now_s = now_s
        return count

    def counted(self, row: int, prompt_tokens: int) -> None:
        """An engine told the tokens of the prompt of the request in this row: what `PromptCounted` would leave.

        Only while nothing is logged, and all events are told.
        """
        self.correct(row, prompt_tokens)

    def _arrived(self, event: ev.Arrived) -> None:
        if self.arrived_all([event]):
            return
        request, prompt, copies, rows = event.request, event.prompt_tokens, event.copies, self.rows
        if request in rows.by_request:
            raise RuntimeError(f"request {request} arrived twice")
        if prompt < 1 or copies < 1:
            field = "prompt_tokens" if prompt < 1 else "copies"
            raise InputError(f"request {request}", field, getattr(event, field), "an integer >= 1")
        refusal = self.refusal(event, self.now_s)
        if refusal is not None:
            self.meters.requests[str(refusal[0])] += 1
            self.out.append(Reject(request, *refusal))
            return
        row = rows.take(request)
        if rows.generation != self._generation:
            self.bind()
        i = rows.i
        i[PROMPT][row], i[COPIES][row] = prompt, copies
        _note(i, row, event)
        rows.f[SINCE][row] = self.now_s
        if self.overdue_s == math.inf:
            self.overdue_s = self.now_s + (self.settings.total_s or math.inf)
        self.tenants[row] = self.door.enters(event.tenant)
        if event.blocks:
            self.prefixes.add(row, event.blocks)
        if self.fleet.is_split:
            self.enqueue(row, Cause.ARRIVES_FOR_PREFILL)
            return
        rows.move(row, Cause.ARRIVES_FOR_DECODE)
        rows.f[QUEUED_AT][row] = self.now_s
        if not self.newcomers:
            self.newcomers_s = self.now_s
        self.newcomers.append(row)
        self.pool.add(row)
        self.open_rounds()

    def set_deadlines(self) -> None:
        """Set those of the newcomers that still wait; who failed meanwhile has another one."""
        if not self.pool.here and not self.seating:
            self.newcomers.clear()
            return
        states, queued_at, excluded = self.rows.i[STATE], self.rows.f[QUEUED_AT], self.excluded
        ttl_s, timers = self.settings.ttl_s, self.timers
        for row in self.newcomers:
            if states[row] in (_POOLED, _SEATING) and row not in excluded:
                timers.set(("ttl", row), queued_at[row] + ttl_s)
        self.newcomers.clear()

    def give_up_stranded(self) -> None:
        """A worker leaves: end the requests that wait and have failed on all others."""
        states, produced = self.rows.i[STATE], self.rows.i[PRODUCED]
        for row in list(self.excluded):
            waits = states[row] in (_POOLED, _FOR_PREFILLER)
            if waits and row in self.excluded and not self.has_others(row, produced[row] > 0):
                self.give_up(row, "failed")

    def end_overdue(self) -> None:
        """End the requests whose time is over, and note when to look again."""
        since, by_request = self.rows.f[SINCE], self.rows.by_request
        total_s = self.settings.total_s or math.inf
        while by_request:
            row = next(iter(by_request.values()))  # they are in order of arrival
            if since[row] + total_s > self.now_s:
                break
            self.abort(row)
            self.give_up(row, "overdue")
        self.look_when_overdue()

    def look_when_overdue(self) -> None:
        """Look at the oldest request when its time is over."""
        self.overdue_s = math.inf
        for row in self.rows.by_request.values():
            self.overdue_s = self.rows.f[SINCE][row] + (self.settings.total_s or math.inf)
            break

    @property
    def deadline_s(self) -> float:
        """The next deadline of anything; inf when there is none."""
        next_s = min(self.timers.next_s, self.overdue_s)
        return min(next_s, self.newcomers_s + self.settings.ttl_s) if self.newcomers else next_s

    def refusal(self, event: ev.Arrived, now_s: float) -> tuple[int, str, int] | None:
        """Status, reason and Retry-After of a request that is turned away at once."""
        if self.is_draining:
            return 503, "draining", 1
        capacity, slots = self._most or self.most
        if not slots:
            return 503, "no-worker", 1
        if event.prompt_tokens > capacity:
            return 400, "too-long", 0
        if event.copies > slots:
            return 400, "too-wide", 0
        waiting = len(self.pool) + len(self.for_prefiller)
        if waiting < self.settings.pool_limit:
            if event.judged == "in" or not self.settings.tenants:
                return None
            if event.judged:
                return 429, event.judged, event.retry_after_s
        return self.door.refusal(event.tenant, waiting, self.waits.mean_s, now_s)

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


def _note(i: list[memoryview[int]], row: int, event: ev.Arrived) -> None:
    """What a client may have said, and most do not; rows are clean."""
    if event.can_continue and event.copies == 1:
        i[CONTINUES][row] = 1
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
