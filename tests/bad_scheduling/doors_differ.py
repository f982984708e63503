"""Its kernel, beside it, runs nobody."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.scheduling.filling import Filling
from evenstep.scheduling.view import BatchDecision, EngineView


@dataclass(frozen=True)
class DoorsDiffer:
    def form_batch(self, view: EngineView) -> BatchDecision:
        filling = Filling(view)
        for request in range(view.left.size):
            filling.offer(request)
        return filling.decision()


policy = DoorsDiffer
