"""Random: each request goes to any worker that has a slot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenstep.compiled import Floats, Ints, part
from evenstep.draws import head, uniform_from
from evenstep.routing.filling import (
    draw_all,
    is_unlimited,
    list_open,
    list_where_slots_limit,
    send,
    take_out,
    total_free,
)
from evenstep.routing.rules import Ruled, RuleView, rule
from evenstep.streams import stream_number

_STREAM = stream_number("random")


@dataclass(frozen=True, slots=True)
class Random(Ruled):
    """Uniform over the workers with a free slot, by chance keyed with the request's id.

    Source: BalanceRoute sec. 6.1 (baselines of the vLLM router).
    """


class Work(NamedTuple):
    """Working space: the open workers (see `filling.Open`), and a draw for each request."""

    worker: Ints
    memory: Ints
    bound: Floats
    open: Ints
    slots: Ints
    kv: Floats
    chance: Floats


def room(workers: int, waiting: int, horizon: int, options: Random) -> tuple[int, ...]:
    """Numbers in each array of `Work` beyond the answer."""
    return workers, workers, workers, waiting


@rule
def route(view: RuleView, options: Random, work: Work) -> None:
    """Send the oldest requests, one after the other."""
    dice = head(view.seed, _STREAM)
    if is_unlimited(view):
        send_anywhere(dice, view, work)
        return
    count = list_open(view, work)
    for i in range(view.waiting_load.size):
        if count == 0:
            break
        size, fits = view.waiting_load[i], 0
        for j in range(count):
            fits += work.kv[j] >= size
        if fits == 0:
            continue
        skip = int(uniform_from(dice, view.waiting_id[i], 0) * fits)
        place = -1
        while skip >= 0:
            place += 1
            skip -= work.kv[place] >= size
        count = send(i, place, size, count, work)


@part
def send_anywhere(dice: np.uint64, view: RuleView, work: Work) -> None:
    """Where only slots limit every open worker will do."""
    sent = min(view.waiting_load.size, total_free(view))
    draw_all(dice, 0, sent, view, work.chance)
    count = list_where_slots_limit(view, work)
    for i in range(sent):
        place = int(work.chance[i] * count)
        g = np.uintp(work.open[place])
        work.worker[i] = work.open[place]
        work.slots[g] -= 1
        if work.slots[g] == 0:
            take_out(place, count, work.open)
            count -= 1


policy = Random
