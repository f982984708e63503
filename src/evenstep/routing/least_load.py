"""Least load: the oldest request goes to the worker with the fewest KV tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenstep.routing.filling import Filling
from evenstep.routing.view import RoutingDecision, RoutingView


@dataclass(frozen=True, slots=True)
class LeastLoad:
    """JSQ on KV load instead of count: what a token-aware router does (ties: lowest index).

    The load counts running requests, those sent and not yet decoding, and those this decision sends.
    """

    def route(self, view: RoutingView) -> RoutingDecision:
        filling = Filling(view)
        load = view.load + view.queued_load
        for request in range(view.waiting_id.size):
            workers = filling.open_to(request)
            if workers.size:
                lightest = int(workers[np.argmin(load[workers])])
                filling.send(request, lightest)
                load[lightest] += view.waiting_load[request]
            elif filling.full:
                break
        return filling.decision()


policy = LeastLoad
