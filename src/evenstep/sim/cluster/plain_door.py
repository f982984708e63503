"""Python doors: what the compiled loop asks at every decision in place of a policy's kernel.

The plain door calls the policy's own `route`. That of a cluster with prefix caches is asked under every policy: between the
policy's answer and the loop's next step it tells the caches which requests are sent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep import compiled
from evenstep.compiled import column, sealed
from evenstep.errors import PolicyError
from evenstep.request import F8
from evenstep.routing.idle import send_to_idle
from evenstep.routing.view import HOLD, RoutingDecision, RoutingView, broken_rule, reads_cached
from evenstep.sim.cluster.model import RAISED
from evenstep.sim.cluster.prefix_caches import PrefixCaches
from evenstep.sim.cluster.state import State

_send_to_idle = compiled.entry(send_to_idle)
_INT64 = np.dtype(np.int64)
_set = object.__setattr__
#: Fields of a view that are the fleet's, under the same names.
_OF_WORKERS = ["group", "queued", "free_slots", "running", "load", "queued_load", "kv_free", "seconds_per_token"]


class PlainDoor:
    """Shows a Python policy its view, and writes its answer where the loop reads and checks it.

    The policy sees one view object until the state grows. Its arrays, but `waited_s` and `cached_tokens`, are read-only
    windows of the state, valid until the policy has answered. `error` is the policy's last error, which the host raises;
    None = no error.
    """

    def __init__(self, policy: Any, state: State, name: str) -> None:
        self.route, self.state, self.name = policy.route, state, name
        self.error: BaseException | None = None
        self.look_again()

    def look_again(self) -> None:
        """Point the view at the state's arrays again, after `State.grow` has replaced them."""
        run = self.state.run
        pool, fleet = run.pool, run.fleet
        self.pool, self.memory, self.has_columns = pool, run.policy.memory, run.requests.key.size > 0
        self.ids, self.loads, self.since_s = sealed(pool.id), sealed(pool.load), sealed(pool.since_s)
        self.classes, self.keys, self.steps = sealed(pool.request_class), sealed(pool.key), sealed(pool.steps)
        self.shown, self.answered = -1, pool.worker[:0]
        no_ids, nothing = self.ids[:0], np.zeros(0)
        self.view = RoutingView(
            decision=0,
            seed=int(run.fixed.seed),
            now_s=0.0,
            mean_wait_s=0.0,
            **dict.fromkeys(("waiting_id", "waiting_class", "waiting_key"), no_ids),
            **dict.fromkeys(("waiting_load", "waited_s", "waiting_steps"), nothing),
            projections=sealed(run.ahead.projections),
            growth=sealed(run.ahead.growth),
            cached_tokens=run.policy.cached,
            memory=sealed(self.memory),
            **{name: sealed(getattr(fleet, name)) for name in _OF_WORKERS},
        )

    def answer(self, decision: int, now_s: float, mean_wait_s: float, first: int, waiting: int) -> float:
        """Ask the policy for one decision and write it for the loop; returns its certified lower bound.

        `decision`, `now_s` and `mean_wait_s` are as in `RoutingView`. `waiting` requests are shown, from place `first` of
        the pool on. Errors are as of `decide`.
        """
        view = self.view
        _set(view, "decision", decision)
        _set(view, "now_s", now_s)
        _set(view, "mean_wait_s", mean_wait_s)
        self.show(first, waiting, now_s)
        return self.decide(waiting)

    def stop(self, error: BaseException) -> None:
        """Keep an error of the policy in `error` for the host, and stop the loop."""
        self.error = error
        self.state.run.now.error_kind = RAISED

    def show(self, first: int, waiting: int, now_s: float) -> None:
        """Make `view` show the `waiting` requests from place `first` of the pool on, at time `now_s` in seconds."""
        view, end = self.view, first + waiting
        ids = self.ids[first:end]
        _set(view, "waiting_id", ids)
        _set(view, "waiting_load", self.loads[first:end])
        _set(view, "waited_s", now_s - self.since_s[first:end])
        _set(view, "waiting_key", self.keys[first:end] if self.has_columns else ids)
        if self.has_columns:
            _set(view, "waiting_class", self.classes[first:end])
        if waiting != self.shown:
            if not self.has_columns:  # then every class is 0
                _set(view, "waiting_class", self.classes[:waiting])
            _set(view, "waiting_steps", self.steps[:waiting])  # unknown, all of them
            self.answered, self.shown = self.pool.worker[:waiting], waiting

    def decide(self, waiting: int) -> float:
        """Call the policy's `route` on the view, copy its answer and any memory into the state, and return its bound.

        `waiting` requests are shown. A PolicyError if the policy raised (a PolicyError stays as it is), or its answer has
        another class, shape or type. The loop checks the workers of the answer.
        """
        view = self.view
        decision: Any = self  # as long as there is no answer
        try:
            decision = self.route(view)
            if not isinstance(decision, RoutingDecision):
                raise TypeError("no decision")  # `broken_rule` names its class
            worker, memory = decision.worker, decision.memory
            if worker.shape != (waiting,) or (worker.dtype is not _INT64 and worker.dtype != _INT64):
                raise PolicyError(
                    f"policy {self.name} broke its contract at decision {view.decision}: worker has shape {worker.shape}"
                    f" and dtype {worker.dtype}; expected ({waiting},) and int64, one entry a waiting request"
                )
            self.answered[...] = worker
            if memory is not None and memory.size:
                if memory.dtype is not _INT64 and memory.dtype != _INT64:
                    raise PolicyError(
                        f"policy {self.name} broke its contract at decision {view.decision}: memory has dtype"
                        f" {memory.dtype}; expected int64"
                    )
                self.memory[:] = memory
            return float(decision.bound)
        except PolicyError:
            raise
        except Exception as error:
            did, said = f"raised {type(error).__name__}", str(error)
            if decision is not self and (broken := broken_rule(view, decision)):
                did, said = "broke its contract", broken
            raise PolicyError(f"policy {self.name} {did} at decision {view.decision}: {said}") from error


