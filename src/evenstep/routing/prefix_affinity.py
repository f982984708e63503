"""Prefix affinity: to the worker that has most of the prompt cached, while the fleet is balanced."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenstep.errors import InputError
from evenstep.request import F8, I8
from evenstep.routing.consistent_hash import Ring, check_ring
from evenstep.routing.filling import Filling
from evenstep.routing.view import RoutingDecision, RoutingView


@dataclass(frozen=True, slots=True)
class PrefixAffinity:
    """Oldest request first, among the workers that have room for it; the load is requests running and sent.

    * The fleet is unbalanced when the largest load exceeds the smallest by more than `balance_abs` requests and
      by more than the factor `balance_rel`: the request goes to the smallest load.
    * Otherwise it goes to the worker with most of its prompt cached, if that is more than the share `cached_share` of it;
      equal prefixes, and requests with less, go to the smallest load (then the lowest index).
    * Where nothing is known of caches the place of the prefix is taken by its key: `consistent-hash`.

    Args:
        cached_share: share of a prompt that must be cached for a worker to be chosen for it, 0..1.
        balance_abs: requests by which loads may differ, whatever the factor.
        balance_rel: factor by which loads may differ, >= 1.
        bound: as in `consistent-hash`, where caches are unknown.
        virtual_nodes: likewise.

    Raises:
        InputError: an option out of range.

    Source: the cache-aware policy of SGLang's router (its docs/router/router.md; same defaults). It sends a request
    with little cached to the smallest prefix tree, which no view shows: here, to the smallest load. It binds a request to
    a worker that is full; here a full worker is passed over.
    """

    #: The host fills `RoutingView.cached_tokens` for a policy that says so, when it keeps track of caches.
    reads_cached: ClassVar[bool] = True

    cached_share: float = 0.5
    balance_abs: int = 32
    balance_rel: float = 1.0001
    bound: float = 1.25
    virtual_nodes: int = 64

    def __post_init__(self) -> None:
        if not 0 <= self.cached_share <= 1:
            raise InputError("prefix-affinity", "cached_share", self.cached_share, "a share in 0..1")
        if self.balance_abs < 0:
            raise InputError("prefix-affinity", "balance_abs", self.balance_abs, "an integer >= 0")
        if not 1 <= self.balance_rel < math.inf:
            raise InputError("prefix-affinity", "balance_rel", self.balance_rel, "a finite number >= 1")
        check_ring("prefix-affinity", self.bound, self.virtual_nodes)

    def route(self, view: RoutingView) -> RoutingDecision:
        filling = Filling(view)
        known = view.cached_tokens.size > 0
        ring = Ring(view, self.bound, self.virtual_nodes)
        for request in range(view.waiting_id.size):
            workers = filling.open_to(request)
            if workers.size:
                if self._is_unbalanced(ring.count):
                    worker = _least(workers, ring.count)
                elif known:
                    worker = self._nearest(view, request, workers, ring.count)
                else:
                    worker = ring.nearest(request, workers)
                filling.send(request, worker)
                ring.count[worker] += 1
            elif filling.full:
                break
        return filling.decision()

    def _is_unbalanced(self, count: I8) -> bool:
        low, high = int(count.min()), int(count.max())
        return high - low > self.balance_abs and high > self.balance_rel * low

    def _nearest(self, view: RoutingView, request: int, workers: I8, count: I8) -> int:
        cached: F8 = view.cached_tokens[request, workers]
        if cached.max() > self.cached_share * view.waiting_load[request]:
            workers = workers[cached == cached.max()]
        return _least(workers, count)


def _least(workers: I8, count: I8) -> int:
    return int(workers[np.argmin(count[workers])])


policy = PrefixAffinity
