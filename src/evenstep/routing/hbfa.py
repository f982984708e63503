"""Honey-bee foraging: workers with room dance, and requests follow the better dances more often."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenstep import streams
from evenstep.errors import InputError
from evenstep.request import F8, I8
from evenstep.routing.filling import Filling
from evenstep.routing.roulette import spin
from evenstep.routing.view import RoutingDecision, RoutingView


@dataclass(frozen=True, slots=True)
class HBFA:
    """Honey-bee foraging: the oldest request follows the dance of a worker, a better one with more chance.

    Workers dance that have room for the request and not more than the mean load; if there is none, all with room. The
    fitness they dance is ``1 / ((1 + load / mean load) * (1 + requests / mean requests))``. A request follows one in
    proportion to its fitness, or scouts: then every worker with room is as likely. Dances change with each request sent.

    Kept for comparison: BF-IO App. A.1.1 says that it does not fit a decode step, for want of known workloads and of
    time for a population of bees. It leaves out priorities of tasks and the CPU and memory a bee would look at.

    Args:
        scouts: share of the requests that scout, 0..1.

    Raises:
        InputError: `scouts` out of range.

    Source: BF-IO App. A.1.1; Dhinesh Babu, Krishna 2013 (only workers that are not overloaded attract). The fitness and
    the share of scouts are our choice.
    """

    scouts: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.scouts <= 1:
            raise InputError("hbfa", "scouts", self.scouts, "a number from 0 to 1")

    def route(self, view: RoutingView) -> RoutingDecision:
        filling = Filling(view)
        load = view.load + view.queued_load
        requests = (view.running + view.queued).astype(np.float64)
        for request in range(view.waiting_id.size):
            workers = filling.open_to(request)
            if workers.size:
                name = int(view.waiting_id[request])
                scouting = streams.uniform(view.seed, "hbfa", name) < self.scouts
                weight = np.ones(workers.size) if scouting else _dances(load, requests, workers)
                best = int(workers[spin(weight, streams.uniform(view.seed, "hbfa", name, 1))])
                filling.send(request, best)
                load[best] += view.waiting_load[request]
                requests[best] += 1.0
            elif filling.full:
                break
        return filling.decision()


def _dances(load: F8, requests: F8, workers: I8) -> F8:
    """float64[n], the fitness each of the workers dances; 0 where it does not dance."""
    shares = [
        x[workers] / mean if mean > 0 else np.zeros(workers.size)
        for x in (load, requests)
        for mean in (_mean(x),)
    ]
    fitness = 1 / ((1 + shares[0]) * (1 + shares[1]))
    light = shares[0] <= 1
    return np.where(light, fitness, 0.0) if light.any() else fitness


def _mean(x: F8) -> float:
    return float(np.cumsum(x)[-1] / x.size)


policy = HBFA
