"""Carton: requests go to the workers in turn, within limits that are lower for slower workers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from evenstep.compiled import part
from evenstep.errors import check_range
from evenstep.routing.filling import Room, has_room, send_to, set_room
from evenstep.routing.rules import Ruled, RuleView, WorkerFloats, WorkerInts, rule

#: Rates are no higher, so that their sum is finite with any gain.
MOST_RATE = 1e15


@dataclass(frozen=True, slots=True)
class Carton(Ruled):
    """Carton: workers get requests in turn, within limits that are lower for slower workers.

    A worker's performance is its own step time, ``seconds_per_token * KV tokens``, queued requests included. Its rate is
    ``max(0, 1 + gain * (mean - own) / mean)``, 1 if the mean is 0. Its limit in this decision is its share, by rate, of the
    requests that can be sent, rounded up. Requests go oldest first to the next worker in turn that has room and is below its
    limit. If there is no such worker, limits are ignored. The turn is remembered between decisions.

    Kept for comparison: BF-IO App. A.1.1 says that it does not fit a decode step. Measured rates say little of the work to
    come, and a request sent stays where it is.

    Args:
        gain: how strongly a worker slower than the mean is limited, >= 0; 0 = equal limits.

    Raises:
        InputError: a negative or non-finite gain.

    Source: BF-IO App. A.1.1; Stanojevic, Shorten 2009 (load balancing and distributed rate limiting as one control loop).
    Neither gives formulas for slots: rate and limit are our reading.
    """

    memory_size: ClassVar[int] = 1  #: one word: the worker whose turn it is

    gain: float = 1.0

    def __post_init__(self) -> None:
        check_range("carton", "a finite number >= 0", low=0, finite=True, gain=self.gain)


class Work(NamedTuple):
    """Working space: the room (see `filling.Room`); for each worker step seconds, rate, and requests left to its limit."""

    fleet: Room
    seconds: WorkerFloats
    rate: WorkerFloats
    limit: WorkerInts


@rule
def route(view: RuleView, options: Carton, work: Work) -> None:
    """Write each request's worker to `work`, oldest first: in turn, above the limits if need be; `HOLD` if none has room."""
    left = set_room(view, work.fleet)
    set_limits(min(view.waiting_load.size, left), view, options.gain, work)
    for i in range(view.waiting_load.size):
        if left == 0:
            break
        best = next_below_limit(view.waiting_load[i], work)
        if best >= 0:
            send_to(i, best, view.waiting_load[i], work.fleet)
            left -= 1
            work.limit[best] -= 1
            work.fleet.memory[0] = best + 1


@part
def next_below_limit(size: float, work: Work) -> int:
    """The next worker in turn, from `work.fleet.memory[0]` on, with room for `size` tokens; -1 without one.

    A worker at its limit is taken only if no worker below its limit has room.
    """
    best, rank = -1, 4
    for g in range(work.limit.size):
        if has_room(g, size, work.fleet):
            above = 0 if work.limit[g] > 0 else 2
            mine = above + (0 if g >= work.fleet.memory[0] else 1)
            if mine < rank:
                best, rank = g, mine
    return best


@part
def set_limits(sent: int, view: RuleView, gain: float, work: Work) -> None:
    """Write the limit of each worker to `work.limit`: its share, by rate, of the `sent` requests, rounded up."""
    total, rates = 0.0, 0.0
    for g in range(view.load.size):
        work.seconds[g] = view.seconds_per_token[g] * (view.load[g] + view.queued_load[g])
        total += work.seconds[g]
    mean = total / view.load.size
    for g in range(view.load.size):
        work.rate[g] = 1.0
        if mean > 0.0:
            rate = 1 + gain * (mean - work.seconds[g]) / mean  # at least 1 for the fastest
            work.rate[g] = min(max(0.0, rate), MOST_RATE)
        rates += work.rate[g]
    for g in range(view.load.size):
        work.limit[g] = math.ceil(sent * work.rate[g] / rates)


policy = Carton
