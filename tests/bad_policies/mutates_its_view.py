"""Takes the lock off an array of its view and counts in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenstep import HOLD, RoutingDecision, RoutingView


@dataclass(frozen=True)
class MutatesItsView:
    def route(self, view: RoutingView) -> RoutingDecision:
        free = view.free_slots.base if view.free_slots.base is not None else view.free_slots
        while free.base is not None:
            free = free.base
        free[1] += 0 if free[1] > 2 else 1
        return RoutingDecision(np.full(view.waiting_id.size, HOLD, np.int64))


policy = MutatesItsView
