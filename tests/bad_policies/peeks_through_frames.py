"""Walks the host's frames by way of a traceback: no function is called for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenstep import HOLD, RoutingDecision, RoutingView


@dataclass(frozen=True)
class PeeksThroughFrames:
    def route(self, view: RoutingView) -> RoutingDecision:
        try:
            raise LookupError
        except LookupError as error:
            assert error.__traceback__ is not None
            _ = error.__traceback__.tb_frame.f_back
        return RoutingDecision(np.full(view.waiting_id.size, HOLD, np.int64))


policy = PeeksThroughFrames
