"""Carton: requests are spread in turn, and each worker's own limit evens out how the workers perform."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from evenstep.errors import InputError
from evenstep.request import I8
from evenstep.routing.filling import Filling
from evenstep.routing.view import RoutingDecision, RoutingView


@dataclass(frozen=True, slots=True)
class Carton:
    """Carton: load balancing in turn under distributed rate limits that follow each worker's measured performance.

    A worker's performance is its own step time, ``seconds_per_token * KV tokens``. Its rate is
    ``max(0, 1 + gain * (mean - own) / mean)``, its limit in this decision its share of the U requests that can be sent,
    rounded up. Requests go oldest first to the next worker in turn that has room and is below its limit; when no
    worker is, limits are lifted, so that no slot is left empty.

    Kept for comparison: BF-IO App. A.1.1 says that it does not fit a decode step, as rates measured say little of the
    work to come and a request sent stays where it is.

    Args:
        gain: how strongly a worker slower than the mean is limited, >= 0; 0 = equal limits.

    Raises:
        InputError: a negative or non-finite gain.

    Source: BF-IO App. A.1.1; Stanojevic, Shorten 2009 (load balancing and distributed rate limiting as one control
    loop). Neither gives formulas for slots: rate and limit are our reading.
    """

    gain: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.gain < math.inf:
            raise InputError("carton", "gain", self.gain, "a finite number >= 0")

    @property
    def memory_size(self) -> int:
        """One word: the worker whose turn it is."""
        return 1

    def route(self, view: RoutingView) -> RoutingDecision:
        filling = Filling(view)
        limit, turn = self._limits(view), int(view.memory[0])
        for request in range(view.waiting_id.size):
            workers = filling.open_to(request)
            if workers.size:
                below = workers[limit[workers] > 0]
                workers = below if below.size else workers
                later = workers[workers >= turn]
                worker = int(later[0] if later.size else workers[0])
                filling.send(request, worker)
                limit[worker] -= 1
                turn = worker + 1
            elif filling.full:
                break
        return RoutingDecision(filling.worker, memory=np.array([turn], np.int64))

    def _limits(self, view: RoutingView) -> I8:
        """int64[G], requests each worker lets in."""
        seconds = view.seconds_per_token * (view.load + view.queued_load)
        mean = np.cumsum(seconds)[-1] / seconds.size
        rate = np.ones(seconds.size)
        if mean > 0:
            rate = np.maximum(0.0, 1 + self.gain * (mean - seconds) / mean)  # the fastest has rate 1 at least
        sent = min(view.waiting_id.size, int(view.free_slots.sum()))
        return np.ceil(sent * rate / np.cumsum(rate)[-1]).astype(np.int64)


policy = Carton
