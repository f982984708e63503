"""Takes the lock off an array of its view and counts in it."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.scheduling.filling import Filling
from evenstep.scheduling.view import BatchDecision, EngineView


@dataclass(frozen=True)
class MutatesItsView:
    def form_batch(self, view: EngineView) -> BatchDecision:
        left = view.left.base if view.left.base is not None else view.left
        while left.base is not None:
            left = left.base
        if left.size > 3:
            left[1] += 0 if left[1] > 2 else 1
        return Filling(view).decision()


policy = MutatesItsView
