"""OLB + LBMM: opportunistic load balancing selects the requests, load-balanced min-min their workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from evenstep.compiled import ReadFloats, part
from evenstep.routing.capability import list_capabilities
from evenstep.routing.completion_time import ByLength, set_lengths
from evenstep.routing.filling import Room, count_overdue, count_requests, has_room, send_to, set_load, set_room
from evenstep.routing.rules import RequestFloats, RequestInts, RuleView, WorkerFloats, WorkerInts, rule
from evenstep.routing.sorting import sort


@dataclass(frozen=True, slots=True)
class OlbLbmm(ByLength):
    """Picks requests as if for the workers with fewest requests (OLB), then places them by earliest completion (LBMM).

    * OLB: the oldest requests are admitted, each to the worker with the fewest requests. This only picks the requests.
    * LBMM: the admitted requests are placed anew by min-min, if they find room: the shortest first, to the worker of
      earliest completion. Then the worker that is ready last gives up the shortest request it got in this decision. That
      request moves to the worker with room that completes it first. This repeats while the request completes there before
      the last worker was ready, at most once for each placed request.

    Ready time is load times ``seconds_per_token``; a placed request adds its length to the load.

    Args:
        age_limit: multiple of the mean wait after which a request is overdue; 0 = off. Overdue requests are placed first, in
            at most a quarter of the free slots (but at least one). The longest may otherwise find KV memory full again and
            again.

    Source: BF-IO App. A.1.1, after Wang et al. 2010 and Kokilavani and Amalarethinam 2011. Left out, as the paper says
    decoding forbids it: splitting requests, and moving those that started.
    """

    where: ClassVar[str] = "olb-lbmm"


class Work(NamedTuple):
    """Working space: the room (see `filling.Room`), loads and capability of each worker, and the admitted requests."""

    fleet: Room
    requests: WorkerInts
    ready: WorkerFloats  # KV tokens; divided by `speed` it is the ready time
    speed: WorkerFloats  # relative to the fastest worker
    length: RequestFloats  # of each request of the pool
    key: RequestFloats  # to sort `order` by
    order: RequestInts  # the admitted requests
    spare: RequestInts
    spare_key: RequestFloats


@rule
def route(view: RuleView, options: Any, work: Work) -> None:
    """Admit the requests that find room, oldest first; place each where it completes first; then balance.

    Overdue requests are placed first, then the shortest. Balancing moves requests of this decision off the worker that is
    ready last. The answer is `work.fleet.worker`.
    """
    admitted = admit(view, work)
    set_lengths(view, options.length_predicted, work.length)
    list_capabilities(view, work.speed[:0], work.speed)
    set_load(view, work.ready)
    late = count_overdue(view, options.age_limit)
    for k in range(admitted):
        work.key[k] = -1.0 if work.order[k] < late else work.length[work.order[k]]  # overdue requests are placed first
    sort(work.key[:admitted], work.order[:admitted], work.spare_key[:admitted], work.spare[:admitted])
    set_room(view, work.fleet)
    sent = 0
    for k in range(admitted):
        i = int(work.order[k])
        best = first_ready(i, -1, view.waiting_load, work)
        if best >= 0:
            send_to(i, best, view.waiting_load[i], work.fleet)
            work.ready[best] += work.length[i]
            sent += 1
    for _ in range(sent):
        if not move_from_last(view, work):
            break


@part
def admit(view: RuleView, work: Work) -> int:
    """List the requests to admit in `work.order`: oldest first, those that find room in turn; returns their number.

    Each takes room on the worker with fewest requests where it fits. The answer is not written. The room in `work.fleet` is
    used up: call `set_room` again.
    """
    left, count = set_room(view, work.fleet), 0
    count_requests(view, work.requests)
    for i in range(view.waiting_load.size):
        if left == 0:
            break
        size, best = view.waiting_load[i], -1
        for g in range(view.load.size):
            if has_room(g, size, work.fleet) and (best < 0 or work.requests[g] < work.requests[best]):
                best = g
        if best >= 0:
            work.fleet.free_slots[best] -= 1
            work.fleet.kv_free[best] -= size
            work.requests[best] += 1
            left -= 1
            work.order[count] = i
            count += 1
    return count


@part
def first_ready(i: int, other_than: int, size: ReadFloats, work: Work) -> int:
    """The worker on which request i completes first (ties: lowest index), among those with room for it; -1 without one.

    Args:
        other_than: a worker that is left out; -1 = no worker is.
        size: float64[W], KV tokens of each request.
    """
    best, earliest = -1, np.inf
    for g in range(work.ready.size):
        done = (work.ready[g] + work.length[i]) / work.speed[g]
        if g != other_than and has_room(g, size[i], work.fleet) and (best < 0 or done < earliest):
            best, earliest = g, done
    return best


@part
def move_from_last(view: RuleView, work: Work) -> bool:
    """Move the shortest request of this decision off the worker that is ready last, if it completes earlier elsewhere.

    Returns True if a request was moved.
    """
    last = 0
    for g in range(work.ready.size):
        if work.ready[g] / work.speed[g] > work.ready[last] / work.speed[last]:
            last = g
    i = -1
    for k in range(work.fleet.worker.size):
        if work.fleet.worker[k] == last and (i < 0 or work.length[k] < work.length[i]):
            i = k
    if i < 0:
        return False
    to = first_ready(i, last, view.waiting_load, work)
    if to < 0 or (work.ready[to] + work.length[i]) / work.speed[to] >= work.ready[last] / work.speed[last]:
        return False
    work.fleet.free_slots[last] += 1
    work.fleet.kv_free[last] += view.waiting_load[i]
    send_to(i, to, view.waiting_load[i], work.fleet)
    work.ready[last] -= work.length[i]
    work.ready[to] += work.length[i]
    return True


policy = OlbLbmm
