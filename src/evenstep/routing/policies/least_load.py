"""Least load: the oldest request goes to the worker with the fewest KV tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenstep.compiled import part
from evenstep.routing.filling import Room, send_to
from evenstep.routing.rules import Ruled, RuleView, WorkerFloats, WorkerInts, rule


@dataclass(frozen=True, slots=True)
class LeastLoad(Ruled):
    """The oldest request goes to the worker with the fewest KV tokens (ties: lowest index): JSQ by tokens, not requests.

    The load counts requests that run, were sent, or are sent by this decision. Workers without a slot or memory for the
    request are left out; a request that fits nowhere is held.
    """


class Work(NamedTuple):
    """Working space: the room (see `filling.Room`), and the workers that still have a slot, in index order."""

    fleet: Room
    open: WorkerInts  # the worker at each place of the list
    load: WorkerFloats  # KV tokens of the worker at each place, those that this decision sends included


@rule
def route(view: RuleView, options: LeastLoad, work: Work) -> None:
    """Write each request's worker to `work`, oldest first: the lightest one with room; `HOLD` if none has room."""
    count, is_limited = 0, False
    for g in range(view.load.size):
        work.fleet.free_slots[g] = view.free_slots[g]
        work.fleet.kv_free[g] = view.kv_free[g]
        is_limited |= view.kv_free[g] < np.inf
        work.open[count], work.load[count] = g, view.load[g] + view.queued_load[g]
        count += view.free_slots[g] > 0
    for i in range(view.waiting_load.size):
        if count == 0:
            break
        best = lightest_that_fits(view.waiting_load[i], count, work) if is_limited else lightest(count, work)
        if best >= 0:
            g = work.open[best]
            send_to(i, g, view.waiting_load[i], work.fleet)
            work.load[best] += view.waiting_load[i]
            if work.fleet.free_slots[g] == 0:
                count -= 1
                for j in range(best, count):
                    work.open[j], work.load[j] = work.open[j + 1], work.load[j + 1]


@part
def lightest(count: int, work: Work) -> int:
    """The place of the worker with the smallest load in the list of `count` >= 1 open workers, the first of equal ones."""
    best, least = 0, work.load[0]
    for j in range(1, count):
        load = work.load[j]
        best = j if load < least else best
        least = min(load, least)
    return best


@part
def lightest_that_fits(size: float, count: int, work: Work) -> int:
    """The first place of smallest load among the `count` open workers with memory for `size` tokens; -1 without one."""
    best, least = -1, np.inf
    for j in range(count):
        if work.fleet.kv_free[work.open[j]] >= size and work.load[j] < least:
            best, least = j, work.load[j]
    return best


policy = LeastLoad
