"""Keeps a count of its own."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.scheduling.filling import Filling
from evenstep.scheduling.view import BatchDecision, EngineView

_SEEN: list[int] = []


@dataclass(frozen=True)
class RemembersByItself:
    def form_batch(self, view: EngineView) -> BatchDecision:
        _SEEN.append(view.iteration)
        filling = Filling(view)
        for request in range(view.left.size):
            if len(_SEEN) % 7 or request:
                filling.offer(request)
        return filling.decision()


policy = RemembersByItself
