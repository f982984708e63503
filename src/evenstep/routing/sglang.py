"""SGLang's data-parallel controller: fewest requests, or fewest tokens, with a charge for what was just sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from evenstep.routing.filling import Filling
from evenstep.routing.view import RoutingDecision, RoutingView


@dataclass(frozen=True, slots=True)
class SGLang:
    """SGLang's choice of a data-parallel rank: the oldest request goes to the rank with fewest requests or tokens.

    Requests and tokens count what runs and what was sent. Each dispatch charges the rank one request and the prompt's
    tokens at once, so that a burst between two reports spreads. Ties go to the lowest index.

    Args:
        score: ``total-requests``, or ``total-tokens`` with equal tokens to the fewest requests.

    It leaves out: reports of the ranks that are older than the decision, ranks that are down, ranks that a request
    asks for, and the methods round-robin (`round-robin` here) and by bootstrap room. With reports as fresh as here
    ``total-requests`` is JSQ with lowest ties, and ``total-tokens`` is least load. SGLang dispatches each request on
    arrival, whether the rank has a slot or not; here a pool waits for slots and is taken oldest first.

    Source: sgl-project/sglang 0.5.23, python/sglang/srt/managers/data_parallel_controller.py, DPBudget.
    """

    score: Literal["total-requests", "total-tokens"] = "total-requests"

    def route(self, view: RoutingView) -> RoutingDecision:
        filling = Filling(view)
        requests = view.running + view.queued
        tokens = view.load + view.queued_load
        for request in range(view.waiting_id.size):
            workers = filling.open_to(request)
            if workers.size:
                if self.score == "total-tokens":
                    workers = workers[tokens[workers] == tokens[workers].min()]
                best = int(workers[np.argmin(requests[workers])])
                filling.send(request, best)
                requests[best] += 1
                tokens[best] += view.waiting_load[request]
            elif filling.full:
                break
        return filling.decision()


policy = SGLang
