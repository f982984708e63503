"""First come, first served: the oldest request goes to the worker with most free slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from evenstep.routing.filling import Filling
from evenstep.routing.view import RoutingDecision, RoutingView


@dataclass(frozen=True, slots=True)
class FCFS:
    """First come, first served: sizes and loads are not looked at.

    Args:
        fill: ``free-slots`` = the oldest request to the worker with most free slots, repeated (ties: lowest index);
            ``index`` = fill the workers up in index order.

    Source: BF-IO Alg. 2 (``free-slots``) and the prose of App. B (``index``).
    """

    fill: Literal["free-slots", "index"] = "free-slots"

    def route(self, view: RoutingView) -> RoutingDecision:
        filling = Filling(view)
        for request in range(view.waiting_id.size):
            workers = filling.open_to(request)
            if workers.size:
                most = np.argmax(filling.free_slots[workers]) if self.fill == "free-slots" else 0
                filling.send(request, int(workers[most]))
            elif filling.full:
                break
        return filling.decision()


policy = FCFS