class PrefixDoor(PlainDoor):
    """The plain door of a run with prefix caches; asks `kernel`, if it is given, in place of the policy's `route`."""

    def __init__(self, policy: Any, state: State, name: str, caches: PrefixCaches, kernel: Any = None) -> None:
        self.caches, self.reads_cached = caches, reads_cached(policy)
        self.losses_seen: set[int] = set()
        self.kernel = None if kernel is None else compiled.entry(kernel.route_into)
        super().__init__(policy, state, name)

    def decide(self, waiting: int) -> float:
        """Ask the policy about the `waiting` requests, and tell the caches which it sends; returns as `answer`.

        Unless `may_hold` is set, workers that would stay idle get held requests that fit; these count as sent, too.
        """
        run, rows = self.state.run, self.view.waiting_id
        self._see_losses()
        cached = self.caches.cached(rows) if self.reads_cached else run.policy.cached
        bound = self._asked(waiting, cached)
        if not run.fixed.may_hold:  # here and not in the loop, so that the caches see what is sent
            fleet, pool, first = run.fleet, run.pool, int(run.now.first)
            sent = _send_to_idle(first, waiting, fleet.workers_i, fleet.workers_f, pool.waiting_f, pool.worker)
            run.now.held += sent > 0
        for row, worker in zip(rows.tolist(), run.pool.worker[:waiting].tolist(), strict=True):
            if HOLD < worker < run.fixed.workers:  # the loop refuses every other answer
                self.caches.sent(row, worker)
        return bound

    def _asked(self, waiting: int, cached: F8) -> float:
        """Let the policy or its kernel write its answer, with `cached` as its view's `cached_tokens`; returns its bound."""
        if self.kernel is None:
            object.__setattr__(self.view, "cached_tokens", cached)
            return super().decide(waiting)
        run, view = self.state.run, self.view
        policy, pool = run.policy, run.pool
        return self.kernel(
            *(view.decision, view.seed, view.now_s, view.mean_wait_s, int(run.now.first), waiting),
            *(run.fleet.workers_i, run.fleet.workers_f, pool.waiting_i, pool.waiting_f),
            *(run.ahead.projections, run.ahead.growth, cached.copy(), policy.memory, policy.parameters),
            *(policy.scratch_i, policy.scratch_f, pool.worker),
        )

    def _see_losses(self) -> None:
        """Empty the caches of the workers that were lost since the last call."""
        outages = self.state.run.fleet.outages
        words = (column(outages, name).tolist() for name in ("worker", "back", "over"))
        for number, (worker, back, over) in enumerate(zip(*words, strict=True)):
            if over and number not in self.losses_seen:
                self.losses_seen.add(number)
                if not back:
                    self.caches.lost(worker)


def door_of(policy: Any, kernel: Any, state: State, name: str, caches: PrefixCaches | None) -> PlainDoor | None:
    """The Python door that the loop asks, with prefix caches if given `caches`; None if the loop calls `kernel` itself."""
    if caches is not None:
        return PrefixDoor(policy, state, name, caches, kernel)
    return PlainDoor(policy, state, name) if kernel is None else None
