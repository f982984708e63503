"""Consistent hashing with bounded loads: requests of one key meet on one worker, unless it is too busy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from evenstep import streams
from evenstep.errors import InputError
from evenstep.request import F8, I8
from evenstep.routing.filling import Filling
from evenstep.routing.view import RoutingDecision, RoutingView

MOST_NODES = 1024


@dataclass(frozen=True, slots=True)
class ConsistentHash:
    """The oldest request goes to the first worker clockwise of its key that is below its bound and has room for it.

    Every worker stands at `virtual_nodes` places of a ring, a request at the place of its key (its session, else its
    prompt key, else its id). A worker may have `bound` times its share of all requests on workers, the new one
    included, rounded up. Where nobody below the bound has room, the bound is not asked.

    Args:
        bound: how much above its share of requests a worker may get, >= 1; near 1 is balance, large is affinity.
        virtual_nodes: places of each worker, 1..1024; more of them make the shares of the ring more even.

    Raises:
        InputError: a bound below 1, or virtual nodes out of range.

    Source: Karger et al. 1997; bounded loads: Mirrokni, Thorup and Zadimoghaddam 2018. Places are keyed by the seed, so
    that routers of one seed agree. Sessions of differing weight are all alike here.
    """

    bound: float = 1.25
    virtual_nodes: int = 64

    def __post_init__(self) -> None:
        check_ring("consistent-hash", self.bound, self.virtual_nodes)

    def route(self, view: RoutingView) -> RoutingDecision:
        filling = Filling(view)
        ring = Ring(view, self.bound, self.virtual_nodes)
        for request in range(view.waiting_id.size):
            workers = filling.open_to(request)
            if workers.size:
                worker = ring.nearest(request, workers)
                filling.send(request, worker)
                ring.count[worker] += 1
            elif filling.full:
                break
        return filling.decision()


class Ring:
    """The ring during one decision; who sends a request counts it in `count`, the requests on each worker."""

    def __init__(self, view: RoutingView, bound: float, virtual_nodes: int) -> None:
        self.nodes = nodes(view.seed, view.load.size, virtual_nodes)
        self.places: F8 = streams.uniform(view.seed, "consistent-hash-key", view.waiting_key)
        self.bound = bound
        self.count: I8 = view.running + view.queued

    def nearest(self, request: int, workers: I8) -> int:
        """The worker for a request among those with room."""
        most = math.ceil(self.bound * (int(self.count.sum()) + 1) / self.count.size)
        below = workers[self.count[workers] < most]
        open_to = below if below.size else workers
        ahead = self.nodes[open_to] - self.places[request]
        clockwise = np.where(ahead < 0, ahead + 1.0, ahead).min(axis=1)
        return int(open_to[np.argmin(clockwise)])


@lru_cache(maxsize=16)
def nodes(seed: int, workers: int, virtual_nodes: int) -> F8:
    """float64[G, V] in [0, 1), read-only: places of the workers on the ring."""
    each = [
        streams.uniform(seed, "consistent-hash", np.arange(workers), draw) for draw in range(virtual_nodes)
    ]
    found = np.stack(each, axis=1)
    found.flags.writeable = False
    return found


def check_ring(where: str, bound: float, virtual_nodes: int) -> None:
    """Check the options of a ring.

    Raises:
        InputError: a bound below 1, or virtual nodes out of range.
    """
    if not 1 <= bound < math.inf:
        raise InputError(where, "bound", bound, "a finite number >= 1")
    if not 1 <= virtual_nodes <= MOST_NODES:
        raise InputError(where, "virtual_nodes", virtual_nodes, f"an integer in 1..{MOST_NODES}")


policy = ConsistentHash
