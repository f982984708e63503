"""Reads past the end of its arrays, where a host keeps what is still hidden."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenstep import HOLD, RoutingDecision, RoutingView


@dataclass(frozen=True)
class PeeksBehindTheWindow:
    def route(self, view: RoutingView) -> RoutingDecision:
        worker = np.full(view.waiting_id.size, HOLD, np.int64)
        behind = view.waiting_load.base
        if worker.size and behind is not None and behind.flat[behind.size - 1] > 100 and view.free_slots[0] > 0:
            worker[0] = 0 if view.kv_free[0] >= view.waiting_load[0] else HOLD
        return RoutingDecision(worker)


policy = PeeksBehindTheWindow
