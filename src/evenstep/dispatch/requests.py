"""The life of requests: queues, slots, failures, ends. The dispatcher adds events and decisions.

A method here moves a request on and appends the commands that follow; who calls it is in `dispatcher`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import OrderedDict

from evenstep.dispatch import commands as co
from evenstep.dispatch.events import Kind
from evenstep.dispatch.fleet import Fleet
from evenstep.dispatch.lockstep import Lockstep
from evenstep.dispatch.meters import Meters
from evenstep.dispatch.mirror_layout import CHANGES, LOAD, RUNNING, SENT, SENT_LOAD
from evenstep.dispatch.pool import Door, Pool, Waits
from evenstep.dispatch.prefixes import Prefixes
from evenstep.dispatch.rounds import Rounds
from evenstep.dispatch.rows import Rows
from evenstep.dispatch.rows_layout import (
    BASE,
    CHARGED,
    CONTINUES,
    COPIES,
    FIRST_AT,
    LEAVE,
    LEG,
    NEVER,
    PREDICTED,
    PRODUCED,
    PROMPT,
    QUEUED_AT,
    REQUEST,
    SEATED,
    SENT_AT,
    SINCE,
    STATE,
    TRIES,
    WORKER,
)  # fmt: skip
from evenstep.dispatch.settings import Settings
from evenstep.dispatch.steps import Steps
from evenstep.dispatch.tenants import Present
from evenstep.dispatch.timers import Timers
from evenstep.dispatch.transitions import Cause, State

#: Numbers of states, as the table has them: a name of a module is found several times as fast as a member of an enum.
_, _FOR_PREFILLER, _PREFILLING, _POOLED, _SEATING, _SENT, _RUNNING, _ = map(int, State)
_DECODE_SENT, _FIRST_TOKEN = Cause.DECODE_SENT, Cause.FIRST_TOKEN
_PLACED = (_SENT, _RUNNING)
_CALLED = (_PREFILLING, *_PLACED)  # an engine works on it
_LONGEST_ASKED_S = 5.0  # of what an engine may ask a retry to wait


class Requests(ABC):
    """All requests of a dispatcher, and where they are.

    Args:
        settings: limits and deadlines.

    Attributes:
        due: whether a `Tick` is wanted as soon as the reads at hand are done.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.now_s = -math.inf
        self.due = False
        self.out: list[co.Command] = []
        self.timers, self.rows, self.meters, self.waits = Timers(), Rows(), Meters(), Waits()
        self.pool, self.door = Pool(self.rows), Door(settings)
        self.prefixes = Prefixes(settings.prefix_blocks)
        self.fleet = Fleet(settings, self.timers, self.out)
        self.mirror, self.prefill, self.breaker = self.fleet.mirror, self.fleet.prefill, self.fleet.breaker
        self.lockstep, self.steps = Lockstep([]), list[Steps]()
        self.rounds = Rounds(self.lockstep)
        self.for_prefiller: OrderedDict[int, None] = OrderedDict()
        self.tenants: dict[int, Present] = {}
        self.excluded: dict[int, set[str]] = {}  # row -> engines it failed on, and those lost with them
        self.avoided: dict[int, str] = {}  # row -> engine that handed it back last, without a new token
        self.prefiller_of: dict[int, str] = {}
        self.seating: dict[int, list[int]] = {}  # worker -> rows that hold some of the slots they want
        self.legs = 0

    @abstractmethod
    def open_rounds(self) -> None:
        """Something changed that a decision should see."""

    @abstractmethod
    def stepped(self, group: int) -> None:
        """Count the steps of a group that have ended."""

    @abstractmethod
    def regroup(self) -> None:
        """Places or groups of workers changed."""

    @abstractmethod
    def completed(self, row: int) -> None:
        """A request is about to end as it should."""

    # --- queues --------------------------------------------------------------------------------------------------

    def enqueue(self, row: int, cause: Cause) -> None:
        """Into the queue that the cause leads to, for two probes at most where all left are ejected."""
        rows, now_s, ttl_s = self.rows, self.now_s, self.settings.ttl_s
        rows.move(row, cause)
        rows.f[QUEUED_AT][row] = now_s
        if row in self.excluded and not self.has_others(row, rows.i[PRODUCED][row] > 0, True):
            ttl_s = min(ttl_s, 2.0 * self.settings.cooldown_s)
        self.timers.set(("ttl", row), now_s + ttl_s)
        if rows.i[STATE][row] == _FOR_PREFILLER:
            self.for_prefiller[row] = None
            self.feed_prefillers()
        else:
            self.pool.add(row)
            self.open_rounds()

    def feed_prefillers(self) -> None:
        """Send what waits for a prefiller, oldest first, as long as one has room."""
        for row in list(self.for_prefiller):
            found = self.prefill.choose(self.excluded.get(row, frozenset()))
            if found is None:
                if row not in self.excluded:
                    return
                continue
            del self.for_prefiller[row]
            self.timers.clear(("ttl", row))
            self.rows.move(row, Cause.PREFILL_SENT)
            name, i = found.spec.name, self.rows.i
            i[CHARGED][row] = self.prefill.charge(name, row, i[PROMPT][row])
            self.prefiller_of[row] = name
            self.legs = i[LEG][row] = leg = self.legs + 1
            self.out.append(co.SendPrefill(i[REQUEST][row], leg, name))

    def correct(self, row: int, prompt_tokens: int) -> None:
        """The prompt has so many tokens after all."""
        i = self.rows.i
        more = prompt_tokens - i[PROMPT][row]
        name = self.prefiller_of.get(row)
        if name is not None:
            self.prefill.release(name, row, i[PROMPT][row], i[CHARGED][row])
            i[CHARGED][row] = self.prefill.charge(name, row, prompt_tokens)
        i[PROMPT][row] = prompt_tokens
        state = i[STATE][row]
        if state in _PLACED:
            worker = i[WORKER][row]
            self.mirror.f[LOAD if state == _RUNNING else SENT_LOAD][worker] += more
            self.mirror.i[CHANGES][worker] += 1

    # --- slots ---------------------------------------------------------------------------------------------------

    def seat(self, row: int, worker: int, free: int) -> int:
        """A request takes as many slots as it wants and as there are; it is sent when it has all. Slots taken."""
        rows, wanted = self.rows, self.rows.i[COPIES][row] - self.rows.i[SEATED][row]
        taken = wanted if wanted <= free else free
        if taken <= 0:
            return 0
        rows.i[SEATED][row] += taken
        is_seating = rows.i[STATE][row] == _SEATING
        if not is_seating:
            self.pool.remove(row)
            rows.place(row, worker)
        if taken == wanted:
            if is_seating:
                self._no_longer_seating(row, worker)
                self.mirror.reserve(worker, taken - rows.i[SEATED][row])
            self.send(row, worker)
            return taken
        self.mirror.reserve(worker, taken)
        if not is_seating:
            rows.move(row, Cause.SEATED_IN_PART)
            self.seating.setdefault(worker, []).append(row)
        return taken

    def send(self, row: int, worker: int) -> None:
        """A request for which there are slots enough goes to its worker."""
        rows, mirror, i, now_s = self.rows, self.mirror, self.rows.i, self.now_s
        rows.move(row, _DECODE_SENT)
        self.timers.clear(("ttl", row))
        produced, prompt = i[PRODUCED][row], i[PROMPT][row]
        mirror.takes(worker, i[COPIES][row])
        mirror.f[SENT_LOAD][worker] += prompt + produced
        if i[PREDICTED][row] >= 0 or produced:  # it was on another worker before
            i[LEAVE][row], i[PREDICTED][row], i[BASE][row] = NEVER, -1, produced
        rows.f[SENT_AT][row] = now_s
        wait_s = now_s - rows.f[QUEUED_AT][row]
        self.waits.add(wait_s)
        self.meters.pool_wait_s.add(wait_s)
        self.tenants[row].waiting -= 1
        self.legs = i[LEG][row] = leg = self.legs + 1
        name = mirror.workers[worker].spec.name
        self.prefixes.sent(row, worker, prompt)
        if produced:
            self.out.append(co.Continue(i[REQUEST][row], leg, name, row, produced))
        else:
            self.out.append(co.SendDecode(i[REQUEST][row], leg, name, row))

    def first_token(self, row: int, worker: int) -> None:
        """A request that was sent decodes now."""
        rows, mirror, i = self.rows, self.mirror, self.rows.i
        rows.move(row, _FIRST_TOKEN)
        load = rows.load(row)
        mirror.i[SENT][worker] -= i[COPIES][row]
        mirror.i[RUNNING][worker] += i[COPIES][row]
        mirror.f[SENT_LOAD][worker] -= load
        mirror.f[LOAD][worker] += load
        mirror.joins(worker)
        self.lockstep.joins(mirror.group[worker])
        if not i[PRODUCED][row]:
            rows.f[FIRST_AT][row] = self.now_s
            self.meters.ttft_s.add(self.now_s - rows.f[SINCE][row])
        self.leave_prefiller(row, told=False)
        self.answered(row, mirror.workers[worker].spec.name)

    def unplace(self, row: int) -> None:
        """Take a request off its worker; its slots are free for others."""
        rows, mirror, i = self.rows, self.mirror, self.rows.i
        worker, copies, load, state = i[WORKER][row], i[COPIES][row], rows.load(row), i[STATE][row]
        if state == _SEATING:
            mirror.reserve(worker, -i[SEATED][row])
            self._no_longer_seating(row, worker)
        elif state == _SENT:
            mirror.lets_go(worker, SENT, copies)
            mirror.f[SENT_LOAD][worker] -= load
        else:
            mirror.lets_go(worker, RUNNING, copies)
            mirror.f[LOAD][worker] -= load
            self._leaves_step(row, worker)
        rows.place(row, -1)
        i[SEATED][row] = 0
        if self.seating:
            self.fill_seats(worker)

    def _leaves_step(self, row: int, worker: int) -> None:
        """The next steps of its group are delivered without it."""
        mirror, lockstep, last = self.mirror, self.lockstep, self.rows.step[row]
        group = mirror.group[worker]
        mirror.requests[worker] -= 1
        mirror.i[CHANGES][worker] += 1
        if lockstep.was_in_step(group, last):
            mirror.left[worker] += self.rows.load(row) - self.rows.i[COPIES][row]
        lockstep.leave(group, last)
        self.stepped(group)
        if not lockstep.running[group]:
            self.steps[group].stopped(mirror)

    def fill_seats(self, worker: int) -> None:
        """Free slots of a worker go to the requests that hold some of its slots already, oldest first."""
        for row in list(self.seating.get(worker, ())):
            self.seat(row, worker, self.mirror.free(worker))

    def unseat_all(self, worker: int) -> None:
        """A worker gets nothing new: who holds some of its slots goes back to the pool."""
        for row in list(self.seating.get(worker, ())):
            self._no_longer_seating(row, worker)
            self.mirror.reserve(worker, -self.rows.i[SEATED][row])
            self.rows.i[SEATED][row] = 0
            self.rows.place(row, -1)
            self.rows.move(row, Cause.RETRIES_DECODE)
            self.pool.add(row)

    def _no_longer_seating(self, row: int, worker: int) -> None:
        self.seating[worker].remove(row)
        if not self.seating[worker]:
            del self.seating[worker]

    # --- failures ------------------------------------------------------------------------------------------------

    def again(
        self, row: int, name: str, kind: Kind, retry_after_s: float = 0.0, is_counted: bool = True
    ) -> None:
        """A leg failed on this engine: the request is tried elsewhere, goes on elsewhere, or is over."""
        i, request = self.rows.i, self.rows.i[REQUEST][row]
        was_placed = self.rows.state(row) in _PLACED
        had_tokens, has_new = i[PRODUCED][row] > 0, i[PRODUCED][row] > i[BASE][row]
        if kind == "client":
            self.give_up(row, "client")
            return
        if kind == "recomputed":
            if not has_new:  # an engine that hands back what it got might do so for ever
                i[TRIES][row] += 1
                self.avoided[row] = name
                self.breaker.failed(name, request, is_certain=False)
        elif kind == "stale" and not i[TRIES][row] and not self.has_others(row, had_tokens, without=name):
            i[TRIES][row] = 1  # once more to the same: perhaps it was not asked at all
        else:
            self._exclude(row, name, kind)
            if is_counted and kind != "unable" and self.breaker.failed(name, request, kind == "connect"):
                self.eject(name)
        if had_tokens and not i[CONTINUES][row]:
            self.give_up(row, "cannot-continue")
            return
        if i[TRIES][row] > self.settings.retries or not self.has_others(row, had_tokens):
            self.give_up(row, "cannot-continue" if kind == "unable" else "failed")
            return
        if was_placed:
            self.unplace(row)
            self.waiting_again(row)
        self.leave_prefiller(row, told=was_placed)
        if had_tokens:
            self.meters.recomputes += 1
            if kind != "recomputed" or has_new:
                self.enqueue(row, Cause.CONTINUES)
                return
        else:
            self.meters.retries += 1
        self.rows.move(row, Cause.BACKS_OFF)
        delay_s = min(self.settings.backoff_cap_s, self.settings.backoff_s * 2.0 ** max(0, i[TRIES][row] - 1))
        delay_s = 0.0 if kind == "stale" else max(delay_s, min(retry_after_s, _LONGEST_ASKED_S))
        self.timers.set(("backoff", row), self.now_s + delay_s)

    def _exclude(self, row: int, name: str, kind: Kind) -> None:
        """Never to this engine again; a barrier group dies as one, so to none of its peers either."""
        self.rows.i[TRIES][row] += kind != "unable"  # which was not asked at all
        lost = [name] if kind in ("status", "unable") else self.fleet.lost_with(name)
        self.excluded.setdefault(row, set()).update(lost)

    def has_others(self, row: int, had_tokens: bool, is_up: bool = False, without: str = "") -> bool:
        """Whether an engine is left that it has not failed on, or one of them that is not ejected, or not lost with one."""
        out = {*self.excluded.get(row, ()), *self.fleet.lost_with(without)}
        return self.fleet.has_left(out, with_prefill=not had_tokens, is_up=is_up)

    def give_up(self, row: int, reason: str) -> None:
        """The request is over, and not as it should: a status before the first token, an error event after it."""
        request = self.rows.i[REQUEST][row]
        if self.rows.i[PRODUCED][row]:
            self.meters.requests["error"] += 1
            self.out.append(co.Fail(request, "failed" if reason == "client" else reason))
        else:
            status = {"client": 0, "expired": 503, "overdue": 504}.get(reason, 502)
            retry_s = min(60, max(1, math.ceil(self.waits.mean_s))) if status == 503 else 0
            self.meters.requests[str(status or 400)] += 1
            self.out.append(co.Reject(request, status, reason, retry_s))
        self.end(row, told=True)

    def answered(self, row: int, name: str) -> None:
        """An engine gave the request a token, or finished it: what it failed on before is to blame for that."""
        for other in self.breaker.answered(name, self.rows.i[REQUEST][row]):
            self.eject(other)
            self.due = True

    def eject(self, name: str) -> None:
        """Leave an engine alone, if another one is healthy."""
        if self.fleet.eject(name, self.now_s) and name in self.mirror.place:
            self.unseat_all(self.mirror.place[name])
            self.prefixes.lost(self.mirror.place[name])
            self.open_rounds()

    # --- ends ----------------------------------------------------------------------------------------------------

    def abort(self, row: int) -> None:
        """Close the upstream call of a request, if it has one."""
        state, i = self.rows.state(row), self.rows.i
        if state is State.PREFILLING:
            self.out.append(co.Abort(i[REQUEST][row], i[LEG][row], self.prefiller_of[row]))
        elif state in _PLACED:
            name = self.mirror.workers[i[WORKER][row]].spec.name
            self.out.append(co.Abort(i[REQUEST][row], i[LEG][row], name))

    def end(self, row: int, told: bool) -> None:
        """The request is over: nothing is kept of it.

        Args:
            told: whether a prefiller that keeps its KV is to be told.
        """
        rows, state = self.rows, self.rows.i[STATE][row]
        request, worker, here = rows.i[REQUEST][row], rows.i[WORKER][row], self.tenants.pop(row)
        if worker >= 0:
            self.unplace(row)
        if state not in _PLACED:
            here.waiting -= 1
            self.timers.clear(("ttl", row))
            self.timers.clear(("backoff", row))
            if state == _POOLED:
                self.pool.remove(row)
            elif state == _FOR_PREFILLER:
                del self.for_prefiller[row]
        self.door.leaves(here)
        if row in self.excluded or row in self.avoided:
            self.excluded.pop(row, None)
            self.avoided.pop(row, None)
            self.breaker.forget(request)
        self.prefixes.forget(row)
        rows.give_back(row, request)
        if row in self.prefiller_of:  # while it is prefilling the call itself is closed
            self.leave_prefiller(row, told=told and state != _PREFILLING, request=request)
        rows.clean(row)
        if worker >= 0:
            found = self.mirror.workers[worker]
            if found.leaves:
                self.forget_if_empty(found.spec.name)
            if not self.pool.is_empty:
                self.open_rounds()

    def leave_prefiller(self, row: int, told: bool, request: int = -1) -> None:
        """The prefiller need not keep the prompt's KV any longer."""
        name = self.prefiller_of.pop(row, None)
        if name is None:
            return
        i = self.rows.i
        self.prefill.release(name, row, i[PROMPT][row], i[CHARGED][row])
        if told:
            self.out.append(co.Release(i[REQUEST][row] if request < 0 else request, name))
        if self.for_prefiller:
            self.feed_prefillers()
            self.due = True  # commands may be waiting for the next event
        self.forget_if_empty(name)

    def rows_at(self, name: str) -> list[int]:
        """Rows of the requests on a worker, or at a prefiller."""
        place = self.mirror.place.get(name)
        if place is None:
            return sorted(self.prefill.prefillers[name].requests)
        return [row for row in self.rows.by_request.values() if self.rows.i[WORKER][row] == place]

    def forget_if_empty(self, name: str) -> None:
        """Take a worker that leaves out when nothing is left there."""
        found = self.fleet.find(name)
        if found is None or not found.leaves or self.rows_at(name):
            return
        place = self.mirror.place.get(name)
        self.fleet.remove(name)
        self.out.append(co.Removed(name))
        if place is None:
            return
        for row in self.rows.by_request.values():
            if self.rows.i[WORKER][row] > place:
                self.rows.place(row, self.rows.i[WORKER][row] - 1)
        self.seating = {g - (g > place): rows for g, rows in self.seating.items()}
        self.regroup()

    # --- small things --------------------------------------------------------------------------------------------

    def row_of(self, request: int, leg: int) -> int:
        """Row of a request whose own leg this is; -1, and counted, where it is not."""
        row = self.rows.by_request.get(request, -1)
        if row >= 0:
            i = self.rows.i
            if i[LEG][row] == leg and i[STATE][row] in _CALLED:
                return row
        self.meters.late += 1
        return -1

    def waiting_again(self, row: int) -> None:
        """A request that was sent waits once more."""
        self.tenants[row].waiting += 1
        self.prefixes.waits_again(row)
