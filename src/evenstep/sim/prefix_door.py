"""The doors of a cluster that keeps track of prefix caches: the loop stops at every decision, whatever the policy.

What is sent is seen here, between the policy's answer and the loop's going on; a policy with a kernel answers by it.
"""

from __future__ import annotations

from typing import Any

from evenstep import compiled
from evenstep.request import F8
from evenstep.routing.idle_kernel import send_to_idle
from evenstep.routing.view import HOLD, reads_cached
from evenstep.sim import cluster_layout as at
from evenstep.sim.cluster_state import State
from evenstep.sim.plain_door import PlainDoor
from evenstep.sim.prefix_caches import PrefixCaches

_send_to_idle = compiled.entry(send_to_idle)


class PrefixDoor(PlainDoor):
    """The plain door, with caches kept."""

    def __init__(self, policy: Any, state: State, seed: int, name: str, caches: PrefixCaches) -> None:
        self.caches, self.reads_cached = caches, reads_cached(policy)
        self.losses_seen: set[int] = set()
        super().__init__(policy, state, seed, name)

    def decide(self) -> None:
        self._see_losses()
        first = self.sc.item(at.FIRST)
        rows = self.ids[first : first + (1 if self.instant else self.sc.item(at.WAITING))]
        self.answer(self.caches.cached(rows) if self.reads_cached else self.state.cached)
        if not self.sc.item(at.MAY_HOLD):  # here and not in the loop, so that the caches see what is sent
            sent = _send_to_idle(
                first, rows.size, self.state.ints.window(at.WORKERS_I), self.state.floats.window(at.WORKERS_F),
                self.state.floats.window(at.WAITING_F), self.worker,
            )  # fmt: skip
            self.sc[at.HELD] += sent > 0
        for row, worker in zip(rows.tolist(), self.worker[: rows.size].tolist(), strict=True):
            if HOLD < worker < self.sc.item(at.WORKERS):  # anything else is refused by the loop
                self.caches.sent(row, worker)

    def answer(self, cached: F8) -> None:
        """Put the policy's answer where the loop reads it."""
        object.__setattr__(self.view, "cached_tokens", cached)
        super().decide()

    def _see_losses(self) -> None:
        for number, (_, worker, back, done) in enumerate(self.state.ints.window(at.OUTAGES).tolist()):
            if done and number not in self.losses_seen:
                self.losses_seen.add(number)
                if not back:
                    self.caches.lost(worker)


class PrefixKernelDoor(PrefixDoor):
    """The same for a policy with a kernel, which is called decision by decision."""

    def __init__(
        self, policy: Any, state: State, seed: int, name: str, caches: PrefixCaches, kernel: Any
    ) -> None:  # fmt: skip
        self.kernel = compiled.entry(kernel.route_into)
        super().__init__(policy, state, seed, name, caches)

    def answer(self, cached: F8) -> None:
        sc, sf, ints, floats = self.sc, self.sf, self.state.ints, self.state.floats
        offered = 1 if self.instant else sc.item(at.WAITING)
        sf[at.BOUND] = self.kernel(
            sc.item(at.DECISIONS), self.seed, sf.item(at.NOW), sf.item(at.MEAN_WAIT), sc.item(at.FIRST), offered,
            ints.window(at.WORKERS_I), floats.window(at.WORKERS_F),
            ints.window(at.WAITING_I), floats.window(at.WAITING_F),
            floats.window(at.PROJECTIONS), floats.window(at.GROWTH), cached.copy(), self.memory,
            floats.window(at.PARAMETERS), ints.window(at.SCRATCH_I), floats.window(at.SCRATCH_F), self.worker,
        )  # fmt: skip


def door_of(
    policy: Any, kernel: Any, state: State, seed: int, name: str, caches: PrefixCaches | None
) -> PlainDoor | None:
    """Who answers when the loop stops at a decision; None = the kernel inside the loop."""
    if caches is None:
        return PlainDoor(policy, state, seed, name) if kernel is None else None
    if kernel is None:
        return PrefixDoor(policy, state, seed, name, caches)
    return PrefixKernelDoor(policy, state, seed, name, caches, kernel)
