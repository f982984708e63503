"""Weighted: round robin or least connections, in proportion to weights of the workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from evenstep.compiled import part
from evenstep.config.number import Numbers
from evenstep.routing.capability import check_capabilities, list_capabilities
from evenstep.routing.filling import Room, count_requests, has_room, send_to, set_room
from evenstep.routing.rules import Ruled, RuleView, WorkerFloats, WorkerInts, rule

#: Largest and smallest integer weight in round robin.
FULL, LEAST = 65535, 1024


@dataclass(frozen=True, slots=True)
class Weighted(Ruled):
    """Workers get requests in proportion to their weights.

    * ``least-connections``: the oldest request goes to the worker of smallest (requests + 1) / weight, where requests are
      running or sent; ties to the lowest index.
    * ``round-robin``: turns go round, and a worker of weight w out of the largest W takes w / W of its turns, spread evenly.
      Neighbours are half a turn out of step. A worker without room is skipped. Weights below a 64th of the largest count as
      a 64th.

    Args:
        rule: ``least-connections`` or ``round-robin``, which remembers whose turn it is.
        weights: weight of each worker, e.g. ``2/2/1``, repeated over the fleet; empty = by speed.

    Raises:
        InputError: an invalid weight (see `check_capabilities`).

    Source: least connections as in LVS under the name shortest expected delay; the turns as in gRPC's weighted round robin
    (proposal A58, static stride scheduler), which needs one counter. gRPC's measured weights, from the load that backends
    report, are left out: a worker's speed is its weight.
    """

    memory_size: ClassVar[int] = 1  #: one word: turns so far; least connections leaves it at 0

    rule: Literal["least-connections", "round-robin"] = "least-connections"
    weights: Numbers = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", check_capabilities("weighted", "weights", self.weights))


class Work(NamedTuple):
    """Working space: the room (see `filling.Room`); requests, weight and integer weight of each worker."""

    fleet: Room
    requests: WorkerInts
    weight: WorkerFloats
    turns: WorkerInts  # weight as an integer, `FULL` for the largest


@rule
def route(view: RuleView, options: Any, work: Work) -> None:
    """Send requests, oldest first, each to the worker of `next_turn` or `fewest_connections`; hold one that fits nowhere."""
    largest = list_capabilities(view, options.weights, work.weight)
    count_requests(view, work.requests)
    if options.rule_round_robin:
        for g in range(view.load.size):
            work.turns[g] = max(LEAST, int(FULL * (work.weight[g] / largest) + 0.5))
    left = set_room(view, work.fleet)
    for i in range(view.waiting_load.size):
        if left == 0:
            break
        size = view.waiting_load[i]
        best = next_turn(size, work) if options.rule_round_robin else fewest_connections(size, work)
        if best >= 0:
            send_to(i, best, size, work.fleet)
            work.requests[best] += 1
            left -= 1


@part
def fewest_connections(size: float, work: Work) -> int:
    """The worker of smallest (requests + 1) / weight with room for `size` tokens (ties: lowest index); -1 without one."""
    best, least = -1, np.inf
    for g in range(work.weight.size):
        busy = (work.requests[g] + 1) / work.weight[g]
        if has_room(g, size, work.fleet) and (best < 0 or busy < least):
            best, least = g, busy
    return best


@part
def next_turn(size: float, work: Work) -> int:
    """The worker with room for `size` tokens whose turn is next; -1 without one.

    The count of turns so far, `work.fleet.memory[0]`, moves past that turn; it stays if no worker has room.
    """
    G, turn, g = work.turns.size, work.fleet.memory[0], 0
    while g < G and not has_room(g, size, work.fleet):
        g += 1
    if g == G:
        return -1
    while True:
        g = turn % G
        weight = work.turns[g]
        takes = (weight * (turn // G) + g * (FULL // 2)) % FULL >= FULL - weight
        turn += 1
        if takes and has_room(g, size, work.fleet):
            work.fleet.memory[0] = turn
            return g


policy = Weighted
