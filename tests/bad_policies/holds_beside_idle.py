"""Waits for a request that is worth a worker's whole memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenstep import RoutingDecision, RoutingView
from evenstep.routing.view import HOLD


@dataclass(frozen=True)
class HoldsBesideIdle:
    def route(self, view: RoutingView) -> RoutingDecision:
        worker = np.full(view.waiting_id.size, HOLD, np.int64)
        for i, size in enumerate(view.waiting_load.tolist()):
            fits = np.flatnonzero((view.free_slots > 0) & (view.kv_free >= size) & (size > 10_000))
            if fits.size:
                worker[i] = fits[0]
                break
        return RoutingDecision(worker)


policy = HoldsBesideIdle
