"""Gives the first request one token too many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenstep.scheduling.view import BatchDecision, EngineView


@dataclass(frozen=True)
class MoreThanLeft:
    def form_batch(self, view: EngineView) -> BatchDecision:
        tokens = np.zeros(view.left.size, np.int64)
        tokens[:1] = view.left[:1] + 1
        return BatchDecision(tokens, np.zeros(view.left.size, np.bool_), view.memory)


policy = MoreThanLeft
