"""The dispatcher: a plain state machine that decides everything live. Events in, commands out; no clock, no sockets.

Rules of this file. `handle` takes one event, brings the state up to date and answers with commands; the host carries
them out in order before it gives the next event. `produced` is the path of a chunk and takes two ints. All that decides
is in the events, so the same events give the same commands, in any process. Every change of a request's state is one of
`transitions.TABLE`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any, get_args

import msgspec

from evenstep import __version__
from evenstep.dispatch import events as ev
from evenstep.dispatch.checking import check as check_all
from evenstep.dispatch.checkpoint import dump
from evenstep.dispatch.commands import Abort, Command, Reject, WakeAt
from evenstep.dispatch.delivering import Delivering
from evenstep.dispatch.events import Event
from evenstep.dispatch.lockstep import BEHIND, WIDE, Lockstep
from evenstep.dispatch.mirror_layout import SENT_LOAD
from evenstep.dispatch.records import Done, Header, InParts, Record
from evenstep.dispatch.rounds import Rounds
from evenstep.dispatch.rows_layout import (
    CAP,
    CLASS,
    CONTINUES,
    COPIES,
    EXPECTED,
    FIRST_AT,
    KEY,
    LEAVE,
    LEG,
    NEVER,
    PREDICTED,
    PRODUCED,
    PROMPT,
    REQUEST,
    SESSION,
    SINCE,
    STATE,
    WORKER,
)  # fmt: skip
from evenstep.dispatch.settings import Settings
from evenstep.dispatch.snapshot import snapshot as snapshot_of
from evenstep.dispatch.steps import Steps
from evenstep.dispatch.transitions import Cause, State
from evenstep.errors import InputError

#: Names of a module are found several times as fast as members of an enum.
_SENT, _RUNNING = int(State.SENT), int(State.RUNNING)
_FOR_PREFILL, _FOR_DECODE = Cause.ARRIVES_FOR_PREFILL, Cause.ARRIVES_FOR_DECODE
_HISTORY = 64  # as many as stay in a processor's cache


class Dispatcher(Delivering):
    """Decides which request goes where and when, for one served model.

    Args:
        policy: routing policy, ``NAME[:key=value,...]``.
        predictor: predictor for a policy with a horizon; empty = what it usually asks, ``bounded`` by `max_tokens`.
        settings: limits and deadlines.
        stopwatch: seconds of the host's clock, to time decisions only; None = they have no budget.
        log: takes the records of a decision log, in order, and may come in parts (`records.InParts`); None = no log.
        overruns: decisions to be taken for too slow (replay).

    Attributes:
        now_s: the host may set it before a batch of chunks; events set it themselves.
        due: whether a `Tick` is wanted as soon as the reads at hand are done; `produced` may set it.
        history: the last events and what they gave, for whoever looks for a bug.

    Raises:
        InputError: an unknown policy, predictor or option.
    """

    def __init__(
        self, policy: str = "br-0", *, predictor: str = "", settings: Settings | None = None,
        stopwatch: Callable[[], float] | None = None, log: Callable[[Record], None] | None = None,
        overruns: frozenset[int] = frozenset(),
    ) -> None:  # fmt: skip
        settings = settings or Settings()
        super().__init__(settings, policy, predictor, stopwatch, overruns, log)
        self.is_draining = False
        self._most: tuple[float, int] | None = None  # until the fleet changes
        self._wake_s = math.inf
        self.history: deque[tuple[Event, list[Command]]] = deque(maxlen=_HISTORY)
        self._do: dict[type, Callable[[Any], None]] = {
            kind: getattr(self, f"_{kind.__name__.lower()}") for kind in get_args(Event)
        }
        self._parts = log if isinstance(log, InParts) else None
        if log is not None:
            log(Header(policy=policy, predictor=predictor, settings=settings, evenstep=__version__))
            self.deciding.keep_round = log
        self.bind()

    def handle(self, event: Event) -> list[Command]:
        """What to do about an event, in order.

        Time never goes back: an event that was stamped before the last one happens now.

        Raises:
            InputError: a new policy, predictor or worker that is none; a request of no tokens. Nothing has changed then.
        """
        now_s = event.now_s
        if self._log is not None:
            self.flush()
            if (
                now_s < self.now_s
            ):  # the log has the time it happens at, also where that came by `now_s` alone
                event = msgspec.structs.replace(event, now_s=self.now_s)
            if self._parts is not None and self._parts.is_full:
                self._parts.begin_part(dump(self))
            self._log(event)
            self._logged_s = max(self.now_s, now_s)
        if now_s > self.now_s:  # noqa: PLR1730  # a call costs more than all else here
            self.now_s = now_s
        self._do[type(event)](event)
        if self.deciding.door.binds_at_once and len(self.pool):
            self.bind_waiting()
        if self._wake_s > self.now_s and (self.due or self.rounds.opened_s or self.timers.is_new):
            self._wake()
        self.look_whether_quiet()
        out = self.out.copy()
        self.out.clear()
        self.history.append((event, out))
        return out

    def snapshot(self) -> dict[str, Any]:
        """Everything that is measured, as plain numbers by metric name."""
        return snapshot_of(self)

    def check(self) -> None:
        """See that all parts agree with each other.

        Raises:
            RuntimeError: they do not; a bug of ours.
        """
        check_all(self)

    # --- requests ------------------------------------------------------------------------------------------------

    def _arrived(self, event: ev.Arrived) -> None:
        if event.request in self.rows.by_request:
            raise RuntimeError(f"request {event.request} arrived twice")
        if event.prompt_tokens < 1 or event.copies < 1:
            field = "prompt_tokens" if event.prompt_tokens < 1 else "copies"
            raise InputError(f"request {event.request}", field, getattr(event, field), "an integer >= 1")
        refusal = self._refusal(event)
        if refusal is not None:
            self.meters.requests[str(refusal[0])] += 1
            self.out.append(Reject(event.request, *refusal))
            return
        rows = self.rows
        row = rows.take(event.request)
        if rows.generation != self._generation:
            self.bind()
        i = rows.i
        i[PROMPT][row], i[CAP][row], i[COPIES][row] = event.prompt_tokens, event.max_tokens, event.copies
        i[KEY][row], i[SESSION][row], i[CLASS][row] = event.key, event.session, event.request_class
        i[EXPECTED][row], i[CONTINUES][row] = event.expected_tokens, event.can_continue and event.copies == 1
        rows.f[SINCE][row] = self.now_s
        self.tenants[row] = self.door.enters(event.tenant)
        if event.blocks:
            self.prefixes.add(row, event.blocks)
        self.enqueue(row, _FOR_PREFILL if self.fleet.is_split else _FOR_DECODE)

    def _refusal(self, event: ev.Arrived) -> tuple[int, str, int] | None:
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
        waiting, settings = len(self.pool) + len(self.for_prefiller), self.settings
        if waiting < settings.pool_limit and not settings.tenants:
            return None
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

    def _prefilldone(self, event: ev.PrefillDone) -> None:
        row = self.row_of(event.request, event.leg)
        if row < 0:
            return
        if event.prompt_tokens > 0:
            self.correct(row, event.prompt_tokens)
        self.answered(row, self.prefiller_of[row])
        self.enqueue(row, Cause.PREFILLED)

    def _promptcounted(self, event: ev.PromptCounted) -> None:
        row = self.rows.by_request.get(event.request)
        if row is not None and event.prompt_tokens > 0:
            self.correct(row, event.prompt_tokens)

    def _finished(self, event: ev.Finished) -> None:
        row = self.row_of(event.request, event.leg)
        if row < 0:
            return
        if event.prompt_tokens > 0:
            self.correct(row, event.prompt_tokens)
        i = self.rows.i
        if i[STATE][row] == _SENT:
            worker = i[WORKER][row]
            self.answered(row, self.mirror.workers[worker].spec.name)
            if event.output_tokens > 0:  # it came whole: no step of its group had a token of it
                i[PRODUCED][row] += event.output_tokens
                self.mirror.f[SENT_LOAD][worker] += event.output_tokens
                self.meters.ttft_s.add(self.now_s - self.rows.f[SINCE][row])
        self.completed(row)
        self.end(row, told=False)

    def completed(self, row: int) -> None:
        """See `Requests`: the predictor learns, and times are noted."""
        i, meters = self.rows.i, self.meters
        meters.requests["200"] += 1
        produced = i[PRODUCED][row]
        tokens = produced // i[COPIES][row]
        meters.output_tokens += produced
        if self._log is not None:
            self._log(Done(i[REQUEST][row], i[PROMPT][row], produced))
        if not tokens:
            return
        self.deciding.ended(i[REQUEST][row], i[PROMPT][row], tokens, i[KEY][row])
        if tokens > 1 and i[STATE][row] == _RUNNING:
            meters.tpot_s.add((self.now_s - self.rows.f[FIRST_AT][row]) / (tokens - 1))
        if i[PREDICTED][row] >= 0 and i[LEAVE][row] < NEVER:
            meters.prediction_error.add(abs(i[LEAVE][row] - tokens))

    def _failed(self, event: ev.Failed) -> None:
        row = self.row_of(event.request, event.leg)
        if row < 0:
            return
        worker = self.rows.i[WORKER][row]
        name = self.prefiller_of[row] if worker < 0 else self.mirror.workers[worker].spec.name
        self.again(row, name, event.kind, event.retry_after_s)
        self.forget_if_empty(name)
        self.open_rounds()

    def _clientgone(self, event: ev.ClientGone) -> None:
        row = self.rows.by_request.get(event.request)
        if row is None:
            self.meters.late += 1
            return
        self.meters.cancelled += 1
        self.meters.requests["cancelled"] += 1
        self.abort(row)
        self.end(row, told=True)

    # --- rounds --------------------------------------------------------------------------------------------------

    def _tick(self, event: ev.Tick) -> None:
        self.due, self._wake_s, self.timers.is_new = False, math.inf, True  # whatever was asked for has come
        self._look_at_deadlines()
        self.close_rounds()

    # --- deadlines -----------------------------------------------------------------------------------------------

    def _look_at_deadlines(self) -> None:
        while (found := self.timers.pop(self.now_s)) is not None:
            name, number = found
            if name == "ttl":
                self.give_up(number, "expired")
            elif name == "backoff":
                self.enqueue(number, Cause.RETRIES_PREFILL if self.fleet.is_split else Cause.RETRIES_DECODE)
            elif name == "probe":
                self.fleet.probe(number, self.now_s)
            else:
                self.open_rounds()
                self.rounds.ripe = True

    def _wake(self) -> None:
        """Ask for the next tick, if it is another one than was asked for.

        Not where a tick is due that was asked for, nor where nothing came up; a tick that comes too early does no harm.
        """
        self.timers.is_new = False
        at_s = min(self.timers.next_s, self.rounds.deadline_s(self.settings.gather_ms / 1000))
        at_s = self.now_s if self.due else max(at_s, self.now_s)
        if at_s != self._wake_s and at_s < math.inf:
            self.out.append(WakeAt(at_s))
        self._wake_s = at_s

    # --- workers and rules ---------------------------------------------------------------------------------------

    def _workeradded(self, event: ev.WorkerAdded) -> None:
        if self.fleet.add(event.spec, self.now_s):
            self.regroup()
        self._fleet_changed()

    def _workerremoved(self, event: ev.WorkerRemoved) -> None:
        name = event.worker
        if self.fleet.find(name) is None:
            return
        self.fleet.leave(name)
        place = self.mirror.place.get(name)
        if place is not None:
            self.unseat_all(place)
        if not event.drain:
            for row in self.rows_at(name):
                self._move_off(row, name)
        self.forget_if_empty(name)
        self._fleet_changed()

    def _move_off(self, row: int, name: str) -> None:
        """A worker leaves at once: what it does for this request is done elsewhere."""
        if self.rows.i[WORKER][row] < 0 and self.rows.state(row) is not State.PREFILLING:
            self.leave_prefiller(row, told=False)
            return
        if self.rows.i[WORKER][row] >= 0 and name in self.prefill.prefillers:
            self.leave_prefiller(row, told=False)
            return
        self.out.append(Abort(self.rows.i[REQUEST][row], self.rows.i[LEG][row], name))
        self.again(row, name, "status", is_counted=False)

    def regroup(self) -> None:
        """Places or groups changed: rounds and steps begin anew, and what policies kept is forgotten."""
        mirror = self.mirror
        running = [0] * mirror.groups
        for group, requests in zip(mirror.group, mirror.requests, strict=True):
            running[group] += requests
        self.lockstep = Lockstep(running)
        self.rounds = Rounds(self.lockstep)
        for row in self.rows.by_request.values():
            if self.rows.state(row) is State.RUNNING:
                self.rows.step[row] = WIDE if self.rows.i[COPIES][row] > 1 else BEHIND
        members = [[g for g, q in enumerate(mirror.group) if q == group] for group in range(mirror.groups)]
        self.steps = [Steps(places) for places in members]
        self.prefixes.resize(len(mirror.workers))
        self.deciding.resize()
        self.bind()

    def _sampling(self, event: ev.Sampling) -> None:
        place = self.mirror.place.get(event.worker)
        if place is not None:
            self.mirror.sampling(place)

    def _sampled(self, event: ev.Sampled) -> None:
        self.fleet.sampled(event, self.now_s)
        self._fleet_changed()

    def _scrapefailed(self, event: ev.ScrapeFailed) -> None:
        if event.worker in self.prefill.prefillers:
            self.prefill.unreadable(event.worker)

    def _probed(self, event: ev.Probed) -> None:
        self.fleet.probed(event.worker, event.ok, self.now_s)
        place = self.mirror.place.get(event.worker)
        if place is not None and not self.mirror.workers[place].is_up:
            self.unseat_all(place)
        self._fleet_changed()

    def _fleet_changed(self) -> None:
        self._most = None
        for place in list(self.seating):
            self.fill_seats(place)
        self.feed_prefillers()
        self.open_rounds()

    def _reloaded(self, event: ev.Reloaded) -> None:
        if event.policy or event.predictor:
            self.reload(event.policy, event.predictor)
        if event.settings is not None:
            found = event.settings
            self.settings = self.door.settings = self.deciding.settings = self.fleet.settings = found
            self.deciding.fallback.good_rounds = found.good_rounds
            self.breaker.limits(found.breaker_failures, found.cooldown_s, found.cooldown_cap_s)
        self.open_rounds()

    def reload(self, policy: str, predictor: str) -> None:
        """Decide by other rules from now on; empty = as before.

        Raises:
            InputError: no such policy or predictor; nothing has changed then.
        """
        self.deciding.load(policy or self.deciding.door.text, predictor)
        for row in self.rows.by_request.values():
            self.rows.i[PREDICTED][row], self.rows.i[LEAVE][row] = -1, NEVER

    def _draining(self, event: ev.Draining) -> None:
        self.is_draining = True
