"""OLB + LBMM: who is admitted by opportunistic load balancing, and where by load-balanced min-min."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from evenstep.request import F8
from evenstep.routing.capability import capabilities
from evenstep.routing.completion_time import lengths
from evenstep.routing.filling import Filling, check_age_limit, overdue
from evenstep.routing.view import HOLD, RoutingDecision, RoutingView


@dataclass(frozen=True, slots=True)
class OlbLbmm:
    """Two phases, one decision.

    * OLB: the oldest requests are admitted, each to the worker with the fewest requests. That says who is admitted.
    * LBMM: the admitted requests are placed anew by min-min: the shortest first, to the worker of earliest completion.
      Then, while the worker that is ready last got a request now, its shortest one moves to the worker of earliest
      completion that has room, if it completes there before the last worker was ready.

    Ready time is load over speed (``seconds_per_token``); a placed request adds its length.

    Args:
        length: processing time of a request: its ``prompt`` (load at admission), or its ``predicted`` total length,
            prompt and expected output (the prompt alone where nothing is expected).
        age_limit: multiple of the mean wait after which a request is overdue: overdue requests are placed first, for
            the longest of the admitted may find KV memory full time and again; 0 = off.

    Raises:
        InputError: a negative or non-finite `age_limit`.

    Source: BF-IO App. A.1.1, after Wang et al. 2010 and Kokilavani and Amalarethinam 2011. Left out, as the paper says
    decoding forbids it: splitting requests, and moving those that started.
    """

    length: Literal["prompt", "predicted"] = "prompt"
    age_limit: float = 60.0

    def __post_init__(self) -> None:
        check_age_limit("olb-lbmm", self.age_limit)

    def route(self, view: RoutingView) -> RoutingDecision:
        admitted = _opportunistic(view)
        size, speed = lengths(view, self.length == "predicted"), capabilities(view, ())
        late = overdue(view, self.age_limit)
        order = sorted(admitted, key=lambda i: (i >= late, 0.0 if i < late else size[i], i))
        filling = Filling(view)
        ready = view.load + view.queued_load
        for request in order:
            workers = filling.open_to(request)
            if workers.size:
                first = int(workers[np.argmin((ready[workers] + size[request]) / speed[workers])])
                filling.send(request, first)
                ready[first] += size[request]
        _balance(filling, ready, size, speed)
        return filling.decision()


def _opportunistic(view: RoutingView) -> list[int]:
    """Phase one: rows of the admitted requests, oldest first."""
    filling = Filling(view)
    count = view.running + view.queued
    for request in range(view.waiting_id.size):
        workers = filling.open_to(request)
        if workers.size:
            idlest = int(workers[np.argmin(count[workers])])
            filling.send(request, idlest)
            count[idlest] += 1
        elif filling.full:
            break
    return np.flatnonzero(filling.worker != HOLD).tolist()


def _balance(filling: Filling, ready: F8, size: F8, speed: F8) -> None:
    """The load-balancing step: at most one move for each request sent."""
    for _ in range(int((filling.worker != HOLD).sum())):
        last = int(np.argmax(ready / speed))
        sent = np.flatnonzero(filling.worker == last)
        if sent.size == 0:
            return
        request = int(sent[np.argmin(size[sent])])
        workers = filling.open_to(request)
        workers = workers[workers != last]
        if workers.size == 0:
            return
        done = (ready[workers] + size[request]) / speed[workers]
        if done.min() >= ready[last] / speed[last]:
            return
        first = int(workers[np.argmin(done)])
        filling.move(request, first)
        ready[last] -= size[request]
        ready[first] += size[request]


policy = OlbLbmm
