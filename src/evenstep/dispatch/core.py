"""The dispatcher: a plain state machine that decides everything live. Events in, commands out; no clock, no sockets.

Rules of this file. `handle` takes one event, `handle_all` several. Each updates the state and returns commands, which the
host carries out in order before the next call. `produced` takes a chunk, given as two ints; chunks are counted together
before anything is decided or read. Decisions depend only on events, on chunks, and on whether a policy kept to its
`budget_ms`: given the same, they are the same in any process. Every change of a request's state is one of
`transitions.TABLE`.

The state is in `parts.Parts`. This file calls the parts that an event concerns, in order.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar, get_args

from evenstep import __version__
from evenstep.dispatch import events as ev
from evenstep.dispatch.admission import Admission
from evenstep.dispatch.arrivals import Arrivals
from evenstep.dispatch.checkpoint import dump, load
from evenstep.dispatch.commands import Abort, Command, Removed, WakeAt
from evenstep.dispatch.deliveries import Deliveries
from evenstep.dispatch.events import Arrived, Event, Finished
from evenstep.dispatch.lifecycle import Lifecycle
from evenstep.dispatch.log.records import Header, Record
from evenstep.dispatch.parts import Parts
from evenstep.dispatch.requests.rows import NEVER, UNPREDICTED
from evenstep.dispatch.settings import Settings, to_log
from evenstep.dispatch.transitions import State
from evenstep.predict.view import Fit

_E = TypeVar("_E", Arrived, Finished)
_IN_NUMBER = (Arrived, Finished)  # events of these kinds are handled as batches
_PENDING_S = 1.0  # a host may be early by less than this
_TOGETHER = 64  # events of a kind that are handled at once


class Dispatcher:
    """Decides which request goes where and when, for one served model. It takes events and returns commands.

    Args:
        policy: routing policy, ``NAME[:key=value,...]``.
        predictor: for a policy with a horizon; empty = ``bounded``, around the policy's usual predictor if it names one.
        settings: limits and deadlines.
        stopwatch: returns seconds of the host's clock, to time stages of decisions; None = they are not timed.
        processor: returns seconds of processor time of the host's thread, for `budget_ms`; None = `stopwatch` is used.
        log: takes the records of a decision log, in order, and may come in parts (`records.InParts`); None = no log.
        overruns: numbers of the decisions that count as over budget, where no clock tells (replay).

    Attributes:
        parts: where everything about requests and workers is kept.
        produced: `produced(row, tokens)` takes a chunk of the request in this row; see `Deliveries.produced`.

    Raises:
        InputError: an unknown or invalid policy, predictor or option.
    """

    def __init__(
        self,
        policy: str = "br-0",
        *,
        predictor: str = "",
        settings: Settings | None = None,
        stopwatch: Callable[[], float] | None = None,
        log: Callable[[Record], None] | None = None,
        overruns: frozenset[int] = frozenset(),
        processor: Callable[[], float] | None = None,
    ) -> None:
        settings = settings or Settings()
        parts = Parts(settings, policy, predictor, log)
        deciding = parts.deciding
        deciding.stopwatch, deciding.processor = stopwatch, processor or stopwatch
        deciding.overruns, deciding.keep_round = overruns, log
        if log is not None:
            log(Header(policy=policy, predictor=predictor, settings=to_log(settings), evenstep=__version__))
        self._do: dict[type, Callable[[Any], None]] = {
            kind: getattr(self, f"_{kind.__name__.lower()}") for kind in get_args(Event) if kind not in _IN_NUMBER
        }
        self._ends_as: dict[int, str] = {}  # request -> how its `ClientGone` counts
        self._take(parts)

    def _take(self, parts: Parts) -> None:
        """Use the state in `parts` from now on, in place of any earlier state; the helpers that work on it are made anew."""
        self.parts, self._turn, self._journal = parts, parts.turn, parts.journal
        self._rounds, self._deadlines, self._timers = parts.rounds, parts.deadlines, parts.fleet.timers
        self.rows, self.pool, self.fleet, self.mirror = parts.rows, parts.pool, parts.fleet, parts.fleet.mirror
        self.lifecycle = Lifecycle(parts)
        self.arrivals = Arrivals(parts, self.lifecycle)
        self.admission = Admission(parts)
        self.deliveries = deliveries = Deliveries(parts, self.lifecycle)
        self.produced = deliveries.produced

    # --- what a host reads and writes ----------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        """The dispatcher's time in seconds, on the clock of the events; -inf before the first event.

        Events set it, but never back. Before a batch of chunks the host sets it to the time at which they were read; the
        host must not set it back.
        """
        return self._turn.now_s

    @now_s.setter
    def now_s(self, now_s: float) -> None:
        self._turn.now_s = now_s

    @property
    def due(self) -> bool:
        """Whether the host should send a `Tick` now; look after `handle`, and after a batch of chunks.

        Chunks are counted first. Handling a `Tick` clears it first; what the tick does may set it again.
        """
        self.deliveries.count()
        return self._turn.due

    @property
    def settings(self) -> Settings:
        """The limits and deadlines in force: the constructor's, a resumed state's, or those reloaded last."""
        return self._turn.settings

    @property
    def history(self) -> deque[tuple[Event, list[Command]]]:
        """The last 64 events, oldest first, each with all commands returned together with its own; for debugging."""
        return self._journal.history

    @property
    def is_logged(self) -> bool:
        """Whether the dispatcher writes a decision log."""
        return self._journal.log is not None

    @property
    def most(self) -> tuple[float, int]:
        """Largest KV capacity (tokens) and most slots of a decode worker that is not leaving; 0, 0 without one.

        The two may be of different workers. The capacity is inf if a worker's is not known. Larger requests are refused.
        """
        return self.arrivals.most

    @property
    def fit(self) -> Fit | None:
        """The fit of the predictor's models that is due; None if no fit is due, or no predictor in use fits models.

        The host runs it between decisions, then sends `Fitted`, and the new models decide from that event on. In a replay no
        host has run the fit, so the event runs it, from the same data.
        """
        return None if self.parts.deciding.ahead is None else self.parts.deciding.ahead.fit

    def count(self) -> None:
        """Count the chunks that `produced` took; everything here that depends on them does so first."""
        self.deliveries.count()

    def counted(self, row: int, prompt_tokens: int) -> None:
        """Set the true number of prompt tokens (1 or more) of the request in this row, as `PromptCounted` would.

        Call it only without a decision log, which would lack it, and when all events so far have been handled.
        """
        self.deliveries.count()
        self.lifecycle.correct(row, prompt_tokens)

    def rejected(self, status: int) -> None:
        """Count a request that ended with a `Reject`, by the HTTP status that the host answered with."""
        self.parts.meters.requests[str(status)] += 1

    def completed(self) -> None:
        """Count a request that ended with a `Fail` as complete: the host found that its answer had ended before."""
        requests = self.parts.meters.requests
        requests["error"] -= 1
        requests["200"] += 1

    def ends_as(self, request: int, status: int) -> None:
        """Count the request whose `ClientGone` follows by the status of the host's refusal instead; 0 = as an error."""
        self._ends_as[request] = str(status) if status else "error"

    def flush(self) -> None:
        """Write the chunks since the last record to the decision log, if any; call it before the log is closed."""
        self.deliveries.count()
        self._journal.flush()

    def snapshot(self) -> dict[str, Any]:
        """All measured values by metric name without ``evenstep_``, as `Parts.snapshot` returns them."""
        self.deliveries.count()
        return self.parts.snapshot()

    def check(self) -> None:
        """Check the invariants between all parts; for tests, between two events. Raises RuntimeError if one is broken."""
        self.deliveries.count()
        self.parts.check()

    def resume(self, state: bytes) -> None:
        """Replace the whole state by `state`, the bytes of a log's `Checkpoint`; earlier requests and workers are dropped.

        No command tells of them. The log, the history and `overruns` of this dispatcher stay in use. Decisions are not timed
        any more. `parts` and `produced` are new objects.

        Raises:
            InputError: bytes that are no state of a dispatcher, or are of another layout; nothing has changed then.
        """
        parts, now = load(state), self.parts.deciding
        parts.journal.follow(self._journal)
        found = parts.deciding
        found.notice, found.stopwatch, found.processor = parts.fleet.notice, None, None
        found.overruns, found.keep_round = now.overruns, self._journal.log
        self._take(parts)

    def reload(self, policy: str, predictor: str) -> None:
        """Use another policy and predictor, ``NAME[:key=value,...]``, without a record in the log; empty = keep it.

        Policy memory and the predictions of running requests are dropped. A host sends `Reloaded` instead, which is logged.

        Raises:
            InputError: an unknown or invalid policy or predictor; nothing has changed then.
        """
        deciding, at = self.parts.deciding, self.rows.at
        deciding.load(policy or deciding.call.text, predictor)
        self._rounds.binds_at_once = deciding.call.binds_at_once
        for row in self.rows.by_request.values():
            at.predicted[row], at.leave[row] = UNPREDICTED, NEVER

    # --- events --------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> list[Command]:
        """Handle one event; returns the commands to carry out, in order, before the next event. See `handle_all`.

        Raises:
            InputError: an invalid policy or predictor; another role for a known worker; a request without tokens or copies.
                Nothing but the time and the log has changed then.
            RuntimeError: a request whose number is in use already.
        """
        return self.handle_all(deque((event,)))

    def handle_all(self, events: deque[Event], ticks: bool = False) -> list[Command]:
        """Handle events in order, and return all commands since the last return. Handled events are removed from `events`.

        Decisions, state and log are as if each event had been handled by itself and its commands carried out. Time never
        goes back: an event stamped earlier than the last one gets that one's time.

        Args:
            events: oldest first, changed.
            ticks: after the events, handle one `Tick` if `due` is true.

        Raises:
            InputError, RuntimeError: as `handle`. The event is left first in `events`; remove it before the next call, which
                returns the commands so far.
        """
        self.deliveries.count()
        turn, history, waiting, journal = self._turn, self._journal.history, self.pool.here, self._journal
        while events or (ticks and turn.due):
            if not events:
                events.append(ev.Tick(now_s=turn.now_s))
                ticks = False
            if journal.log is not None:
                journal.flush()
                if journal.in_parts is not None and journal.in_parts.is_full:
                    journal.in_parts.begin_part(dump(self.parts))
            for _ in range(self._handle_first(events)):
                history.append((events.popleft(), turn.out))
            if waiting and self._rounds.binds_at_once:
                self.admission.bind_waiting()
        return self._told()

    def _handle_first(self, events: deque[Event]) -> int:
        """Handle the first event; if it is `Arrived` or `Finished`, also up to 63 of its kind after it. Returns how many."""
        event, turn, journal = events[0], self._turn, self._journal
        do = self._do.get(type(event))
        if do is not None:
            if journal.log is not None:
                journal.note(event, turn.now_s)
            turn.now_s = max(turn.now_s, event.now_s)
            do(event)
            return 1
        most = 1 if self._rounds.binds_at_once else _TOGETHER
        if isinstance(event, Arrived):
            return self.arrivals.arrived(_run_of(events, event, most))
        assert isinstance(event, Finished)
        run = _run_of(events, event, most)
        self.lifecycle.finished(run)
        return len(run)

    def _told(self) -> list[Command]:
        """Return and clear the commands so far; a changed next tick adds a `WakeAt`. Newcomers may get their deadlines."""
        turn, timers, deadlines, wake_s = self._turn, self._timers, self._deadlines, self._deadlines.wake_s
        out = turn.out
        if wake_s > turn.now_s and (
            turn.due or self._rounds.opened_s or timers.is_new or deadlines.newcomers or deadlines.overdue_s < wake_s
        ):
            at_s = turn.now_s
            if not turn.due:
                if deadlines.newcomers:
                    deadlines.set_newcomers()
                round_s = self._rounds.deadline_s(turn.settings.gather_ms / 1000)
                at_s = max(at_s, min(timers.next_s, round_s, deadlines.overdue_s))
            timers.is_new = False
            if at_s != wake_s and at_s < math.inf:
                out.append(WakeAt(at_s))
            deadlines.wake_s = at_s
        self.deliveries.look()
        turn.out = []
        return out

    # --- requests ------------------------------------------------------------------------------------------------

    def _prefilldone(self, event: ev.PrefillDone) -> None:
        lifecycle = self.lifecycle
        row = lifecycle.row_of(event.request, event.leg)
        if row < 0:
            return
        if event.prompt_tokens > 0:
            lifecycle.correct(row, event.prompt_tokens)
        lifecycle.answered(row, self.parts.prefills.prefiller_of[row])
        lifecycle.enqueue(row, State.POOLED)

    def _promptcounted(self, event: ev.PromptCounted) -> None:
        row = self.rows.by_request.get(event.request)
        if row is not None and event.prompt_tokens > 0:
            self.lifecycle.correct(row, event.prompt_tokens)

    def _failed(self, event: ev.Failed) -> None:
        lifecycle = self.lifecycle
        row = lifecycle.row_of(event.request, event.leg)
        if row < 0:
            return
        worker = self.rows.at.worker[row]
        name = self.parts.prefills.prefiller_of[row] if worker < 0 else self.mirror.names[worker]
        lifecycle.leg_failed(row, name, event.kind, event.retry_after_s, event.is_counted)
        lifecycle.forget_if_empty(name)
        self._rounds.open()

    def _clientgone(self, event: ev.ClientGone) -> None:
        row, code = self.rows.by_request.get(event.request), self._ends_as.pop(event.request, "cancelled")
        if row is None:
            self.parts.meters.late += 1
        else:
            self.lifecycle.gone(row, code)

    # --- time ----------------------------------------------------------------------------------------------------

    def _tick(self, _event: ev.Tick) -> None:
        """Handle due timers and deadlines, end requests older than `total_s`, and decide the rounds that are due."""
        timers, deadlines, turn = self._timers, self._deadlines, self._turn
        turn.due, timers.is_new = False, bool(timers.at)
        if deadlines.wake_s != deadlines.overdue_s or deadlines.wake_s - turn.now_s < _PENDING_S:
            deadlines.wake_s = math.inf  # the tick that was asked for has come
        if deadlines.newcomers and deadlines.newcomers_s + turn.settings.ttl_s <= turn.now_s:
            deadlines.set_newcomers()
        if timers.at:
            self._look_at_timers()
        if deadlines.overdue_s <= turn.now_s:
            while (row := deadlines.overdue()) >= 0:
                self.lifecycle.abort(row)
                self.lifecycle.give_up(row, "overdue")
        self.admission.close_rounds()
        if deadlines.newcomers:
            deadlines.set_newcomers()

    def _look_at_timers(self) -> None:
        """Handle each due timer by its name: end an expired request, retry one, probe a worker, or open a round."""
        while (found := self._timers.pop(self._turn.now_s)) is not None:
            name, number = found
            if name == "ttl":
                self.lifecycle.give_up(number, "expired")
            elif name == "backoff":
                self.lifecycle.backed_off(number)
            elif name == "probe":
                self.fleet.probe(number, self._turn.now_s)
            else:  # "again"
                self._rounds.open()
                self._rounds.ripe = True

    # --- workers -------------------------------------------------------------------------------------------------

    def _workeradded(self, event: ev.WorkerAdded) -> None:
        """Add a worker, or change a known one. A `Removed` for it that the host has not got yet is withdrawn."""
        removed = Removed(event.spec.name)
        if removed in self._turn.out:
            self._turn.out.remove(removed)
        if self.fleet.add(event.spec, self._turn.now_s):
            self.lifecycle.regroup()
        self._fleet_changed()

    def _workerremoved(self, event: ev.WorkerRemoved) -> None:
        """Mark a worker as leaving: it gets nothing new. Without `drain` its requests are moved off at once.

        Requests that hold only some of their slots there go back to the pool. Waiting requests that have failed, and have no
        engine left now, end.
        """
        name = event.worker
        if not self.fleet.leave(name):
            return
        place = self.mirror.place.get(name)
        if place is not None:
            self.parts.slots.clear(place)
        if not event.drain:
            for row in self.lifecycle.rows_on(name):
                self._move_off(row, name)
        self.lifecycle.go_without_prefill()
        self.lifecycle.give_up_stranded()
        self.lifecycle.forget_if_empty(name)
        self._fleet_changed()

    def _move_off(self, row: int, name: str) -> None:
        """Abort the request's call at the leaving engine `name`, and retry, continue or end it (`leg_failed`).

        If `name` is a prefiller that only keeps the request's KV, that KV is dropped, and the request stays as it is. A
        `Release` tells the host, so that no later call has the hand-over.
        """
        is_placed, prefills = self.rows.at.worker[row] >= 0, self.parts.prefills
        is_prefiller = name in self.fleet.prefill.prefillers
        if is_prefiller if is_placed else self.rows.state(row) is not State.PREFILLING:
            prefills.leave(row, told=True)
            return
        self._turn.out.append(Abort(self.rows.at.request[row], self.rows.at.leg[row], name))
        self.lifecycle.leg_failed(row, name, "status", is_counted=False)

    def _sampling(self, event: ev.Sampling) -> None:
        place = self.mirror.place.get(event.worker)
        if place is not None:
            self.mirror.sampling(place)

    def _sampled(self, event: ev.Sampled) -> None:
        self.fleet.sampled(event, self._turn.now_s)
        place = self.mirror.place.get(event.worker)
        if place is not None:
            self.parts.prefixes.sampled(place, event.prefix_queried, event.prefix_hit)
        self._fleet_changed()

    def _scrapefailed(self, event: ev.ScrapeFailed) -> None:
        if event.worker in self.fleet.prefill.prefillers:
            self.fleet.prefill.unreadable(event.worker)

    def _probed(self, event: ev.Probed) -> None:
        self.fleet.probed(event.worker, event.ok, self._turn.now_s)
        place = self.mirror.place.get(event.worker)
        if place is not None and not self.mirror.workers[place].is_up:
            self.parts.slots.clear(place)
            self.parts.prefixes.lost(place)
        self._fleet_changed()

    def _fleet_changed(self) -> None:
        """After a change of workers: forget `most`, give free slots to `seating`, feed prefillers, and open rounds."""
        slots = self.parts.slots
        self.arrivals.fleet_changed()
        for place in list(slots.seating):
            slots.fill(place)
        self.parts.prefills.feed()
        self._rounds.open()

    # --- rules ---------------------------------------------------------------------------------------------------

    def _reloaded(self, event: ev.Reloaded) -> None:
        if event.policy or event.predictor:
            self.reload(event.policy, event.predictor)
        if event.classes:
            numbers, request_class = dict(enumerate(event.classes, start=1)), self.rows.at.request_class
            for row in self.rows.by_request.values():
                request_class[row] = numbers.get(request_class[row], 0)
        if event.settings is not None:
            self._turn.settings = found = event.settings
            self.parts.limits.settings = found
            self.parts.deciding.go_by(found)
            self.parts.prefixes.limit(found.prefix_blocks)
            self.fleet.breaker.limits(found.breaker_failures, found.cooldown_s, found.cooldown_cap_s)
            self._deadlines.set_anew()
            self._deadlines.look_when_overdue()
        self._rounds.open()

    def _fitted(self, event: ev.Fitted) -> None:
        if self.parts.deciding.ahead is not None:
            self.parts.deciding.ahead.fitted(event.ok)

    def _draining(self, _event: ev.Draining) -> None:
        self._turn.is_draining = True


def _run_of(events: deque[Event], first: _E, most: int) -> list[_E]:
    """The leading events of the kind of `first`, itself included, at most `most` of them; `events` is not changed."""
    if len(events) == 1 or most == 1:
        return [first]
    run, kind = [first], type(first)
    for event in events:
        if len(run) > most or not isinstance(event, kind):
            break
        run.append(event)
    return run[1:]
