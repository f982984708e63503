"""Draws from the global generator: no run can be replayed."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from evenstep import HOLD, RoutingDecision, RoutingView


@dataclass(frozen=True)
class ThrowsDice:
    def route(self, view: RoutingView) -> RoutingDecision:
        worker = np.full(view.waiting_id.size, HOLD, np.int64)
        random.random()
        return RoutingDecision(worker)


policy = ThrowsDice
