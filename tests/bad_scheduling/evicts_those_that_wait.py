"""Evicts the last it is shown, whether it holds memory or not."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evenstep.scheduling.filling import Filling
from evenstep.scheduling.view import BatchDecision, EngineView


@dataclass(frozen=True)
class EvictsThoseThatWait:
    def form_batch(self, view: EngineView) -> BatchDecision:
        filling = Filling(view)
        for request in range(view.left.size - 1):
            filling.offer(request)
        return replace(filling.decision(), evict=np.arange(view.left.size) == view.left.size - 1)


policy = EvictsThoseThatWait
