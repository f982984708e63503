"""Random: each request goes to any worker that has room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenstep.compiled import part
from evenstep.draws import head, uniform_from
from evenstep.routing import filling
from evenstep.routing.rules import RequestFloats, Ruled, RuleView, rule
from evenstep.streams import stream_number

_STREAM = stream_number("random")


@dataclass(frozen=True, slots=True)
class Random(Ruled):
    """Sends each request, oldest first, to a worker drawn uniformly from those with a slot and memory for it.

    The draw is keyed by seed and request id: runs of one seed agree. A request that fits nowhere is held.

    Source: BalanceRoute sec. 6.1 (baselines of the vLLM router).
    """


class Work(NamedTuple):
    """Working space: the open workers (see `filling.Open`), and a draw in [0, 1) for each request, oldest first."""

    fleet: filling.Open
    chance: RequestFloats


@rule
def route(view: RuleView, options: Random, work: Work) -> None:
    """Write each request's worker to `work`, oldest first: a random one with room; `HOLD` if none has room."""
    dice = head(view.seed, _STREAM)
    if filling.is_unlimited(view):
        send_anywhere(dice, view, work)
        return
    count = filling.list_open(view, work.fleet)
    for i in range(view.waiting_load.size):
        if count == 0:
            break
        size, fits = view.waiting_load[i], 0
        for j in range(count):
            fits += work.fleet.kv[j] >= size
        if fits == 0:
            continue
        skip = int(uniform_from(dice, view.waiting_id[i], 0) * fits)
        place = -1
        while skip >= 0:
            place += 1
            skip -= work.fleet.kv[place] >= size
        count = filling.send(i, place, size, count, work.fleet)


@part
def send_anywhere(dice: np.uint64, view: RuleView, work: Work) -> None:
    """Send the oldest requests, one for each free slot, to random workers with a slot. Only for views without KV limit."""
    sent = min(view.waiting_load.size, filling.total_free(view))
    filling.draw_all(dice, 0, sent, view, work.chance)
    count = filling.list_where_slots_limit(view, work.fleet)
    for i in range(sent):
        place = int(work.chance[i] * count)
        g = np.uintp(work.fleet.open[place])
        work.fleet.worker[i] = work.fleet.open[place]
        work.fleet.slots[g] -= 1
        if work.fleet.slots[g] == 0:
            filling.take_out(place, count, work.fleet.open)
            count -= 1


policy = Random
