"""Its kernel, beside it, sends the oldest request to another worker."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenstep import HOLD, RoutingDecision, RoutingView


@dataclass(frozen=True)
class DoorsDiffer:
    def route(self, view: RoutingView) -> RoutingDecision:
        worker = np.full(view.waiting_id.size, HOLD, np.int64)
        if worker.size:
            open_to = (view.free_slots > 0) & (view.kv_free >= view.waiting_load[0])
            worker[0] = np.argmax(open_to) if open_to.any() else HOLD
        return RoutingDecision(worker)


policy = DoorsDiffer
