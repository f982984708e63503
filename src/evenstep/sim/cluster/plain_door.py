"""The plain door: a policy's own `route` is called at every decision of the compiled loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep.compiled import sealed
from evenstep.errors import EvenstepError, PolicyError
from evenstep.routing.view import RoutingDecision, RoutingView
from evenstep.sim.cluster.model import RAISED
from evenstep.sim.cluster.state import State

_INT64 = np.dtype(np.int64)
_set = object.__setattr__
#: Fields of a view that are the fleet's, under the same names.
_OF_WORKERS = ["group", "queued", "free_slots", "running", "load", "queued_load", "kv_free", "seconds_per_token"]


class PlainDoor:
    """Shows a Python policy its view, and writes its answer where the loop reads and checks it.

    The policy sees one view object for all decisions. Its arrays are read-only windows of the state, valid until the policy
    has answered. `error` is the policy's last error, which the host raises; None = no error.
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
            waiting_id=no_ids,
            waiting_load=nothing,
            waited_s=nothing,
            waiting_class=no_ids,
            waiting_key=no_ids,
            waiting_steps=nothing,
            projections=sealed(run.ahead.projections),
            growth=sealed(run.ahead.growth),
            cached_tokens=run.policy.cached,
            memory=sealed(self.memory),
            **{name: sealed(getattr(fleet, name)) for name in _OF_WORKERS},
        )

    def answer(self, decision: int, now_s: float, mean_wait_s: float, first: int, waiting: int) -> float:
        """Ask the policy for one decision and write it for the loop; returns its certified lower bound.

        An error of the policy is kept in `error`, the loop stops, and 0 is returned. `decision`, `now_s` and `mean_wait_s`
        are as in `RoutingView`. `waiting` requests are shown, from place `first` of the pool on.
        """
        view = self.view
        _set(view, "decision", decision)
        _set(view, "now_s", now_s)
        _set(view, "mean_wait_s", mean_wait_s)
        try:
            self.show(first, waiting, now_s)
            return self.decide(waiting)
        except BaseException as error:
            self.error = error
            self.state.run.now.error_kind = RAISED
            return 0.0

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
        """Call the policy's `route` on the view, copy its answer and memory into the state, and return its bound.

        `waiting` requests are shown. A PolicyError if the policy raised, or its answer has another shape or type. The loop
        checks the workers of the answer.
        """
        view = self.view
        try:
            decision: RoutingDecision = self.route(view)
            worker, memory = decision.worker, decision.memory
            if worker.shape != (waiting,) or (worker.dtype is not _INT64 and worker.dtype != _INT64):
                raise PolicyError(
                    f"policy {self.name} broke its contract at decision {view.decision}: worker has shape {worker.shape}"
                    f" and dtype {worker.dtype}; expected ({waiting},) and int64, one entry a waiting request"
                )
            self.answered[...] = worker
            if memory is not None and memory.size:
                self.memory[:] = memory
            return float(decision.bound)
        except EvenstepError:
            raise
        except Exception as error:
            raise PolicyError(
                f"policy {self.name} raised {type(error).__name__} at decision {view.decision}: {error}"
            ) from error
