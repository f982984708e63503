"""Moves requests through their states after arrival: first token, failure, retry, end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from evenstep.dispatch import commands as co
from evenstep.dispatch.events import Finished, Kind
from evenstep.dispatch.log.meters import tpot_s
from evenstep.dispatch.parts import Parts
from evenstep.dispatch.requests.rows import NEVER, UNPREDICTED
from evenstep.dispatch.requests.tenants import retry_after
from evenstep.dispatch.transitions import State

#: Numbers of states, as the table has them: a module's name is found several times as fast as a member of an enum.
_, _FOR_PREFILLER, _PREFILLING, _POOLED, _, _SENT, _RUNNING, _BACKING_OFF = map(int, State)
_PLACED = (_SENT, _RUNNING)
_CALLED = (_PREFILLING, *_PLACED)  # an engine works on it
_LONGEST_ASKED_S = 5.0  # the longest Retry-After of an engine that counts


class Lifecycle:
    """Moves requests to their next state, one that `transitions.TABLE` allows, and appends the commands that follow."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._turn, self._rows, self._fleet, self._meters = parts.turn, parts.rows, parts.fleet, parts.meters
        self._mirror, self._timers, self._breaker = parts.fleet.mirror, parts.fleet.timers, parts.fleet.breaker
        self._pool, self._limits, self._rounds, self._slots = parts.pool, parts.limits, parts.rounds, parts.slots
        self._exclusions, self._prefills, self._prefixes = parts.exclusions, parts.prefills, parts.prefixes
        self._deciding, self._journal, self._barriers = parts.deciding, parts.journal, parts.barriers

    def row_of(self, request: int, leg: int) -> int:
        """The row of a request if an engine works on its call `leg`; otherwise -1, and one more late event is counted."""
        row = self._rows.by_request.get(request, -1)
        if row >= 0:
            at = self._rows.at
            if at.leg[row] == leg and at.state[row] in _CALLED:
                return row
        self._meters.late += 1
        return -1

    # --- queues --------------------------------------------------------------------------------------------------

    def enqueue(self, row: int, to: int) -> None:
        """Queue a request as `FOR_PREFILLER`, or as `POOLED`, which opens rounds; and set its deadline."""
        rows = self._rows
        rows.move(row, to)
        rows.at.queued_s[row] = self._turn.now_s
        self._parts.deadlines.set(row)
        if to == _FOR_PREFILLER:
            self._prefills.add(row)
        else:
            self._pool.add(row)
            self._rounds.open()

    def correct(self, row: int, prompt_tokens: int) -> None:
        """Set a request's number of prompt tokens, and correct the loads of its worker or prefiller that include it."""
        at, mirror = self._rows.at, self._mirror
        more = prompt_tokens - at.prompt[row]
        if self._prefills.prefiller_of:
            self._prefills.correct(row, prompt_tokens)
        at.prompt[row] = prompt_tokens
        state = at.state[row]
        if state in _PLACED:
            worker = at.worker[row]
            (mirror.at.load if state == _RUNNING else mirror.at.sent_load)[worker] += more
            mirror.at.changes[worker] += 1

    def first_token(self, row: int, worker: int) -> None:
        """Move a sent request to running: its slots and load on the worker in this place count as running from now on.

        KV memory that the request had at a prefiller becomes free. TTFT is counted, unless the stream is a continuation.
        Engines that failed the request before may now be ejected (`answered`). The caller counts the token itself.
        """
        rows, mirror, at, now_s = self._rows, self._mirror, self._rows.at, self._turn.now_s
        rows.move(row, _RUNNING)
        load = rows.load(row)
        mirror.at.sent[worker] -= at.copies[row]
        mirror.at.running[worker] += at.copies[row]
        mirror.at.sent_load[worker] -= load
        mirror.at.load[worker] += load
        mirror.runs(worker, 1)
        self._barriers.all.at.running[mirror.group[worker]] += 1
        if not at.produced[row]:
            rows.at.first_s[row] = now_s
            self._meters.ttft_s.add(now_s - rows.at.since_s[row])
        if self._prefills.prefiller_of:
            self._prefills.leave(row, told=False)
        self.answered(row, mirror.names[worker])

    # --- failures ------------------------------------------------------------------------------------------------

    def leg_failed(self, row: int, name: str, kind: Kind, retry_after_s: float = 0.0, is_counted: bool = True) -> None:
        """Handle a failed call: retry or continue the request elsewhere, or end it. The caller closes a call still open.

        It ends for a client's fault, after more than `retries` failed tries, if no engine is left for it, or if it has
        tokens and cannot be continued. Otherwise it goes back to a queue: at once if it has tokens, and the engine did not
        hand it back without a new one; else after a wait (`_back_off`).

        Args:
            name: the engine.
            retry_after_s: Retry-After of the engine, seconds, at most 5 count; 0 = no such header.
            is_counted: whether the failure may count against the engine (`Breaker`).
        """
        at, exclusions = self._rows.at, self._exclusions
        was_placed = at.state[row] in _PLACED
        had_tokens, has_new = at.produced[row] > 0, at.produced[row] > at.base[row]
        if kind == "client":
            self.give_up(row, "client")
            return
        self._blame(row, name, kind, is_counted)
        if had_tokens and not at.continues[row]:
            self.give_up(row, "cannot-continue")
            return
        if at.tries[row] > self._turn.settings.retries or not exclusions.has_others(row):
            self.give_up(row, "cannot-continue" if kind == "unable" and had_tokens else "failed")
            return
        if was_placed:
            self._slots.take_off(row)
            self._limits.of[row].waiting += 1
            self._prefixes.waits_again(row)
        if not (was_placed and kind == "unable"):  # an engine that is unable has not fetched the prompt's KV
            self._prefills.leave(row, told=was_placed)
        if had_tokens:
            self._meters.recomputes += 1
            if kind != "recomputed" or has_new:
                self.enqueue(row, _POOLED)
                return
        else:
            self._meters.retries += 1
        self._back_off(row, kind, retry_after_s)

    def _blame(self, row: int, name: str, kind: Kind, is_counted: bool) -> None:
        """Exclude the engine that failed from this request; count the failure if `is_counted`, not ``unable`` or ``stale``.

        Counting may eject it. An engine that handed it back (``recomputed``) without a new token is avoided, not excluded;
        with one nothing changes. If ``stale`` is the first failed try and no other engine is left, it stays allowed. Each
        failure also counts as a failed try of the request, except ``unable`` and ``recomputed`` with a new token.
        """
        at, request, exclusions = self._rows.at, self._rows.at.request[row], self._exclusions
        if kind == "recomputed":
            if at.produced[row] == at.base[row]:  # an engine that hands back what it got might do so for ever
                at.tries[row] += 1
                exclusions.avoided[row] = name
                if is_counted:
                    self._breaker.failed(name, request, is_certain=False)
        elif kind == "stale" and not at.tries[row] and not exclusions.has_others(row, without=name):
            at.tries[row] = 1  # try the same engine once more: it may never have seen the request
        else:
            exclusions.exclude(row, name, kind)
            is_its_own = is_counted and kind not in ("unable", "stale")  # a proxy may reset connections
            if is_its_own and self._breaker.failed(name, request, kind == "connect"):
                self.eject(name)

    def _back_off(self, row: int, kind: Kind, retry_after_s: float) -> None:
        """Move a request to `BACKING_OFF`, and set the timer of its next try.

        The wait is `backoff_s`, doubled with each further failed try up to `backoff_cap_s`. A longer Retry-After of the
        engine that failed last counts up to 5 s. The wait is 0 for ``stale``.
        """
        settings = self._turn.settings
        self._rows.move(row, _BACKING_OFF)
        doubled_s = settings.backoff_s * 2.0 ** min(1000, max(0, self._rows.at.tries[row] - 1))
        delay_s = max(min(settings.backoff_cap_s, doubled_s), min(retry_after_s, _LONGEST_ASKED_S))
        self._timers.set(("backoff", row), self._turn.now_s + (0.0 if kind == "stale" else delay_s))

    def backed_off(self, row: int) -> None:
        """Queue a request whose wait before its next try is over: for a prefiller if it needs one, else in the pool."""
        has_prefill = self._rows.at.produced[row] or row in self._prefills.prefiller_of
        needs_prefill = self._fleet.is_split and not has_prefill
        self.enqueue(row, _FOR_PREFILLER if needs_prefill else _POOLED)

    def give_up(self, row: int, reason: co.Broken | Literal["client"]) -> None:
        """End a request: with a status (`Reject`) before its first token, else with an error event (`Fail`).

        The predictor is told if there is output. The upstream call is not closed; call `abort` first if one is open.
        """
        self._deciding.gone(row)
        request, meters, out = self._rows.at.request[row], self._meters, self._turn.out
        if self._rows.at.produced[row]:
            meters.requests["error"] += 1
            out.append(co.Fail(request, "failed" if reason == "client" else reason))
        else:
            status = {"client": 0, "expired": 503, "overdue": 504}.get(reason, 502)
            retry_s = retry_after(meters.waits.mean_s) if status == 503 else 0
            out.append(co.Reject(request, status, reason, retry_s))
        self.end(row, told=True)

    def answered(self, row: int, name: str) -> None:
        """Note that the engine `name` answered: the request's failures elsewhere now count, and may eject those engines."""
        for other in self._breaker.answered(name, self._rows.at.request[row]):
            self.eject(other)
            self._turn.due = True

    def eject(self, name: str) -> None:
        """Eject an engine, if another of its role is healthy: it gets nothing new, and its prefix cache counts as lost.

        Requests that hold only some of their slots there go back to the pool.
        """
        place = self._mirror.place.get(name)
        if self._fleet.eject(name, self._turn.now_s) and place is not None:
            self._slots.clear(place)
            self._prefixes.lost(place)
            self._rounds.open()

    # --- ends ----------------------------------------------------------------------------------------------------

    def finished(self, events: Sequence[Finished]) -> None:
        """Handle decode calls that ended correctly, in order: log each, set the time, and end its request.

        An event whose leg is not the request's current one ends nothing, and counts as late.
        """
        turn, journal, is_logged = self._turn, self._journal, self._journal.log is not None
        at, mirror = self._rows.at, self._mirror
        for event in events:
            if is_logged:
                journal.note(event, turn.now_s)
            turn.now_s = now_s = max(turn.now_s, event.now_s)
            row = self.row_of(event.request, event.leg)
            if row < 0:
                continue
            if event.prompt_tokens > 0:
                self.correct(row, event.prompt_tokens)
            if at.state[row] == _SENT:
                worker, output = at.worker[row], event.output_tokens
                self.answered(row, mirror.names[worker])
                if output > 0:  # it came whole: no step of its group had a token of it
                    at.produced[row] += output
                    mirror.at.sent_load[worker] += output
                    self._meters.ttft_s.add(now_s - at.since_s[row])
            self._completed(row)
            self.end(row, told=False)

    def _completed(self, row: int) -> None:
        """Count a request that ended correctly. The log gets its lengths; so does the predictor if it has a token a copy."""
        at, meters = self._rows.at, self._meters
        produced = at.produced[row]
        tokens = produced // at.copies[row]
        meters.requests["200"] += 1
        meters.output_tokens += produced
        self._journal.done(at.request[row], at.prompt[row], produced)
        if not tokens:  # fewer than one each: no length to learn from
            self._deciding.gone(row)
            return
        self._deciding.ended(at.request[row], at.prompt[row], tokens, at.key[row])
        if tokens > 1 and at.state[row] == _RUNNING:
            meters.tpot_s.add(tpot_s(self._turn.now_s - at.first_s[row], produced, at.copies[row]))
        if at.predicted[row] != UNPREDICTED and at.leave[row] < NEVER:
            meters.prediction_error.add(abs(at.leave[row] - tokens))

    def gone(self, row: int, code: str) -> None:
        """End a request without an answer, as `ClientGone` asks: close its upstream call, and count it by `code`."""
        self._meters.cancelled += code == "cancelled"
        self._meters.requests[code] += 1
        self.abort(row)
        self._deciding.gone(row)
        self.end(row, told=True)

    def abort(self, row: int) -> None:
        """Append the command `Abort` for the upstream call of a request, if it has one; the request's state stays."""
        at = self._rows.at
        state = at.state[row]
        if state in _CALLED:
            is_prefill = state == _PREFILLING
            name = self._prefills.prefiller_of[row] if is_prefill else self._mirror.names[at.worker[row]]
            self._turn.out.append(co.Abort(at.request[row], at.leg[row], name))

    def end(self, row: int, told: bool) -> None:
        """End a request: free its slots and its row, and drop everything kept about it.

        The caller tells the client, and calls `abort` first if an upstream call is open. A leaving worker or prefiller that
        has no other request is removed. Free slots open rounds. If `told` is true, a prefiller that has computed the prompt
        and still keeps its KV gets a `Release`.
        """
        rows, state = self._rows, self._rows.at.state[row]
        request, worker = rows.at.request[row], rows.at.worker[row]
        if worker >= 0:
            self._slots.take_off(row)
        if state not in _PLACED:
            self._timers.clear(("ttl", row))
            self._timers.clear(("backoff", row))
        if state == _POOLED:
            self._pool.remove(row)
        elif state == _FOR_PREFILLER:
            del self._prefills.waiting[row]
        self._limits.leaves(row, state not in _PLACED)
        if row in self._pool.tasks.keys:
            self._pool.tasks.ends(row, rows.load(row) if rows.at.produced[row] else 0)
        if self._exclusions.forget(row):
            self._breaker.forget(request)
        if self._prefixes.has_any:
            self._prefixes.forget(row)
        rows.give_back(row, request)
        if row in self._prefills.prefiller_of:  # a prefill that still runs is stopped by closing its call
            self._prefills.leave(row, told=told and state != _PREFILLING)
        rows.clean(row)
        if worker >= 0:
            found = self._mirror.workers[worker]
            if found.leaves:
                self.forget_if_empty(found.spec.name)
            if self._pool.here:
                self._rounds.open()

    # --- workers -------------------------------------------------------------------------------------------------

    def rows_on(self, name: str) -> list[int]:
        """Rows of the requests on a worker, by arrival; of a prefiller those whose prompt it computes or keeps, by row."""
        place = self._mirror.place.get(name)
        if place is None:
            return sorted(self._fleet.prefill.prefillers[name].requests)
        return [row for row in self._rows.by_request.values() if self._rows.at.worker[row] == place]

    def forget_if_empty(self, name: str) -> None:
        """Remove a worker from the fleet if it is leaving and has no requests left; the command `Removed` tells the host.

        If it is a decode worker, those after it move up by one place, and rounds and steps begin anew.
        """
        place = self._mirror.place.get(name)
        if place is None:
            self._prefills.forget_if_empty(name)
            return
        if not self._mirror.workers[place].leaves or self.rows_on(name):
            return
        self._fleet.remove(name)
        self._turn.out.append(co.Removed(name))
        for row in self._rows.by_request.values():
            if self._rows.at.worker[row] > place:
                self._rows.place(row, self._rows.at.worker[row] - 1)
        self._slots.moved_up(place)
        self.regroup()

    def regroup(self) -> None:
        """Begin rounds, steps and believed prefix caches anew, because places or groups of workers changed."""
        self._barriers.begin()
        self._prefixes.resize(self._mirror.names)

    def go_without_prefill(self) -> None:
        """Move the requests that wait for a prefiller to the pool, if all prefillers are leaving or gone."""
        if self._fleet.is_split or not self._prefills.waiting:
            return
        for row in self._prefills.waiting:
            self._rows.move(row, _POOLED)
            self._pool.add(row)
        self._prefills.waiting.clear()
        self._rounds.open()

    def give_up_stranded(self) -> None:
        """End, as ``failed``, each queued request whose exclusions leave no decode engine, or no prefiller where needed."""
        at, excluded = self._rows.at, self._exclusions.excluded
        for row in list(excluded):
            waits = at.state[row] in (_POOLED, _FOR_PREFILLER)
            if waits and row in excluded and not self._exclusions.has_others(row):
                self.give_up(row, "failed")
