"""Round robin: each request goes to the next worker in turn that has a slot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenstep.routing.filling import Filling
from evenstep.routing.view import RoutingDecision, RoutingView


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """The next worker in turn that has a slot; it remembers whose turn it is.

    Source: BF-IO App. A.1.1.
    """

    @property
    def memory_size(self) -> int:
        """One word: the worker whose turn it is."""
        return 1

    def route(self, view: RoutingView) -> RoutingDecision:
        filling = Filling(view)
        turn = int(view.memory[0])
        for request in range(view.waiting_id.size):
            workers = filling.open_to(request)
            if workers.size:
                later = workers[workers >= turn]
                worker = int(later[0] if later.size else workers[0])
                filling.send(request, worker)
                turn = worker + 1
            elif filling.full:
                break
        return RoutingDecision(filling.worker, memory=np.array([turn], np.int64))


policy = RoundRobin
