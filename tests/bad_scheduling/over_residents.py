"""Admits as long as seats last, while everybody who runs already pauses with its memory."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.scheduling.filling import Filling
from evenstep.scheduling.view import UNLIMITED, BatchDecision, EngineView


@dataclass(frozen=True)
class OverResidents:
    def form_batch(self, view: EngineView) -> BatchDecision:
        filling = Filling(view)
        filling.batch.places[0] = UNLIMITED
        for request in range(filling.running, view.left.size):
            filling.admit(request)
        return filling.decision()


policy = OverResidents
