"""Ant colony optimisation: ants build assignments by chance, and the good ones leave a trail for the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenstep import streams
from evenstep.errors import InputError
from evenstep.request import F8, I8
from evenstep.routing.roulette import spin
from evenstep.routing.view import HOLD, RoutingDecision, RoutingView

#: Pheromone that does not evaporate: no pair is ever out of reach.
LEAST = 0.2


@dataclass(frozen=True, slots=True)
class ACO:
    """Ant colony: the best of the assignments that `ants` build in each of `iterations`, for the oldest requests.

    As many of the oldest requests as there are slots are assigned. An ant sends them one after another, oldest first,
    request i to worker g with a chance in proportion to ``tau_ig ** trail * eta_g ** sight``: tau is pheromone, 1 at
    first, eta = 1 / (the worker's KV tokens with the request). After each iteration the pheromone evaporates by
    `evaporation`, down to 0.2 at most, and the pairs of the best assignment so far get 1 (if all ants leave pheromone, they
    settle on anything in as few iterations as a decision has time for). Chance is keyed
    by seed, decision and the running number of the draw.

    Kept for comparison: BF-IO App. A.1.1 says that it does not fit a decode step, for want of processing times and of
    computing time. The processing times it gets here are KV tokens at admission.

    Args:
        ants: assignments built an iteration, >= 1.
        iterations: rounds of pheromone, >= 1.
        trail: power of the pheromone, alpha in the paper, 0..8.
        sight: power of the worker's desirability, beta in the paper, 0..8.
        evaporation: share of the pheromone lost an iteration, 0..1.

    Raises:
        InputError: an option out of range.

    Source: BF-IO App. A.1.1; Li, Xu, Zhao, Dong, Wang 2011. Numbers and the objective, imbalance, are our choice.
    """

    ants: int = 8
    iterations: int = 3
    trail: int = 1
    sight: int = 2
    evaporation: float = 0.5

    def __post_init__(self) -> None:
        for field in ("ants", "iterations"):
            if getattr(self, field) < 1:
                raise InputError("aco", field, getattr(self, field), "an integer >= 1")
        for field in ("trail", "sight"):
            if not 0 <= getattr(self, field) <= 8:
                raise InputError("aco", field, getattr(self, field), "an integer from 0 to 8")
        if not 0 <= self.evaporation <= 1:
            raise InputError("aco", "evaporation", self.evaporation, "a number from 0 to 1")

    def route(self, view: RoutingView) -> RoutingDecision:
        G, W = view.load.size, view.waiting_id.size
        U = min(W, int(view.free_slots.sum()))
        answer = np.full(W, HOLD, np.int64)
        draws = np.arange(self.iterations * self.ants * U, dtype=np.int64)
        chance = streams.uniform(view.seed, "aco", draws, view.decision)
        chance = chance.reshape(self.iterations, U, self.ants)
        pheromone = np.ones((U, G))
        best = (U + 1, np.inf)  # requests held, imbalance
        for iteration in range(self.iterations):
            worker, load = self._built(view, pheromone, chance[iteration])
            held = np.sum(worker == HOLD, axis=0)
            imbalance = _imbalance(view, load)
            for ant in range(self.ants):
                if (held[ant], imbalance[ant]) < best:
                    best = (int(held[ant]), float(imbalance[ant]))
                    answer[:U] = worker[:, ant]
            pheromone = np.maximum((1 - self.evaporation) * pheromone, LEAST)
            sent = np.flatnonzero(answer[:U] != HOLD)
            pheromone[sent, answer[sent]] += 1
        return RoutingDecision(answer)

    def _built(self, view: RoutingView, pheromone: F8, chance: F8) -> tuple[I8, F8]:
        """int64[U, ants] and float64[ants, G]: where each ant sends each request, and the loads that makes."""
        ants, each = np.arange(self.ants), (self.ants, 1)
        load = np.tile(view.load + view.queued_load, each)
        slots, kv_free = np.tile(view.free_slots, each), np.tile(view.kv_free, each)
        worker = np.full((pheromone.shape[0], self.ants), HOLD, np.int64)
        led = _power(pheromone, self.trail)
        for request, size in enumerate(view.waiting_load[: pheromone.shape[0]].tolist()):
            fits = (slots > 0) & (kv_free >= size)
            who = ants[fits.any(axis=1)]
            weight = fits * _power(1 / (load + (size + 1)), self.sight) * led[request]
            where = spin(weight[who], chance[request, who])
            worker[request, who] = where
            load[who, where] += size
            slots[who, where] -= 1
            kv_free[who, where] -= size
        return worker, load


def _imbalance(view: RoutingView, load: F8) -> F8:
    """float64[ants], workers times envelope less the loads, summed over groups."""
    imbalance = np.zeros(load.shape[0])
    for group in range(int(view.group.max()) + 1):
        members = load[:, view.group == group]
        if members.shape[1]:
            imbalance += members.shape[1] * members.max(axis=1) - np.cumsum(members, axis=1)[:, -1]
    return imbalance


def _power(x: F8, power: int) -> F8:
    """x to a whole power by multiplication: the same bits on every machine."""
    result = x if power else np.ones_like(x)
    for _ in range(power - 1):
        result = result * x
    return result


policy = ACO
