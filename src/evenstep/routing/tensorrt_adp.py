"""TensorRT-LLM's balance for attention data parallelism: largest prompt first, to the rank with the fewest tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenstep.request import I8
from evenstep.routing.filling import Filling
from evenstep.routing.view import RoutingDecision, RoutingView


@dataclass(frozen=True, slots=True)
class TensorRTADP:
    """TensorRT-LLM's attention-data-parallel router: oldest requests taken, largest prompt first, to the lightest rank.

    As many of the oldest requests as there are slots are taken and sorted by tokens, largest first (ties: oldest). Each
    goes to the worker of smallest (tokens, requests, index) among those below the cap of requests,
    ``max(ceil((active + taken) / G), busiest worker)``, where active requests run or were sent. The engine has one
    number of slots for all ranks; where slots differ here and every worker below the cap is full, the cap is lifted.

    It leaves out: ranks that a request asks for, waiting for more prompts to form an even batch, and the routers by
    cached prefix and by conversation. The engine weighs a rank by the prompt tokens of its requests alone; the view has
    their KV tokens, so what they produced counts here too, in its favour. It is one of two peers that see a pool as we
    do: the engine decides between two steps, for all that waits.

    Source: NVIDIA/TensorRT-LLM, tensorrt_llm/_torch/pyexecutor/scheduler/adp_router.py, DefaultADPRouter (commit
    62b8daa, 2026), and the oldest-first fetch of executor_request_queue.py there.
    """

    def route(self, view: RoutingView) -> RoutingDecision:
        filling = Filling(view)
        tokens = view.load + view.queued_load
        requests = view.running + view.queued
        taken = min(view.waiting_id.size, int(view.free_slots.sum()))
        cap = max(-(-(int(requests.sum()) + taken) // requests.size), int(requests.max()))
        for request in np.argsort(-view.waiting_load[:taken], kind="stable").tolist():
            workers = _below(cap, requests, filling.open_to(request))
            if workers.size:
                best = min(workers.tolist(), key=lambda g: (tokens[g], requests[g], g))
                filling.send(request, best)
                tokens[best] += view.waiting_load[request]
                requests[best] += 1
        return filling.decision()


def _below(cap: int, requests: I8, workers: I8) -> I8:
    """The workers with fewer requests than the cap; all of them where there is none."""
    below = workers[requests[workers] < cap]
    return below if below.size else workers


policy = TensorRTADP
