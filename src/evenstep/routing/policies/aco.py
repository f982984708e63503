"""Ant colony optimisation: ants build assignments by chance, and pheromone on good ones guides later ants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np

from evenstep.compiled import Table, part
from evenstep.draws import head, uniform_from
from evenstep.errors import check_range
from evenstep.routing.filling import Room, has_room, send_to, set_load, set_room, total_free
from evenstep.routing.roulette import spin
from evenstep.routing.rules import RequestInts, Ruled, RuleView, WorkerFloats, rule
from evenstep.routing.view import HOLD
from evenstep.streams import stream_number

_STREAM = stream_number("aco")
#: Pheromone that does not evaporate, so that every pair keeps a chance.
LEAST = 0.2


@dataclass(frozen=True, slots=True)
class ACO(Ruled):
    """Ant colony: ants assign the oldest requests by chance, and the best of all their assignments is the answer.

    An ant takes as many of the oldest requests as there are slots, oldest first, and holds one that fits nowhere. Worker g,
    if it has room, gets request i with a probability in proportion to ``tau_ig ** trail * eta_g ** sight``. Here tau is
    pheromone, 1 at first, and eta is 1 / (the worker's KV tokens with the request + 1). After each iteration the pheromone
    evaporates by `evaporation`, but not below 0.2. That of the pairs in the best assignment so far then rises by 1. (If all
    ants left pheromone, they would settle on any assignment within the few iterations of a decision.) Chance is keyed by
    seed, decision and the running number of the draw.

    Kept for comparison: BF-IO App. A.1.1 says that it does not fit a decode step, for lack of processing times and of
    computing time. Its processing times are KV tokens at admission here.

    Args:
        ants: assignments built an iteration, >= 1.
        iterations: iterations a decision, >= 1.
        trail: power of the pheromone, alpha in the paper, 0..8.
        sight: power of the worker's desirability, beta in the paper, 0..8.
        evaporation: share of the pheromone lost an iteration, 0..1.

    Raises:
        InputError: an option out of range.

    Source: BF-IO App. A.1.1; Li, Xu, Zhao, Dong, Wang 2011. Numbers and objective (fewest held, then imbalance) are ours.
    """

    ants: int = 8
    iterations: int = 3
    trail: int = 1
    sight: int = 2
    evaporation: float = 0.5

    def __post_init__(self) -> None:
        check_range("aco", "an integer >= 1", low=1, ants=self.ants, iterations=self.iterations)
        check_range("aco", "an integer from 0 to 8", low=0, high=8, trail=self.trail, sight=self.sight)
        check_range("aco", "a number from 0 to 1", low=0, high=1, evaporation=self.evaporation)


class Work(NamedTuple):
    """Working space: one ant's assignment with the remaining room and loads, the best so far, and the pheromone."""

    fleet: Room  # `worker` is the ant's own assignment until the end
    load: WorkerFloats
    weight: WorkerFloats  # chance of each worker for the request at hand, not normalised
    best: RequestInts  # the best assignment so far
    pheromone: Annotated[Table, "waiting, workers"]


@rule
def route(view: RuleView, options: ACO, work: Work) -> None:
    """Write the ants' best assignment of the oldest requests to `work.fleet.worker`: fewest held, then least imbalance."""
    U = min(view.waiting_load.size, total_free(view))
    work.best[:] = HOLD
    work.pheromone[:U] = 1.0
    best, least = U + 1, np.inf  # requests held, imbalance
    for iteration in range(options.iterations):
        for ant in range(options.ants):
            held = build(iteration, ant, U, view, options, work)
            imbalance = imbalance_of(view, work)
            if held < best or (held == best and imbalance < least):
                best, least = held, imbalance
                for i in range(U):
                    work.best[i] = work.fleet.worker[i]
        for i in range(U):
            for g in range(view.load.size):
                work.pheromone[i, g] = max((1 - options.evaporation) * work.pheromone[i, g], LEAST)
            if work.best[i] != HOLD:
                work.pheromone[i, work.best[i]] += 1
    for i in range(U):
        work.fleet.worker[i] = work.best[i]


@part
def build(iteration: int, ant: int, U: int, view: RuleView, options: ACO, work: Work) -> int:
    """Let one ant send the oldest U requests, drawing workers by chance; returns the number that fit nowhere.

    The assignment is written to `work.fleet.worker`, the loads with it to `work.load`; earlier contents do not matter.
    A request that fits nowhere gets `HOLD`. `iteration` and `ant` only key the random draws.
    """
    dice, held = head(view.seed, _STREAM), 0
    set_room(view, work.fleet)
    set_load(view, work.load)
    for i in range(U):
        size, fitting = view.waiting_load[i], 0
        for g in range(view.load.size):
            work.weight[g] = 0.0
            if has_room(g, size, work.fleet):
                fitting += 1
                sight = power(1 / (work.load[g] + (size + 1)), options.sight)
                work.weight[g] = sight * power(work.pheromone[i, g], options.trail)
        work.fleet.worker[i] = HOLD
        if fitting == 0:
            held += 1
            continue
        draw = (iteration * U + i) * options.ants + ant
        g = spin(work.weight, work.weight.size, uniform_from(dice, draw, view.decision))
        send_to(i, g, size, work.fleet)
        work.load[g] += size
    return held


@part
def imbalance_of(view: RuleView, work: Work) -> float:
    """The imbalance of `work.load` in KV tokens: workers times envelope less the loads, summed over groups."""
    groups, imbalance = 0, 0.0
    for g in range(view.group.size):
        groups = max(groups, view.group[g] + 1)
    for group in range(groups):
        members, envelope, total = 0, -np.inf, 0.0
        for g in range(view.group.size):
            if view.group[g] == group:
                members += 1
                envelope = max(envelope, work.load[g])
                total += work.load[g]
        if members > 0:
            imbalance += members * envelope - total
    return imbalance


@part
def power(x: float, exponent: int) -> float:
    """x to an integer power >= 0, by multiplication: the same bits on every machine."""
    result = x if exponent > 0 else 1.0
    for _ in range(exponent - 1):
        result = result * x
    return result


policy = ACO
