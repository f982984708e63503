"""Throttled: each request goes to the first worker below a threshold of concurrent requests."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from evenstep.compiled import part
from evenstep.config.number import Numbers
from evenstep.errors import check_range_if_given
from evenstep.routing.capability import check_capabilities, list_capabilities
from evenstep.routing.filling import Open, list_open, send
from evenstep.routing.rules import Ruled, RuleView, WorkerFloats, rule

#: Highest threshold that is told from others: no worker has so many requests.
MOST = 1e15


@dataclass(frozen=True, slots=True)
class Throttled(Ruled):
    """The oldest request goes to the first worker, by index, that is below its threshold and has a slot and memory for it.

    A request waits while every worker is at its threshold, even where slots are free. A worker's threshold is `threshold`
    times its capability over the largest capability, rounded, at least 1; it counts requests running and sent.

    Args:
        threshold: requests at a time on the most capable worker; None = each worker's slots replace `threshold`.
        capability: what each worker can do, e.g. ``1/1/0.5``, repeated over the fleet; empty = by speed.

    Raises:
        InputError: a threshold below 1, or an invalid capability (see `check_capabilities`).

    Source: BF-IO App. A.1.1 (TLB). The paper's capability is a vector. We keep one number of it, since the host limits slots
    and KV memory. The requirement of a request is its prompt, the only part known at admission.
    """

    threshold: int | None = None
    capability: Numbers = ()

    def __post_init__(self) -> None:
        check_range_if_given("throttled", "an integer >= 1", low=1, threshold=self.threshold)
        stated = check_capabilities("throttled", "capability", self.capability)
        object.__setattr__(self, "capability", stated)


class Work(NamedTuple):
    """Working space: the workers below their threshold (see `filling.Open`, `list_below`), and each worker's capability."""

    fleet: Open
    capability: WorkerFloats


@rule
def route(view: RuleView, options: Any, work: Work) -> None:
    """Write each request's worker to `work`, oldest first: the first one below its threshold with room, else `HOLD`."""
    count = list_below(view, options, work)
    for i in range(view.waiting_load.size):
        if count == 0:
            break
        for j in range(count):
            if work.fleet.kv[j] >= view.waiting_load[i]:
                count = send(i, j, view.waiting_load[i], count, work.fleet)
                break


@part
def list_below(view: RuleView, options: Any, work: Work) -> int:
    """List the open workers below their threshold in `work.fleet`; returns their number.

    `work.fleet.slots` is the smaller of a worker's free slots and the requests that it may get up to its threshold.
    """
    largest = list_capabilities(view, options.capability, work.capability)
    fleet, listed, count = work.fleet, list_open(view, work.fleet), 0
    for j in range(listed):
        g = int(fleet.open[j])
        requests = view.running[g] + view.queued[g]
        most = options.threshold
        if math.isnan(options.threshold):  # None: the slots of the worker
            most = float(requests + view.free_slots[g])
        below = max(1, int(min(most * (work.capability[g] / largest) + 0.5, MOST))) - requests
        fleet.open[count], fleet.slots[count], fleet.kv[count] = g, min(fleet.slots[j], below), fleet.kv[j]
        count += below > 0
    return count


policy = Throttled
