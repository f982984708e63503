"""Gives everybody a token while the budget lasts, however many seats there are."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.scheduling.filling import Filling
from evenstep.scheduling.view import BatchDecision, EngineView


@dataclass(frozen=True)
class OverSeats:
    def form_batch(self, view: EngineView) -> BatchDecision:
        filling = Filling(view)
        filling.batch.seats[0] = view.left.size
        for request in range(view.left.size):
            tokens = min(filling.most(request), 1)
            if tokens > 0 and filling.grows(request, tokens) <= filling.free:
                filling.give(request, tokens)
        return filling.decision()


policy = OverSeats
