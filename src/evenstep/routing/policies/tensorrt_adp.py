"""TensorRT-LLM's balance for attention data parallelism: largest prompt first, to the rank with the fewest tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from evenstep.compiled import part
from evenstep.routing.filling import Room, count_requests, has_room, send_to, set_load, set_room
from evenstep.routing.rules import RequestFloats, RequestInts, Ruled, RuleView, WorkerFloats, WorkerInts, rule
from evenstep.routing.sorting import sort


@dataclass(frozen=True, slots=True)
class TensorRTADP(Ruled):
    """TensorRT-LLM's attention-data-parallel router: oldest requests taken, largest prompt first, to the lightest rank.

    As many of the oldest requests as there are slots are taken and sorted by tokens, largest first (ties: oldest). Each goes
    to the worker of smallest (tokens, requests, index) among those below the cap of requests, ``max(ceil((active + taken) /
    G), busiest worker)``, where active requests run or were sent. The engine has one number of slots for all ranks. Here,
    if no worker below the cap has a slot and memory for the request, the cap is ignored.

    It leaves out: ranks that a request asks for, waiting for more prompts to form an even batch, and the routers by cached
    prefix and by conversation. The engine weighs a rank by the prompt tokens of its requests alone. The view has their KV
    tokens, so their output counts here too, which favours this policy. Like our pool, the engine decides between two steps,
    for all requests that wait.

    Source: NVIDIA/TensorRT-LLM, tensorrt_llm/_torch/pyexecutor/scheduler/adp_router.py, DefaultADPRouter (commit 62b8daa,
    2026), and the oldest-first fetch of executor_request_queue.py there.
    """


class Work(NamedTuple):
    """Working space: the room (see `filling.Room`), requests and tokens of each worker, and the taken requests by size."""

    fleet: Room
    requests: WorkerInts
    tokens: WorkerFloats
    negated: RequestFloats  # sizes times -1, the key to sort by
    order: RequestInts  # the taken requests, largest first
    spare: RequestInts
    spare_negated: RequestFloats


@rule
def route(view: RuleView, options: TensorRTADP, work: Work) -> None:
    """Take the oldest requests, one for each slot; largest first, write the `lightest` worker for each to `work`."""
    taken = min(view.waiting_load.size, set_room(view, work.fleet))
    total = count_requests(view, work.requests)
    set_load(view, work.tokens)
    cap = -(-(total + taken) // view.load.size)
    for g in range(view.load.size):
        cap = max(cap, work.requests[g])
    for i in range(taken):
        work.order[i] = i
        work.negated[i] = -view.waiting_load[i]
    sort(work.negated[:taken], work.order[:taken], work.spare_negated[:taken], work.spare[:taken])
    for k in range(taken):
        i = int(work.order[k])
        best = lightest(view.waiting_load[i], cap, work)
        if best >= 0:
            send_to(i, best, view.waiting_load[i], work.fleet)
            work.tokens[best] += view.waiting_load[i]
            work.requests[best] += 1


@part
def lightest(size: float, cap: int, work: Work) -> int:
    """The worker with the fewest tokens, then requests, then index, with room for `size` tokens; -1 without one.

    Workers with at least `cap` requests are taken only if no other has room. Tokens and requests are those running or sent.
    """
    best, is_best_below = -1, False
    for g in range(work.tokens.size):
        is_below = work.requests[g] < cap
        if not has_room(g, size, work.fleet) or (is_best_below and not is_below):
            continue
        is_lighter = best >= 0 and (work.tokens[g], work.requests[g]) < (work.tokens[best], work.requests[best])
        if best < 0 or (is_below and not is_best_below) or is_lighter:
            best, is_best_below = g, is_below
    return best


policy = TensorRTADP
