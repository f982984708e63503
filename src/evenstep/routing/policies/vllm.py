"""vLLM's internal load balancer between data-parallel engines: the smallest score of request counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from evenstep.compiled import part
from evenstep.routing.filling import Room, has_room, send_to, set_room
from evenstep.routing.rules import Ruled, RuleView, WorkerFloats, rule


@dataclass(frozen=True, slots=True)
class VLLM(Ruled):
    """vLLM's choice of a data-parallel engine: the oldest request goes to the one with the smallest score of request counts.

    In a score, `waiting` counts the requests sent to the engine that do not decode yet, also those sent by this decision.
    Engines without room are left out.

    Args:
        score: ``current`` = waiting + running + ``6 * waiting * max(0, usage - 0.5)``, usage = share of its KV memory that
            running requests hold, 0 without limit. Ties go round: each request sent moves the start of the search one engine
            on. ``waiting-4`` = 4 * waiting + running, ties to the lowest index: the form of older versions.

    Left out: counts that are up to 100 ms old between broadcasts, several API servers that see each other's requests late,
    and requests that name their rank. vLLM dispatches each request on arrival, even to an engine without a free slot. Here
    requests wait in a pool for slots, and the oldest goes first.

    Source: vllm-project/vllm 0.32.0, vllm/v1/engine/core_client.py, DPLBAsyncMPClient.get_core_engine_for_request;
    ``waiting-4``: the same function of 0.10.2.
    """

    memory_size: ClassVar[int] = 1  #: one word: the engine at which the next search starts

    score: Literal["current", "waiting-4"] = "current"


class Work(NamedTuple):
    """Working space: the room (see `filling.Room`); each worker's waiting requests, and their extra weight in its score."""

    fleet: Room
    waiting: WorkerFloats
    weight: WorkerFloats  # in addition to 1: `waiting_weight`, or 3 with the score ``waiting-4``


@rule
def route(view: RuleView, options: Any, work: Work) -> None:
    """Write each request's worker to `work`, oldest first: the one of smallest score with room; `HOLD` if none has room."""
    G, left = view.load.size, set_room(view, work.fleet)
    for g in range(G):
        work.waiting[g] = view.queued[g]
        work.weight[g] = waiting_weight(g, view) if options.score_current else 3.0
    work.fleet.memory[0] %= G
    for i in range(view.waiting_load.size):
        if left == 0:
            break
        best = smallest_score(work.fleet.memory[0], view.waiting_load[i], view, work)
        if best >= 0:
            send_to(i, best, view.waiting_load[i], work.fleet)
            left -= 1
            work.waiting[best] += 1.0
            if options.score_current:
                work.fleet.memory[0] = (work.fleet.memory[0] + 1) % G


@part
def waiting_weight(g: int, view: RuleView) -> float:
    """What worker g's score adds to the 1 of each waiting request: 0 up to half the KV memory held, or without limit."""
    usage = 0.0
    if view.kv_free[g] < np.inf:
        capacity = view.load[g] + view.queued_load[g] + view.kv_free[g]
        usage = view.load[g] / max(capacity, 1.0) if capacity > 0.0 else 1.0
    return 6.0 * max(0.0, usage - 0.5)


@part
def smallest_score(start: int, size: float, view: RuleView, work: Work) -> int:
    """The worker of smallest score with room for `size` tokens, the first of equal ones from `start` on; -1 without one."""
    best, least, G = -1, np.inf, work.weight.size
    for k in range(G):
        g = start + k - (G if start + k >= G else 0)
        score = work.waiting[g] + view.running[g] + work.weight[g] * work.waiting[g]
        if has_room(g, size, work.fleet) and (best < 0 or score < least):
            best, least = g, score
    return best


policy = VLLM
