"""Least load: the oldest request goes to the worker with the fewest KV tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenstep.compiled import part
from evenstep.routing.filling import Open, list_open, send, take_out
from evenstep.routing.rules import Ruled, RuleView, WorkerFloats, rule


@dataclass(frozen=True, slots=True)
class LeastLoad(Ruled):
    """The oldest request goes to the worker with the fewest KV tokens (ties: lowest index): JSQ by tokens, not requests.

    The load counts requests that run, were sent, or are sent by this decision. Workers without a slot or memory for the
    request are left out; a request that fits nowhere is held.
    """


class Work(NamedTuple):
    """Working space: the open workers (see `filling.Open`), and their KV tokens, with those that this decision sends."""

    fleet: Open
    load: WorkerFloats  # by a worker's place in the list


@rule
def route(view: RuleView, options: LeastLoad, work: Work) -> None:
    """Write each request's worker to `work`, oldest first: the lightest one with room; `HOLD` if none has room."""
    count = list_open(view, work.fleet)
    for j in range(count):
        g = work.fleet.open[j]
        work.load[j] = view.load[g] + view.queued_load[g]
    for i in range(view.waiting_load.size):
        if count == 0:
            break
        size = view.waiting_load[i]
        best = lightest_that_fits(size, count, work)
        if best >= 0:
            work.load[best] += size
            if work.fleet.slots[best] == 1:
                take_out(best, count, work.load)
            count = send(i, best, size, count, work.fleet)


@part
def lightest_that_fits(size: float, count: int, work: Work) -> int:
    """The first place of smallest load among the `count` open workers with memory for `size` tokens; -1 without one."""
    best, least = -1, np.inf
    for j in range(count):
        if work.fleet.kv[j] >= size and work.load[j] < least:
            best, least = j, work.load[j]
    return best


policy = LeastLoad
