"""What is left of slots and KV memory while one decision fills them."""

from __future__ import annotations

import math

import numpy as np

from evenstep.errors import InputError
from evenstep.request import F8, I8
from evenstep.routing.view import HOLD, RoutingDecision, RoutingView


class Filling:
    """The room left on every worker, and the answer so far, of one decision.

    A request that fits nowhere is simply not sent: the policies skip it and go on with the next one, so that one
    huge request does not block the pool.

    Args:
        view: the view the decision is about; it is not changed.
    """

    def __init__(self, view: RoutingView) -> None:
        self.free_slots: I8 = view.free_slots.copy()
        self.kv_free: F8 = view.kv_free.copy()
        self.worker: I8 = np.full(view.waiting_id.size, HOLD, np.int64)
        self._waiting_load = view.waiting_load

    def open_to(self, request: int) -> I8:
        """int64[n], workers with a slot and the KV memory for a waiting request, in index order."""
        return np.flatnonzero((self.free_slots > 0) & (self.kv_free >= self._waiting_load[request]))

    def send(self, request: int, worker: int) -> None:
        self.worker[request] = worker
        self.free_slots[worker] -= 1
        self.kv_free[worker] -= self._waiting_load[request]

    def move(self, request: int, worker: int) -> None:
        """Send a request that was sent somewhere else to this worker."""
        before = self.worker[request]
        self.free_slots[before] += 1
        self.kv_free[before] += self._waiting_load[request]
        self.send(request, worker)

    @property
    def full(self) -> bool:
        """Whether no worker has a slot left."""
        return not bool(np.any(self.free_slots > 0))

    def decision(self) -> RoutingDecision:
        return RoutingDecision(self.worker)


def overdue(view: RoutingView, age_limit: float) -> int:
    """How many of the oldest requests go first, because they waited more than `age_limit` times the mean wait.

    They take a quarter of the free slots at most, and one at least: requests that a policy passes over grow old together,
    and admitted all at once they would undo the balance that passing them over gained.

    Args:
        age_limit: multiple of the mean wait; 0 switches the rule off. Before the first admission nothing is overdue.
    """
    if not (age_limit > 0 and view.mean_wait_s > 0):
        return 0
    late = view.waited_s > age_limit * view.mean_wait_s
    count = int(np.argmin(late)) if not late.all() else int(late.size)
    return min(count, most_overdue(int(view.free_slots.sum())))


def most_overdue(free_slots: int) -> int:
    """Overdue requests that go first in one decision: a quarter of the free slots, at least one."""
    return max(1, free_slots // 4)


def check_age_limit(where: str, age_limit: float) -> None:
    """Check a policy's ageing bound.

    Raises:
        InputError: a negative or non-finite bound.
    """
    if not 0 <= age_limit < math.inf:
        raise InputError(where, "age_limit", age_limit, "a finite number >= 0", "0 switches ageing off.")
