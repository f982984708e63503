"""Join the shortest queue: the oldest request goes to the worker with the fewest requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evenstep import streams
from evenstep.routing.filling import Filling
from evenstep.routing.view import RoutingDecision, RoutingView


@dataclass(frozen=True, slots=True)
class JSQ:
    """Join the shortest queue: fewest requests, running or sent, among the workers with a free slot.

    Args:
        ties: ``random`` = keyed chance among the shortest (the same dice for every policy that asks for this
            request); ``lowest`` = lowest index. With ``lowest`` and equal slots this is FCFS.

    Source: BF-IO App. A.1.1; the default of vLLM's and SGLang's routers.
    """

    ties: Literal["random", "lowest"] = "random"

    def route(self, view: RoutingView) -> RoutingDecision:
        filling = Filling(view)
        queue = view.running + view.queued
        for request in range(view.waiting_id.size):
            workers = filling.open_to(request)
            if workers.size:
                shortest = workers[queue[workers] == queue[workers].min()]
                place = 0
                if self.ties == "random" and shortest.size > 1:
                    place = int(
                        streams.uniform(view.seed, "jsq", int(view.waiting_id[request])) * shortest.size
                    )
                filling.send(request, int(shortest[place]))
                queue[shortest[place]] += 1
            elif filling.full:
                break
        return filling.decision()


policy = JSQ
