"""Random: each request goes to any worker that has a slot."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep import streams
from evenstep.routing.filling import Filling
from evenstep.routing.view import RoutingDecision, RoutingView


@dataclass(frozen=True, slots=True)
class Random:
    """Uniform over the workers with a free slot, by chance keyed with the request's id.

    Source: BalanceRoute sec. 6.1 (baselines of the vLLM router).
    """

    def route(self, view: RoutingView) -> RoutingDecision:
        filling = Filling(view)
        for request in range(view.waiting_id.size):
            workers = filling.open_to(request)
            if workers.size:
                place = int(
                    streams.uniform(view.seed, "random", int(view.waiting_id[request])) * workers.size
                )
                filling.send(request, int(workers[place]))
            elif filling.full:
                break
        return filling.decision()


policy = Random
