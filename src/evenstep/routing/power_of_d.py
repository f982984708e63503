"""Power of d choices: d workers by chance, the shortest queue of them."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep import streams
from evenstep.errors import InputError
from evenstep.routing.filling import Filling
from evenstep.routing.view import RoutingDecision, RoutingView


@dataclass(frozen=True, slots=True)
class PowerOfD:
    """`d` different workers with a free slot by keyed chance; of these the shortest queue (ties: lowest index).

    Args:
        d: workers looked at for each request, >= 1; 1 is random choice.

    Raises:
        InputError: `d` below 1.

    Source: Mitzenmacher 2002; BF-IO App. A.1.1, BalanceRoute sec. 6.1.
    """

    d: int = 2

    def __post_init__(self) -> None:
        if self.d < 1:
            raise InputError("power-of-d", "d", self.d, "an integer >= 1")

    def route(self, view: RoutingView) -> RoutingDecision:
        filling = Filling(view)
        queue = view.running + view.queued
        for request in range(view.waiting_id.size):
            workers = filling.open_to(request).tolist()
            if workers:
                sample: list[int] = []
                for draw in range(min(self.d, len(workers))):
                    u = streams.uniform(view.seed, "power-of-d", int(view.waiting_id[request]), draw)
                    place = int(u * len(workers))
                    workers[place], workers[-1] = workers[-1], workers[place]
                    sample.append(workers.pop())
                best = min(sample, key=lambda g: (queue[g], g))
                filling.send(request, best)
                queue[best] += 1
            elif filling.full:
                break
        return filling.decision()


policy = PowerOfD
