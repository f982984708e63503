"""Makes one decision: builds the view, asks the policy or falls back to least load, and checks the answer.

A round leaves no worker idle that takes requests and is not gathering, while a request waits that fits and may go there.
Least load sends it even if the policy holds it. A policy may hold requests for its own reasons. On a worker that runs
nothing, such a reason can never change: no request leaves it, and its load does not shrink.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from evenstep import compiled, names
from evenstep.dispatch.columns import Restored
from evenstep.dispatch.fleet.fleet import Fleet
from evenstep.dispatch.fleet.prefixes import Prefixes
from evenstep.dispatch.log.meters import Meters
from evenstep.dispatch.log.records import Round
from evenstep.dispatch.requests.pool import Pool
from evenstep.dispatch.requests.rows import Rows
from evenstep.dispatch.rounds import showing
from evenstep.dispatch.rounds.fallback import Fallback, Fell, Reason
from evenstep.dispatch.rounds.policy_call import Packed, PolicyCall
from evenstep.dispatch.rounds.projections import Projections
from evenstep.dispatch.settings import Settings
from evenstep.errors import InputError, PolicyError
from evenstep.predict.view import is_oracle
from evenstep.request import I8
from evenstep.routing.view import HOLD, KV_FREE, expects_loads

PREDICTOR = "bounded"
#: Completions after which the older ones weigh half in the mean output.
HALF_OF = 1 << 14
_idle_workers, _admitted = map(compiled.entry, (showing.idle_workers, showing.admitted))


def default_predictor(policy: Any) -> str:
    """The predictor, as ``NAME[:key=value,...]``, of a policy with a horizon for which none is named."""
    usual = str(getattr(policy, "usual_predictor", "")).replace(",", "/")
    return f"{PREDICTOR}:of={usual}" if usual else PREDICTOR


class Deciding(Restored):
    """Asks the policy, and keeps its predictor and memory. Call `load` first.

    Attributes:
        call, ahead: the policy in use; its predictions, None for a policy without a horizon.
        packed: arrays of the last round.
        decisions: number of rounds decided so far.
        notice: function that tells the operator, as `Fleet.notice`.
        stopwatch, processor, overruns, keep_round: of the host, which sets them; the clocks, the decisions over budget and
            the log of `core.Dispatcher`.
    """

    made_anew = ("packed", "notice", "stopwatch", "processor", "overruns", "keep_round")

    def __init__(self, settings: Settings, rows: Rows, fleet: Fleet, prefixes: Prefixes, meters: Meters) -> None:
        self.rows, self.mirror, self.prefixes, self.meters = rows, fleet.mirror, prefixes, meters
        self.settings, self.overruns = settings, frozenset[int]()
        self.stopwatch: Callable[[], float] | None = None
        self.processor: Callable[[], float] | None = None  # None = `overruns` names the decisions over budget
        self.fallback = Fallback(settings.policy_cooldown_s)
        self.least_load = PolicyCall("least-load")
        self.decisions = 0
        self.prepared = 0  # turns in which predictions were asked for since the last decision
        self.decided_s = 0.0  # when the last answer was there, as the stopwatch says
        self.free = 0  # slots at the last decision, offered or not
        self.notice, self._said = fleet.notice, ""
        self.has_bypassed = False  # from then on a worker may hold more requests than slots
        self.keep_round: Callable[[Round], None] | None = None
        self.learned = array("d", [0.0, 0.0, 0.0])  # output tokens, their squares, requests
        self.predictor_text = ""
        self.predictor: Any = None
        self._generation = self.mirror.generation

    def load(self, policy: str, predictor: str) -> None:
        """Use this policy and predictor, ``NAME[:key=value,...]``, from now on; nothing changes if they cannot be made.

        An empty `predictor` keeps the present one, or takes the default (`Dispatcher`) if there is none. Without a horizon
        `predictor` is ignored. Faults are forgotten. Raises InputError for an unknown or invalid policy or predictor, or a
        predictor that sees true lengths.
        """
        call = PolicyCall(policy)
        text, found = self.predictor_text, self.predictor
        if call.horizon and (predictor or not found):
            text = predictor or default_predictor(call.policy)
            found = names.build("predict", names.parse(text))
            if is_oracle(found):
                raise InputError(text, "predictor", "an oracle", "a predictor that sees no true lengths")
        self.ahead = Projections(found, call.horizon, expects_loads(call.policy)) if call.horizon else None
        self.call = call
        self.prefixes.is_read = call.reads_cached
        self.has_bypassed |= call.binds_at_once
        self.limit()
        self.predictor_text, self.predictor = text, found
        self._make_anew()
        self.fallback.reload()

    def go_by(self, settings: Settings) -> None:
        """Use other limits and deadlines from now on, in rounds, the fallback and the mirror."""
        self.settings = settings
        self.fallback.cooldown_s = settings.policy_cooldown_s
        self.limit()

    def limit(self) -> None:
        """Pass `gateways` and the bypass margin (0 before a policy bypasses the pool) to the mirror, after they changed."""
        self.mirror.go_by(self.settings.gateways, self.settings.bypass_margin if self.has_bypassed else 0)

    def look(self) -> None:
        """If places or groups of workers changed, drop arrays, policy memory and projections; call it before a round."""
        if self._generation == self.mirror.generation:
            return
        self._generation = self.mirror.generation
        self._make_anew()
        self.call.forget()
        if self.ahead is not None:
            self.ahead.forget()

    def _make_anew(self) -> None:
        """Make the arrays of rounds, for the present number of workers and horizon; the host's own are set by `resume`."""
        self.packed = Packed(len(self.mirror.workers), self.call.horizon)

    def ended(self, request: int, prompt: int, output: int, key: int) -> None:
        """Learn from a completed request: its output for `kv_reserve`, and all of it for the predictor, if there is one.

        `prompt` is in tokens, `output` in tokens of each copy; `key` is a hash of the prompt, 0 = unknown.
        """
        learned = self.learned
        learned[0] += output
        learned[1] += output * output
        learned[2] += 1.0
        if learned[2] == HALF_OF:
            learned[0], learned[1], learned[2] = learned[0] / 2, learned[1] / 2, HALF_OF // 2
        if self.ahead is not None:
            self.ahead.ended(request, prompt, output, key)

    def gone(self, row: int) -> None:
        """Tell the predictor, if there is one, that the request in this row ends unfinished; only if it has output."""
        at = self.rows.at
        if self.ahead is not None and at.produced[row]:
            self.ahead.gone(at.request[row], at.prompt[row], self.rows.age(row), at.key[row])

    @property
    def kv_reserve(self) -> float:
        """KV tokens kept free for each request on a worker: as set, else a running request's mean remaining output.

        That is estimated from the outputs of completed requests: mean of squares over twice the mean; 0 before the first.
        """
        if self.settings.kv_reserve is not None:
            return self.settings.kv_reserve
        outputs, squares, _ = self.learned
        return squares / (2.0 * outputs) if outputs else 0.0

    def decide(
        self, pool: Pool, most: int, margin: int, offered: int, now_s: float, excluded: Mapping[int, Collection[str]]
    ) -> int:
        """Decide a round by the policy or least load, count and log it; the caller sends the requests. Call `look` first.

        Args:
            pool: the waiting requests.
            most: number of waiting requests to show to the policy, at most the size of `pool`.
            margin: slots beyond its own that a worker's requests may take.
            offered: number of free slots, over all workers, that the policy may fill; 0 = all.
            now_s: the time in seconds.
            excluded: row -> names of workers that may not get the request. The policy does not see them: if its answer names
                one, the caller has to send the request elsewhere.

        Returns:
            Number of requests that were decided: rows in `packed.waiting`, and for each the place of a worker, or `HOLD`, in
            `packed.worker`. The first `most` are the requests shown. Others were not shown and go to idle workers. 0 if no
            slot is free outside gathering groups; then nothing is counted or logged.
        """
        watch, packed = self.stopwatch, self.packed
        start = watch() if watch else 0.0
        packed.room_for(most + packed.workers)
        total = packed.show(self.rows, self.mirror, pool, most, margin, offered, self.kv_reserve)
        if not total:
            if self.ahead is not None:
                self.ahead.look_again()
            return 0
        self.free = total
        reason = self.fallback.before(self._is_stale(now_s), now_s)
        packed.decision, packed.seed = self.decisions, self.settings.seed
        packed.now_s, packed.mean_wait_s = now_s, self.meters.waits.mean_s
        if self.ahead is not None or self.call.reads_cached:
            reason = self._add_projections(packed.waiting[:most], reason)
        prepared = watch() if watch else 0.0
        reason = self._ask(reason)
        if watch:
            self.meters.stages["prepare"].add(prepared - start)
            self.meters.stages["route"].add(self.decided_s - prepared)
        decided, admitted = most, _admitted(packed.worker, most)
        if packed.idle[0] and (admitted < len(pool.here) or excluded or self.rows.wide):
            decided, reason = self._leave_no_worker_idle(pool, margin, reason, excluded)
        was_off = self.fallback.is_off
        self.fallback.after(reason, now_s)
        if reason:
            self._tell(reason, was_off, now_s)
        outcome = "fallback" if reason else "admitted" if admitted or decided > most else "held"
        self.meters.decisions[self.call.text, outcome] += 1
        if self.keep_round is not None:
            self.keep_round(self._record(packed.worker[:decided].tolist(), reason))
        self.decisions += 1
        return decided

    def _leave_no_worker_idle(
        self, pool: Pool, margin: int, reason: Reason, excluded: Mapping[int, Collection[str]]
    ) -> tuple[int, Reason]:
        """Add to the answer a request for each idle worker: the first unsent one in the pool that fits and is not excluded.

        A worker is idle if it takes requests, holds none, even foreign, is not gathering, and the answer gives it none.
        Requests and slots outside the round count, too: `pool_window` and `round_slots` bound only the policy's view. In two
        cases a worker counts as idle though the answer sends it a request. It is excluded for the request; or it is full,
        and the request is for several slots, which may not use the margin (`_is_full`). Answer, rows and free slots in
        `packed` are written.

        Returns how many requests are shown or were added from the rest of the pool, and the reason: ``held`` if there was
        none and the policy held one of them, else that given.
        """
        packed, mirror, shown = self.packed, self.mirror, self.packed.shown
        rows, worker, known = packed.waiting[:shown], packed.worker, self.rows.columns.arrays
        idle, sent, full = np.empty(packed.workers, np.int64), worker[:shown], list[int]()
        if excluded or self.rows.wide:
            asked = [(row, g) for row, g in zip(rows.tolist(), sent.tolist(), strict=True) if g != HOLD]
            full = [row for row, g in asked if self._is_full(row, g)]
            vain = [row for row, g in asked if mirror.names[g] in excluded.get(row, ())]
            sent = np.where(np.isin(rows, full + vain), HOLD, sent)
        count = _idle_workers(mirror.columns.given, margin, packed.gathers, sent, shown, idle)
        if not count:
            return shown, reason
        left: I8 = np.array(pool.here)
        left = left[np.isin(left, rows[sent != HOLD], invert=True)]
        tokens = (known.prompt[left] + known.produced[left]).astype(np.float64)
        copies = known.copies[left] + margin * np.isin(left, full)
        place = {row: i for i, row in enumerate(rows.tolist())}
        is_left, held = np.ones(left.size, np.bool_), np.count_nonzero(worker[:shown] == HOLD)
        for g in idle[:count].tolist():
            name, slots = mirror.names[g], mirror.at.free_at_most[g] + margin
            fits = np.flatnonzero(is_left & (tokens <= packed.workers_f[KV_FREE, g]) & (copies <= slots))
            k = next((k for k in fits.tolist() if name not in excluded.get(int(left[k]), ())), -1)
            if k >= 0:
                i = place.setdefault(int(left[k]), len(place))
                packed.waiting[i], worker[i] = left[k], g
                packed.free[g], is_left[k] = slots, False
        if not reason and np.count_nonzero(worker[:shown] == HOLD) < held:
            reason = "held"
        return len(place), reason

    def _is_full(self, row: int, g: int) -> bool:
        """Whether a request wants several slots of the worker in place `g`, which has as many but none free."""
        return 1 < self.rows.at.copies[row] <= self.mirror.workers[g].spec.slots and not self.mirror.free(g)

    def has_prepared(self, now_s: float) -> bool:
        """Learn and predict a part for the next decision ahead of time, if many are due and the policy will be asked.

        Returns whether it did. Call it once a turn until it returns False, then `decide`.
        """
        if self.ahead is None or self.fallback.before(self._is_stale(now_s), now_s):
            return False
        start = self.stopwatch() if self.stopwatch else 0.0
        if not self.ahead.has_asked(self.rows, self.mirror):
            return False
        if self.stopwatch:
            self.meters.stages["predict"].add(self.stopwatch() - start)
        return True

    def _is_stale(self, now_s: float) -> bool:
        """Whether the metrics of a shared worker are older than `stale_s`; streams show what any other worker runs."""
        return self.mirror.state_age_s(now_s) > self.settings.stale_s

    def _tell(self, reason: Reason, was_off: bool, now_s: float) -> None:
        """Keep the reason of a fallback in words, and notify the operator of it, and of a policy that is now off."""
        fallback = self.fallback
        if reason == "stale":
            why = f"stale: {self.mirror.oldest(now_s)}; stale_s is {self.settings.stale_s:g}"
        elif reason == "held":
            why = "held: it held a request that fits a worker which runs nothing, and least load sent it there"
        elif reason in ("cooling", "off"):
            why = f"{reason} since the last fault ({fallback.cause})"
        else:
            why = fallback.cause = f"{reason}: {self._said}"
        fallback.last = Fell(self.decisions, now_s, reason, why)
        self.notice("fallback", reason, f"least load decides instead of {self.call.text}: {why}", now_s)
        if fallback.is_off and not was_off:
            self.notice("policy-off", self.call.text, f"{self.call.text} is off until a reload ({self._said})", now_s)

    def _ask(self, reason: Reason) -> Reason:
        """Ask the policy; least load decides if there is a `reason`, or if the policy fails, which sets one.

        The answer is in `packed.worker` then. Returns the reason; empty if the policy decided.
        """
        if not reason:
            kept = self.call.memory
            begun = self.processor() if self.processor else 0.0
            try:
                self.call.answer(self.packed)
            except PolicyError as error:
                reason, self._said = "contract", str(error)
            except Exception as error:  # a guest may raise anything; it is counted, told and logged
                reason, self._said = "raised", f"{type(error).__name__}: {error}"
            else:
                if self.stopwatch is not None:
                    self.decided_s = self.stopwatch()
                if not self._is_over(begun):
                    return ""
                reason = "budget"
            self.call.memory = kept
            self.packed.worker[:] = HOLD
        self.least_load.answer(self.packed)
        if self.stopwatch is not None:
            self.decided_s = self.stopwatch()
        return reason

    def _is_over(self, begun_s: float) -> bool:
        """Whether an answer begun at `begun_s` took above `budget_ms` of processor time; without a clock, see `overruns`."""
        if self.processor is None:
            self._said = "as it was when the log was written"
            return self.decisions in self.overruns
        taken_ms, budget_ms = 1000 * (self.processor() - begun_s), self.settings.budget_ms
        if taken_ms > budget_ms:
            self._said = f"{taken_ms:.1f} ms of processor time for one decision; budget_ms is {budget_ms:g}"
        return taken_ms > budget_ms

    def _add_projections(self, waiting: I8, reason: Reason) -> Reason:
        """Add cached tokens and projections to the view, if the policy reads them; no projections if there is a `reason`.

        Returns the reason not to ask the policy: ``predictor`` if that fails, else the one given.
        """
        packed, rows = self.packed, self.rows
        if self.call.reads_cached:
            packed.cached = self.prefixes.cached(waiting, rows.columns.arrays.prompt)
        packed.projections = packed.nothing_ahead  # not what an earlier round saw: a replay may begin after it
        if self.ahead is not None and not reason:
            try:
                packed.projections = self.ahead.project(rows, self.mirror)
            except Exception as error:  # a predictor is a guest too
                reason, self._said = "predictor", f"{type(error).__name__}: {error}"
        return reason

    def _record(self, worker: list[int], reason: Reason) -> Round:
        """The log record of this decision; `worker` has a place or `HOLD` for each row in `packed.waiting`."""
        requests, names = self.rows.at.request, self.mirror.names
        rows = self.packed.waiting[: len(worker)].tolist()
        sent = {requests[row]: names[g] for row, g in zip(rows, worker, strict=True) if g != HOLD}
        why = self.fallback.last.why if reason and self.fallback.last else ""
        seen, waiting = self.packed.checksum(), self.packed.shown
        return Round(decision=self.decisions, waiting=waiting, seen=seen, sent=sent, fallback=reason, why=why)
