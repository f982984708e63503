"""Looks for the trace among the young objects of the process: it would know the true output lengths."""

from __future__ import annotations

import gc
from dataclasses import dataclass

import numpy as np

from evenstep import HOLD, RoutingDecision, RoutingView
from evenstep.request import Trace


@dataclass(frozen=True)
class Peeks:
    def route(self, view: RoutingView) -> RoutingDecision:
        _ = [thing for thing in gc.get_objects(generation=0) if type(thing) is Trace]
        return RoutingDecision(np.full(view.waiting_id.size, HOLD, np.int64))


policy = Peeks
