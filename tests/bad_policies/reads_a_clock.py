"""Stops looking when its time is up: on another machine it decides otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic as now

import numpy as np

from evenstep import HOLD, RoutingDecision, RoutingView


@dataclass(frozen=True)
class ReadsAClock:
    def route(self, view: RoutingView) -> RoutingDecision:
        worker = np.full(view.waiting_id.size, HOLD, np.int64)
        deadline = now() + 10.0
        for _ in range(worker.size):
            if now() > deadline:
                break
        return RoutingDecision(worker)


policy = ReadsAClock
