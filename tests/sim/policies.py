"""Policies for the tests of the simulators."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields

import numpy as np

from evenstep.predict.view import Active, Finished, Prediction
from evenstep.request import F8
from evenstep.routing.view import HOLD, RoutingDecision, RoutingView
from evenstep.streams import uniform


def may_take(view: RoutingView, request: int, free: np.ndarray, kv: np.ndarray) -> list[int]:
    """Workers that may still be sent a waiting request."""
    return [g for g in range(free.size) if free[g] > 0 and view.waiting_load[request] <= kv[g]]


@dataclass(frozen=True)
class Oldest:
    """The oldest request to the worker with most free slots, lowest index first."""

    def route(self, view: RoutingView) -> RoutingDecision:
        free, kv = view.free_slots.copy(), view.kv_free.copy()
        worker = np.full(view.waiting_id.size, HOLD)
        for i in range(worker.size):
            able = may_take(view, i, free, kv)
            if able:
                g = max(able, key=lambda g: (free[g], -g))
                worker[i] = g
                free[g] -= 1
                kv[g] -= view.waiting_load[i]
        return RoutingDecision(worker)


@dataclass(frozen=True)
class Scripted:
    """Answers written down beforehand; every view it saw is kept."""

    answers: tuple[tuple[int, ...], ...]
    views: list[RoutingView] = field(default_factory=list)
    horizon: int = 0

    def route(self, view: RoutingView) -> RoutingDecision:
        self.views.append(view)
        return RoutingDecision(np.array(self.answers[view.decision], dtype=np.int64))


@dataclass(frozen=True)
class Holds:
    """Sends nothing, ever."""

    def route(self, view: RoutingView) -> RoutingDecision:
        return RoutingDecision(np.full(view.waiting_id.size, HOLD))


@dataclass(frozen=True)
class Fingerprint:
    """Random answers keyed by every bit of the view: a simulator that shows one bit otherwise ends in another digest.

    Requests are held with `hold` chance, unless nothing decodes or queues anywhere.
    """

    horizon: int = 0
    memory_size: int = 1
    hold: float = 0.2
    reads_cached: bool = True
    expects_loads: bool = False

    def route(self, view: RoutingView) -> RoutingDecision:
        key = fingerprint(view)
        draws = uniform(key, "fingerprint", np.arange(2 * view.waiting_id.size))
        free, kv = view.free_slots.copy(), view.kv_free.copy()
        worker = np.full(view.waiting_id.size, HOLD)
        is_idle = view.running.sum() + view.queued.sum() == 0
        for i in range(worker.size):
            able = may_take(view, i, free, kv)
            if able and (is_idle or draws[2 * i] >= self.hold):
                g = able[int(draws[2 * i + 1] * len(able))]
                worker[i] = g
                free[g] -= 1
                kv[g] -= view.waiting_load[i]
                is_idle = False
        memory = np.array([key] * self.memory_size, dtype=np.int64) if key % 3 else None
        return RoutingDecision(worker, memory, float(draws.sum()))


def fingerprint(view: RoutingView) -> int:
    """A 62-bit number of everything a view shows: values, shapes and types."""
    taken = hashlib.sha256()
    for f in fields(view):
        value = np.asarray(getattr(view, f.name))
        canonical = np.where(np.isnan(value), np.nan, value + 0.0) if value.dtype == np.float64 else value
        taken.update(f"{f.name} {value.dtype} {value.shape};".encode())
        taken.update(np.ascontiguousarray(canonical).tobytes())
    return int.from_bytes(taken.digest()[:8], "big") >> 2


@dataclass
class Keyed:
    """A predictor whose answers depend on what it is asked, on what it has learnt and on how often it was asked."""

    refresh_every: int = 16
    gate: float = 0.5
    refresh: str = "anchored"
    asked: list[tuple[int, ...]] = field(default_factory=list)
    learnt: list[int] = field(default_factory=list)

    def curve(self, active: Active, horizon: int) -> F8:
        """Falling by parts that differ from step to step; some requests are sure to have left at the end."""
        key = self._key(active)
        falls = np.stack([uniform(key, "curve", active.request_id, h) for h in range(horizon)], axis=1)
        left = np.cumprod(np.hstack([np.ones((falls.shape[0], 1)), 1.0 - 0.3 * falls]), axis=1)
        return np.where(left < 0.05, 0.0, left)

    def predict(self, active: Active, horizon: int) -> Prediction:
        key = self._key(active)
        steps_left = 0.5 + uniform(key, "steps", active.request_id) * (horizon + 0.5)
        return Prediction(steps_left, uniform(key, "leaves", active.request_id))

    def _key(self, active: Active) -> int:
        self.asked.append(tuple(active.request_id.tolist()))
        shown = [active.age, active.prompt_tokens, active.prompt_key, active.max_tokens, active.true_left]
        return int(sum(x.sum() for x in shown)) + len(self.asked) + 31 * sum(self.learnt) + 7 * len(self.learnt)

    def learn(self, finished: Finished) -> None:
        for n, row in enumerate(finished.request_id.tolist()):
            self.learnt.append((row + 1) * (len(self.learnt) + 1) + int(finished.output_tokens[n]))
