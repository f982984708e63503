"""Draws from a generator of the process."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenstep.scheduling.filling import Filling
from evenstep.scheduling.view import BatchDecision, EngineView


@dataclass(frozen=True)
class ThrowsDice:
    def form_batch(self, view: EngineView) -> BatchDecision:
        np.random.random()
        filling = Filling(view)
        for request in range(view.left.size):
            filling.offer(request)
        return filling.decision()


policy = ThrowsDice
