"""Asks what time it is."""

from __future__ import annotations

import time
from dataclasses import dataclass

from evenstep.scheduling.filling import Filling
from evenstep.scheduling.view import BatchDecision, EngineView


@dataclass(frozen=True)
class ReadsAClock:
    def form_batch(self, view: EngineView) -> BatchDecision:
        time.monotonic()
        filling = Filling(view)
        for request in range(view.left.size):
            filling.offer(request)
        return filling.decision()


policy = ReadsAClock
