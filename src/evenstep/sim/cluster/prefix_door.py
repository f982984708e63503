"""The doors of a cluster with prefix caches: they are asked at every decision, under every policy.

Between the policy's answer and the loop's next step the door tells the caches which requests are sent. A policy with a
kernel answers by it.
"""

from __future__ import annotations

from typing import Any

from evenstep import compiled
from evenstep.compiled import column
from evenstep.request import F8
from evenstep.routing.idle import send_to_idle
from evenstep.routing.view import HOLD, reads_cached
from evenstep.sim.cluster.plain_door import PlainDoor
from evenstep.sim.cluster.prefix_caches import PrefixCaches
from evenstep.sim.cluster.state import State

_send_to_idle = compiled.entry(send_to_idle)


class PrefixDoor(PlainDoor):
    """The plain door of a run with prefix caches; asks `kernel`, if it is given, in place of the policy's `route`."""

    def __init__(self, policy: Any, state: State, name: str, caches: PrefixCaches, kernel: Any = None) -> None:
        self.caches, self.reads_cached = caches, reads_cached(policy)
        self.losses_seen: set[int] = set()
        self.kernel = None if kernel is None else compiled.entry(kernel.route_into)
        super().__init__(policy, state, name)

    def decide(self, waiting: int) -> float:
        """Ask the policy about the `waiting` requests, and tell the caches which it sends; returns the policy's bound.

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
