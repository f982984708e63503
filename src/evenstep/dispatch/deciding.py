"""One decision: the view of the cluster as it stands, the policy's answer or least load's, and what can be done of it."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from evenstep import names
from evenstep.dispatch.ahead import Ahead
from evenstep.dispatch.door import Packed, PolicyDoor, sealed
from evenstep.dispatch.fallback import Fallback, Reason
from evenstep.dispatch.meters import Meters
from evenstep.dispatch.mirror import CAPACITY, FOREIGN_LOAD, LOAD, RUNNING, SENT, SENT_LOAD, Mirror
from evenstep.dispatch.pool import Waits
from evenstep.dispatch.prefixes import Prefixes
from evenstep.dispatch.records import Round
from evenstep.dispatch.rows import Rows
from evenstep.dispatch.rows_layout import CLASS, EXPECTED, KEY, PRODUCED, PROMPT, REQUEST, SESSION, SINCE
from evenstep.dispatch.settings import Settings
from evenstep.errors import InputError, PolicyError
from evenstep.predict.view import is_oracle
from evenstep.request import I8
from evenstep.routing import view as at
from evenstep.routing.least_load import LeastLoad
from evenstep.routing.view import HOLD, RoutingDecision, RoutingView, expects_loads

PREDICTOR = "bounded"
_NO_MEMORY: I8 = np.zeros(0, np.int64)


class Deciding:
    """Asks the policy.

    Args:
        policy, predictor: ``NAME[:key=value,...]``; the predictor is asked by a policy with a horizon only.
        rows, mirror, prefixes, waits, meters: the dispatcher's own.
        notice: tells the operator: kind, about, text, now_s.
        stopwatch: seconds of any clock, for the budget and the stages; None = neither is looked at.
        overruns: decisions that were over their budget when they were first made (replay).

    Raises:
        InputError: an unknown policy, predictor or option, or a predictor that sees true lengths.
    """

    def __init__(
        self, policy: str, predictor: str, *, rows: Rows, mirror: Mirror, prefixes: Prefixes, waits: Waits,
        meters: Meters, notice: Callable[[str, str, str, float], None], settings: Settings,
        stopwatch: Callable[[], float] | None, overruns: frozenset[int],
    ) -> None:  # fmt: skip
        self.rows, self.mirror, self.prefixes, self.waits, self.meters = rows, mirror, prefixes, waits, meters
        self.settings, self.stopwatch, self.overruns = settings, stopwatch, overruns
        self.fallback = Fallback(settings.good_rounds)
        self.least_load = PolicyDoor("least-load", LeastLoad())
        self.decisions = 0
        self.notice, self._said = notice, ""
        self.has_bypassed = False  # a worker may hold more than its slots from then
        self.keep_round: Callable[[Round], None] | None = None
        self._outputs, self._squares, self._ended = 0.0, 0.0, 0
        self.predictor_text, self.predictor = "", None
        self.load(policy, predictor)

    def load(self, policy: str, predictor: str) -> None:
        """Decide by these from now on; nothing changes when they cannot be made.

        Raises:
            InputError: as the constructor.
        """
        door = PolicyDoor(policy)
        text, found = self.predictor_text, self.predictor
        if door.horizon and (predictor or not found):
            text = predictor or str(getattr(door.policy, "usual_predictor", "")) or PREDICTOR
            found = _predictor(text)
        ahead = None
        if door.horizon:
            ahead = Ahead(found, door.horizon, expects_loads(door.policy))  # type: ignore[arg-type]
        self.door, self.ahead = door, ahead
        self.has_bypassed |= door.binds_at_once
        self.predictor_text, self.predictor = text, found
        self.packed = Packed(len(self.mirror.workers), door.horizon)
        self.fallback.reload()

    def resize(self) -> None:
        """The fleet changed."""
        self.packed = Packed(len(self.mirror.workers), self.door.horizon)
        self.door.forget()

    def ended(self, request: int, prompt: int, output: int, key: int) -> None:
        """A request completed with so many tokens a copy."""
        self._outputs, self._squares, self._ended = (
            self._outputs + output,
            self._squares + output**2,
            self._ended + 1,
        )
        if self._ended == 1 << 14:
            self._outputs, self._squares, self._ended = self._outputs / 2, self._squares / 2, self._ended // 2
        if self.ahead is not None:
            self.ahead.ended(request, prompt, output, key)

    @property
    def kv_reserve(self) -> float:
        """KV tokens kept free for each request on a worker: as set, else the mean of what is left of an output at any
        time."""
        if self.settings.kv_reserve is not None:
            return self.settings.kv_reserve
        return self._squares / (2.0 * self._outputs) if self._outputs else 0.0

    def decide(self, waiting: I8, free_slots: I8, now_s: float) -> I8:
        """Worker of each waiting row, or `HOLD`.

        Args:
            waiting: int64[W], rows in order of waiting.
            free_slots: int64[G], what each worker may be sent.
        """
        watch = self.stopwatch
        start = watch() if watch else 0.0
        is_stale = self.mirror.state_age_s(now_s) > self.settings.stale_s
        reason = self.fallback.before(is_stale)
        view, reason = self._view(waiting, free_slots, now_s, reason)
        prepared = watch() if watch else 0.0
        decision, reason = self._ask(view, reason, prepared)
        if watch:
            self.meters.stages["prepare"].add(prepared - start)
            self.meters.stages["route"].add(watch() - prepared)
        was_off = self.fallback.is_off
        self.fallback.after(reason)
        if reason:
            self._tell(reason, was_off, now_s)
        outcome = "fallback" if reason else "admitted" if bool((decision.worker != HOLD).any()) else "held"
        self.meters.decisions[self.door.text, outcome] += 1
        if self.keep_round is not None:
            self.keep_round(self._record(view, decision, reason))
        self.decisions += 1
        return decision.worker

    def _tell(self, reason: Reason, was_off: bool, now_s: float) -> None:
        """Say that least load decides, and why."""
        said = f" ({self._said})" if reason in ("raised", "contract", "predictor") else ""
        text = f"least load decides instead of {self.door.text}: {reason}{said}"
        self.notice("fallback", reason, text, now_s)
        if self.fallback.is_off and not was_off:
            self.notice("policy-off", self.door.text, f"{self.door.text} is off until a reload{said}", now_s)

    def _ask(self, view: RoutingView, reason: Reason, start: float) -> tuple[RoutingDecision, Reason]:
        if not reason:
            kept = self.door.memory
            try:
                decision = self.door.answer(view, self.packed)
            except PolicyError as error:
                reason, self._said = "contract", str(error)
            except Exception as error:  # whatever a guest raises; counted, told and in the log
                reason, self._said = "raised", f"{type(error).__name__}: {error}"
            else:
                if not self._is_over(view.decision, start):
                    return decision, ""
                reason = "budget"
            self.door.memory = kept
        return self.least_load.answer(replace(view, memory=_NO_MEMORY), self.packed), reason

    def _is_over(self, decision: int, start: float) -> bool:
        if self.stopwatch is None:
            return decision in self.overruns
        return self.stopwatch() - start > self.settings.budget_ms / 1000

    def _view(self, waiting: I8, free_slots: I8, now_s: float, reason: Reason) -> tuple[RoutingView, Reason]:
        """What the policy sees, and why it is not asked, where the predictor fails."""
        packed, rows, columns = self.packed, self.rows, self.mirror.columns
        W, ints, floats = waiting.size, columns.ints, columns.floats
        wi, wf = packed.workers_i, packed.workers_f
        foreign = np.array([worker.foreign for worker in self.mirror.workers], np.int64)
        wi[at.GROUP], wi[at.QUEUED], wi[at.FREE_SLOTS] = self.mirror.group, ints[SENT], free_slots
        np.add(ints[RUNNING], foreign, out=wi[at.RUNNING])
        np.add(floats[LOAD], floats[FOREIGN_LOAD], out=wf[at.LOAD])
        wf[at.QUEUED_LOAD] = floats[SENT_LOAD]
        taken = wf[at.LOAD] + wf[at.QUEUED_LOAD] + self.kv_reserve * (wi[at.RUNNING] + wi[at.QUEUED])
        np.maximum(0.0, floats[CAPACITY] - taken, out=wf[at.KV_FREE])
        wf[at.SECONDS_PER_TOKEN] = [1.0 / worker.spec.speed for worker in self.mirror.workers]
        packed.room_for(W)
        table, times = rows.ints, rows.floats
        request, session, key = table[REQUEST, waiting], table[SESSION, waiting], table[KEY, waiting]
        expected = table[EXPECTED, waiting]
        qi, qf = packed.waiting_i[:, :W], packed.waiting_f[:, :W]
        qi[at.ID], qi[at.CLASS] = request, table[CLASS, waiting]
        qi[at.KEY] = np.where(session != 0, session, np.where(key != 0, key, request))
        qf[at.WAITING_LOAD] = table[PROMPT, waiting] + table[PRODUCED, waiting]
        qf[at.SINCE_S] = times[SINCE, waiting]
        qf[at.STEPS] = np.where(expected > 0, expected, np.nan)
        if self.door.reads_cached:
            packed.cached = self.prefixes.cached(request, table[PROMPT, waiting])
        if self.ahead is not None and not reason:
            try:
                packed.projections = self.ahead.project(
                    rows, floats[LOAD], ints[RUNNING], floats[FOREIGN_LOAD]
                )
            except Exception as error:  # a predictor is a guest too
                reason, self._said = "predictor", f"{type(error).__name__}: {error}"
        return self._window(W, now_s), reason

    def _window(self, W: int, now_s: float) -> RoutingView:
        packed = self.packed
        wi, wf = sealed(packed.workers_i), sealed(packed.workers_f)
        qi, qf = sealed(packed.waiting_i), sealed(packed.waiting_f)
        waited = now_s - qf[at.SINCE_S, :W]
        waited.flags.writeable = False
        return RoutingView(
            decision=self.decisions, seed=self.settings.seed, now_s=now_s, mean_wait_s=self.waits.mean_s,
            group=wi[at.GROUP], queued=wi[at.QUEUED], queued_load=wf[at.QUEUED_LOAD], load=wf[at.LOAD],
            free_slots=wi[at.FREE_SLOTS], running=wi[at.RUNNING], kv_free=wf[at.KV_FREE],
            seconds_per_token=wf[at.SECONDS_PER_TOKEN], waiting_id=qi[at.ID, :W],
            waiting_load=qf[at.WAITING_LOAD, :W], waited_s=waited, waiting_class=qi[at.CLASS, :W],
            waiting_key=qi[at.KEY, :W], waiting_steps=qf[at.STEPS, :W], projections=sealed(packed.projections),
            growth=sealed(packed.growth), cached_tokens=sealed(packed.cached), memory=sealed(self.door.memory),
        )  # fmt: skip

    def _record(self, view: RoutingView, decision: RoutingDecision, reason: Reason) -> Round:
        sent = np.flatnonzero(decision.worker != HOLD)
        names = [self.mirror.workers[g].spec.name for g in decision.worker[sent].tolist()]
        return Round(
            decision=view.decision,
            waiting=view.waiting_id.size,
            seen=_digest(view),
            sent=dict(zip(view.waiting_id[sent].tolist(), names, strict=True)),
            fallback=reason,
        )


def _digest(view: RoutingView) -> int:
    """A checksum of everything in a view that a policy may decide by, but for its memory."""
    parts: tuple[Any, ...] = (
        np.array([view.decision, view.seed]), np.array([view.now_s, view.mean_wait_s]), view.group, view.queued,
        view.queued_load, view.load, view.free_slots, view.running, view.kv_free, view.seconds_per_token, view.waiting_id,
        view.waiting_load, view.waited_s, view.waiting_class, view.waiting_key, view.waiting_steps, view.projections,
        view.cached_tokens,
    )  # fmt: skip
    found = 0
    for part in parts:
        found = zlib.crc32(np.ascontiguousarray(part).data, found)
    return found


def _predictor(text: str) -> Any:
    predictor = names.build("predict", names.parse(text))
    if is_oracle(predictor):
        raise InputError(text, "predictor", "an oracle", "a predictor that sees no true lengths")
    return predictor
