"""vLLM's internal load balancer between data-parallel engines: a score of counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from evenstep.request import F8
from evenstep.routing.filling import Filling
from evenstep.routing.view import RoutingDecision, RoutingView


@dataclass(frozen=True, slots=True)
class VLLM:
    """vLLM's choice of a data-parallel engine: the oldest request goes to the engine of smallest score.

    Waiting are the requests sent and not yet decoding; what this decision sends counts as waiting until the next.

    Args:
        score: ``current`` = waiting + running, and where something waits ``6 * waiting * max(0, usage - 0.5)`` more,
            usage = share of the engine's KV memory in use; ties go round, each request starts the search one engine
            further. ``waiting-4`` = 4 * waiting + running, ties to the lowest index: the form of older versions.

    It leaves out: counts that are up to 100 ms old between broadcasts, several API servers that see each other's
    requests late, and requests that name their rank. vLLM dispatches each request on arrival, whether the engine has a
    slot or not; here a pool waits for slots and is taken oldest first.

    Source: vllm-project/vllm 0.32.0, vllm/v1/engine/core_client.py, DPLBAsyncMPClient.get_core_engine_for_request;
    ``waiting-4``: the same function of 0.10.2.
    """

    score: Literal["current", "waiting-4"] = "current"

    @property
    def memory_size(self) -> int:
        """One word: the engine at which the next search starts."""
        return 1

    def route(self, view: RoutingView) -> RoutingDecision:
        filling = Filling(view)
        G = view.load.size
        waiting, running = view.queued.astype(np.float64), view.running.astype(np.float64)
        weight = _waiting_weight(view) if self.score == "current" else np.full(G, 3.0)
        start = int(view.memory[0]) % G
        for request in range(view.waiting_id.size):
            workers = filling.open_to(request)
            if workers.size:
                score = (waiting + running + weight * waiting)[workers]
                tied = workers[score == score.min()]
                later = tied[tied >= start]
                best = int(later[0] if later.size else tied[0])
                filling.send(request, best)
                waiting[best] += 1
                if self.score == "current":
                    start = (start + 1) % G
            elif filling.full:
                break
        return RoutingDecision(filling.worker, memory=np.array([start], np.int64))


def _waiting_weight(view: RoutingView) -> F8:
    """float64[G], what a waiting request costs more than a running one: nothing up to half the KV memory in use."""
    usage = np.zeros(view.load.size)
    limited = np.isfinite(view.kv_free)
    capacity = (view.load + view.queued_load + view.kv_free)[limited]
    usage[limited] = np.where(capacity > 0, view.load[limited] / np.maximum(capacity, 1.0), 1.0)
    return 6.0 * np.maximum(0.0, usage - 0.5)


policy = VLLM
