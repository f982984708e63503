"""Keeps to the budget and the seats, not to the memory."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.scheduling.filling import Filling
from evenstep.scheduling.view import BatchDecision, EngineView


@dataclass(frozen=True)
class OverMemory:
    def form_batch(self, view: EngineView) -> BatchDecision:
        filling = Filling(view)
        for request in range(view.left.size):
            tokens = filling.most(request)
            if tokens > 0:
                filling.give(request, tokens)
        return filling.decision()


policy = OverMemory
