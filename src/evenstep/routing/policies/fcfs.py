"""First come, first served: the oldest request goes to the worker with most free slots, or the first by index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from evenstep.routing.filling import Open as Work
from evenstep.routing.filling import is_unlimited, list_open, most_free, one_each, send
from evenstep.routing.rules import Ruled, RuleView, rule


@dataclass(frozen=True, slots=True)
class FCFS(Ruled):
    """First come, first served: ignores loads, and uses sizes only to see where a request fits.

    A request that fits nowhere is held, and the next one goes on.

    Args:
        fill: ``free-slots`` = the oldest request to the worker with most free slots, repeated (ties: lowest index);
            ``index`` = fill the workers up in index order.

    Source: BF-IO Alg. 2 (``free-slots``) and the prose of App. B (``index``).
    """

    fill: Literal["free-slots", "index"] = "free-slots"


@rule
def route(view: RuleView, options: Any, work: Work) -> None:
    """Write each request's worker to `work`, oldest first: one with room, chosen as `fill` says; `HOLD` if none has room."""
    if options.fill_free_slots and is_unlimited(view):
        level, i = most_free(view), 0  # a pass for each number of slots
        while level > 0 and i < work.worker.size:
            i = one_each(level, 0, view.free_slots.size, i, view, work)
            level -= 1
        return
    count = list_open(view, work)
    for i in range(view.waiting_load.size):
        if count == 0:
            break
        best = -1
        for j in range(count):
            if work.kv[j] >= view.waiting_load[i] and (best < 0 or work.slots[j] > work.slots[best]):
                best = j
                if options.fill_index:
                    break
        if best >= 0:
            count = send(i, best, view.waiting_load[i], count, work)


policy = FCFS
