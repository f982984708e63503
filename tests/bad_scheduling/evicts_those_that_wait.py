"""Evicts the last it is shown, whether it holds memory or not."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.scheduling.filling import Filling
from evenstep.scheduling.view import BatchDecision, EngineView


@dataclass(frozen=True)
class EvictsThoseThatWait:
    def form_batch(self, view: EngineView) -> BatchDecision:
        filling = Filling(view)
        if view.left.size:
            filling.evicted[-1] = True
        for request in range(view.left.size - 1):
            filling.offer(request)
        return filling.decision()


policy = EvictsThoseThatWait
