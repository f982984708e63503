"""The dispatcher: a plain state machine that decides everything live. Events in, commands out; no clock, no sockets.

Rules of this file. `handle` takes one event, `handle_all` those that have come up; each brings the state up to date and
answers with commands, which the host carries out in order before it gives more. `produced` is the path of a chunk and
takes two ints. All that decides is in the events, so the same events give the same commands, in any process. Every change
of a request's state is one of `transitions.TABLE`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar, get_args

import msgspec

from evenstep import __version__
from evenstep.dispatch import events as ev
from evenstep.dispatch.arriving import Arriving
from evenstep.dispatch.checking import check as check_all
from evenstep.dispatch.checkpoint import dump
from evenstep.dispatch.commands import Abort, Command, Removed, WakeAt
from evenstep.dispatch.ending import TOGETHER
from evenstep.dispatch.events import Arrived, Event, Finished
from evenstep.dispatch.lockstep import BEHIND, WIDE, Lockstep
from evenstep.dispatch.records import Header, InParts, Record
from evenstep.dispatch.rounds import Rounds
from evenstep.dispatch.rows_layout import COPIES, LEAVE, LEG, NEVER, PREDICTED, PRODUCED, REQUEST, WORKER
from evenstep.dispatch.settings import Settings
from evenstep.dispatch.snapshot import snapshot as snapshot_of
from evenstep.dispatch.steps import Steps
from evenstep.dispatch.transitions import Cause, State

_E = TypeVar("_E", Arrived, Finished)
_HISTORY = 64  # as many as stay in a processor's cache
_PENDING_S = 1.0  # a host may be early by less than this


class Dispatcher(Arriving):
    """Decides which request goes where and when, for one served model.

    Args:
        policy: routing policy, ``NAME[:key=value,...]``.
        predictor: predictor for a policy with a horizon; empty = what it usually asks, ``bounded`` by `max_tokens`.
        settings: limits and deadlines.
        stopwatch: seconds of the host's clock, to time decisions only; None = they have no budget.
        processor: seconds of processor time of the host's thread, for the budget; None = the stopwatch serves for it.
        log: takes the records of a decision log, in order, and may come in parts (`records.InParts`); None = no log.
        overruns: decisions to be taken for too slow (replay).

    Attributes:
        now_s: the host may set it before a batch of chunks; events set it themselves.
        due: whether a `Tick` is wanted as soon as the reads at hand are done; `produced` may set it.
        history: the last events, each with all commands that were given together with its own, for whoever looks for
            a bug.

    Raises:
        InputError: an unknown policy, predictor or option.
    """

    def __init__(
        self, policy: str = "br-0", *, predictor: str = "", settings: Settings | None = None,
        stopwatch: Callable[[], float] | None = None, log: Callable[[Record], None] | None = None,
        overruns: frozenset[int] = frozenset(), processor: Callable[[], float] | None = None,
    ) -> None:  # fmt: skip
        settings = settings or Settings()
        super().__init__(settings, policy, predictor, stopwatch, overruns, log)
        self.deciding.processor = processor or stopwatch
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
        """What to do about an event, in order; see `handle_all`.

        Raises:
            InputError: a new policy, predictor or worker that is none; a request of no tokens. Nothing has changed then.
        """
        return self.handle_all(deque((event,)))

    def handle_all(self, events: deque[Event], ticks: bool = False) -> list[Command]:
        """What to do about events that have come up, in order; they are taken out as they are handled.

        Decisions, state and log are as if each had been handled by itself, and all commands carried out then. Time never
        goes back: an event that was stamped before the last one happens now.

        Args:
            ticks: a `Tick` follows them, if they make one due.

        Raises:
            InputError: as `handle`; the event stands first in `events`, and the next call has the commands so far.
        """
        out, history, waiting = self.out, self.history, self.pool.here
        while events or (ticks and self.due):
            if not events:
                events.append(ev.Tick(now_s=self.now_s))
                ticks = False
            done = self._several(events) if len(events) > 1 else 0
            if done:
                for _ in range(done):
                    history.append((events.popleft(), out))
            else:
                self._take(events[0])
                history.append((events.popleft(), out))
            if waiting and self.deciding.door.binds_at_once:
                self.bind_waiting()
        return self._told()

    def _told(self) -> list[Command]:
        """All commands there are, with the time of the next tick."""
        out = self.out
        if self._wake_s > self.now_s and (
            self.due
            or self.rounds.opened_s
            or self.timers.is_new
            or self.newcomers
            or self.overdue_s < self._wake_s
        ):
            self._wake()
        self.look_whether_quiet()
        self.out = self.fleet.out = []
        return out

    def _several(self, events: deque[Event]) -> int:
        """Handle the first of several events together, if they are of those that come in number; how many were."""
        kind = type(events[0])
        if self._log is not None:
            return 0
        if kind is Arrived and not self.deciding.door.binds_at_once:
            return self.arrived_all(_run_of(events, Arrived))
        if kind is Finished and not self.pool.here:
            return self.finished_all(_run_of(events, Finished))
        return 0

    def _take(self, event: Event) -> None:
        """Handle an event by itself, and log it."""
        now_s = event.now_s
        if self._log is not None:
            self.flush()
            if (
                now_s < self.now_s
            ):  # the log has the time it happens at, also where that came by `now_s` alone
                event = msgspec.structs.replace(event, now_s=self.now_s)
            if self._parts is not None and self._parts.is_full:
                self._parts.begin_part(dump(self))
            if isinstance(event, Arrived) and self.settings.tenants and not event.judged:
                event = self._judged(event)
            self._log(event)
            self._logged_s = max(self.now_s, now_s)
        if now_s > self.now_s:  # noqa: PLR1730  # a call costs more
            self.now_s = now_s
        self._do[type(event)](event)

    def _judged(self, event: Arrived) -> Arrived:
        """The event with what its tenant's limits say of it, which only the host's other dispatchers know besides."""
        found = self.refusal(event, max(self.now_s, event.now_s))
        if found is None:
            return msgspec.structs.replace(event, judged="in")
        status, reason, retry_after_s = found
        if status != 429:
            return event
        return msgspec.structs.replace(event, judged=reason, retry_after_s=retry_after_s)

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
        self.deciding.gone(row)
        self.end(row, told=True)

    def give_up(self, row: int, reason: str) -> None:
        """See `Requests`: the predictor hears of it."""
        self.deciding.gone(row)
        super().give_up(row, reason)

    # --- rounds --------------------------------------------------------------------------------------------------

    def _tick(self, event: ev.Tick) -> None:
        timers = self.timers
        self.due, timers.is_new = False, bool(timers.at)
        if self._wake_s != self.overdue_s or self._wake_s - self.now_s < _PENDING_S:
            self._wake_s = math.inf  # what was asked for has come
        if self.newcomers and self.newcomers_s + self.settings.ttl_s <= self.now_s:
            self.set_deadlines()
        if timers.at:
            self._look_at_deadlines()
        if self.overdue_s <= self.now_s:
            self.end_overdue()
        self.close_rounds()
        if self.newcomers:
            self.set_deadlines()

    # --- deadlines -----------------------------------------------------------------------------------------------

    def _look_at_deadlines(self) -> None:
        while (found := self.timers.pop(self.now_s)) is not None:
            name, number = found
            if name == "ttl":
                self.give_up(number, "expired")
            elif name == "backoff":
                needs_prefill = self.fleet.is_split and not self.rows.i[PRODUCED][number]
                self.enqueue(number, Cause.RETRIES_PREFILL if needs_prefill else Cause.RETRIES_DECODE)
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
        at_s = self.now_s
        if not self.due:
            if self.newcomers:
                self.set_deadlines()
                self.timers.is_new = False
            round_s = self.rounds.deadline_s(self.settings.gather_ms / 1000)
            at_s = max(at_s, min(self.timers.next_s, round_s, self.overdue_s))
        if at_s != self._wake_s and at_s < math.inf:
            self.out.append(WakeAt(at_s))
        self._wake_s = at_s

    # --- workers and rules ---------------------------------------------------------------------------------------

    def _workeradded(self, event: ev.WorkerAdded) -> None:
        """A worker joins. Where its removal is not told yet, its host need not hear of it: it is there again."""
        removed = Removed(event.spec.name)
        if removed in self.out:
            self.out.remove(removed)
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
        self.give_up_stranded()
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
        self.prefixes.resize(mirror.names)
        self.deciding.resize()
        self.bind()

    def _sampling(self, event: ev.Sampling) -> None:
        place = self.mirror.place.get(event.worker)
        if place is not None:
            self.mirror.sampling(place)

    def _sampled(self, event: ev.Sampled) -> None:
        self.fleet.sampled(event, self.now_s)
        place = self.mirror.place.get(event.worker)
        if place is not None:
            self.prefixes.sampled(place, event.prefix_queried, event.prefix_hit)
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
            self.set_deadlines()
            found = event.settings
            self.settings = self.door.settings = self.deciding.settings = self.fleet.settings = found
            self.deciding.fallback.cooldown_s = found.policy_cooldown_s
            self.deciding.limit()
            self.breaker.limits(found.breaker_failures, found.cooldown_s, found.cooldown_cap_s)
            self.look_when_overdue()
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


def _run_of(events: deque[Event], kind: type[_E]) -> list[_E]:
    """The first of them, as far as they are of this kind, as many as are handled at once."""
    run: list[_E] = []
    for event in events:
        if not isinstance(event, kind) or len(run) == TOGETHER:
            break
        run.append(event)
    return run
