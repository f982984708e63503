"""SGLang's data-parallel controller: fewest requests, or fewest tokens, with a charge for what was just sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from evenstep.routing.filling import Room, count_requests, has_room, send_to, set_load, set_room
from evenstep.routing.rules import Ruled, RuleView, WorkerFloats, WorkerInts, rule


@dataclass(frozen=True, slots=True)
class SGLang(Ruled):
    """SGLang's choice of a data-parallel rank: the oldest request goes to the rank with fewest requests or tokens.

    Requests and tokens count what runs and what was sent. Each dispatch charges the rank one request and the prompt's tokens
    at once, so that a burst between two reports spreads. Ties go to the lowest index.

    Args:
        score: ``total-requests``, or ``total-tokens``, where equal tokens go to the fewest requests.

    It leaves out reports of the ranks that are older than the decision, ranks that are down, and ranks that a request asks
    for. It also leaves out the methods round-robin (`round-robin` here) and by bootstrap room. As reports are always fresh
    here, ``total-requests`` is JSQ with lowest ties, and ``total-tokens`` is least load, except for ties. SGLang dispatches
    each request on arrival, whether the rank has a slot or not. Here a pool waits for slots, and the oldest goes first.

    Source: sgl-project/sglang 0.5.23, python/sglang/srt/managers/data_parallel_controller.py, DPBudget.
    """

    score: Literal["total-requests", "total-tokens"] = "total-requests"


class Work(NamedTuple):
    """Working space: the room (see `filling.Room`), requests and KV tokens of each worker, those sent here included."""

    fleet: Room
    requests: WorkerInts
    tokens: WorkerFloats


@rule
def route(view: RuleView, options: Any, work: Work) -> None:
    """Send each request, oldest first, to the worker with room that has the smallest score; hold it if none has room."""
    left = set_room(view, work.fleet)
    count_requests(view, work.requests)
    set_load(view, work.tokens)
    for i in range(view.waiting_load.size):
        if left == 0:
            break
        size, best = view.waiting_load[i], -1
        for g in range(view.load.size):
            if not has_room(g, size, work.fleet):
                continue
            if best < 0 or (options.score_total_tokens and work.tokens[g] < work.tokens[best]):
                best = g
            elif options.score_total_requests or work.tokens[g] == work.tokens[best]:
                best = g if work.requests[g] < work.requests[best] else best
        if best >= 0:
            send_to(i, best, size, work.fleet)
            left -= 1
            work.requests[best] += 1
            work.tokens[best] += size


policy = SGLang
