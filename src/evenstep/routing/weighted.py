"""Weighted: round robin or least connections, in proportion to what each worker can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from evenstep.config import Numbers
from evenstep.request import I8
from evenstep.routing.capability import capabilities, check_capabilities
from evenstep.routing.filling import Filling
from evenstep.routing.view import RoutingDecision, RoutingView

#: Largest weight of a turn, and the smallest; in between they are whole numbers.
FULL, LEAST = 65535, 1024


@dataclass(frozen=True, slots=True)
class Weighted:
    """Workers get requests in proportion to their weights.

    * ``least-connections``: the oldest request goes to the worker of smallest (requests + 1) / weight, where requests are
      running or sent; ties to the lowest index.
    * ``round-robin``: turns go round, and a worker of weight w out of the largest W takes w / W of its turns, spread
      evenly; neighbours are half a turn out of step. A turn that falls on a worker without room is passed on. Weights
      below a 64th of the largest count as a 64th.

    Args:
        rule: ``least-connections`` or ``round-robin``, which remembers whose turn it is.
        weights: weight of each worker, e.g. ``2/2/1``, repeated over the fleet; empty = by speed.

    Raises:
        InputError: a weight that is not above 0.

    Source: least connections as LVS has it under the name shortest expected delay; the turns as in gRPC's weighted round
    robin (proposal A58, static stride scheduler), which needs one counter. Measured weights, which gRPC takes from the
    load its backends report, are left out: a worker's speed is its weight.
    """

    rule: Literal["least-connections", "round-robin"] = "least-connections"
    weights: Numbers = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", check_capabilities("weighted", "weights", self.weights))

    @property
    def memory_size(self) -> int:
        """One word: turns so far; least connections leaves it at 0."""
        return 1

    def route(self, view: RoutingView) -> RoutingDecision:
        filling = Filling(view)
        weight = capabilities(view, self.weights)
        turn = int(view.memory[0])
        turns = np.maximum(LEAST, (FULL * (weight / weight.max()) + 0.5).astype(np.int64))
        count = view.running + view.queued
        for request in range(view.waiting_id.size):
            workers = filling.open_to(request)
            if workers.size:
                if self.rule == "round-robin":
                    turn, worker = _next_turn(turn, turns, workers)
                else:
                    worker = int(workers[np.argmin((count[workers] + 1) / weight[workers])])
                filling.send(request, worker)
                count[worker] += 1
            elif filling.full:
                break
        return RoutingDecision(filling.worker, memory=np.array([turn], np.int64))


def _next_turn(turn: int, turns: I8, workers: I8) -> tuple[int, int]:
    """The turn after the next one that one of these workers takes, and the worker."""
    G, allowed = turns.size, set(workers.tolist())
    while True:
        rounds, g = divmod(turn, G)
        turn += 1
        weight = int(turns[g])
        takes = (weight * rounds + g * (FULL // 2)) % FULL >= FULL - weight
        if takes and g in allowed:
            return turn, g


policy = Weighted
