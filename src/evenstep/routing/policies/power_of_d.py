"""Power of d choices: draws d workers at random, and takes the shortest queue among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np

from evenstep.compiled import Floats, part
from evenstep.draws import head, uniform_from
from evenstep.errors import check_range
from evenstep.routing import filling
from evenstep.routing.rules import Ruled, RuleView, WorkerInts, rule
from evenstep.streams import stream_number

_STREAM = stream_number("power-of-d")
_LONG = 1 << 62
_MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class PowerOfD(Ruled):
    """Draws `d` different workers with room by keyed chance, and sends the request to the one with fewest requests.

    Requests are running or sent; ties go to the lowest index. If fewer than `d` workers have room, all of them are compared.
    A request that fits nowhere is held.

    Args:
        d: workers drawn for each request, 1 to 1,000,000; 1 is random choice.

    Raises:
        InputError: `d` out of range.

    Source: Mitzenmacher 2002; BF-IO App. A.1.1, BalanceRoute sec. 6.1.
    """

    d: int = 2

    def __post_init__(self) -> None:
        check_range("power-of-d", f"an integer from 1 to {_MOST:,}", low=1, high=_MOST, d=self.d)


class Work(NamedTuple):
    """Working space: the open workers (see `filling.Open`), their requests, and an urn of places to draw from."""

    fleet: filling.Open
    queue: WorkerInts  # requests of each worker, running or sent, by place; by worker where only slots limit
    urn: WorkerInts  # the places to draw from
    drawn: WorkerInts  # where in the urn each draw of a request fell
    chance: Annotated[Floats, "min(options.d, workers) * waiting"]  # first draws of all requests, second ones, and so on


@rule
def route(view: RuleView, options: PowerOfD, work: Work) -> None:
    """Write each request's worker to `work`, oldest first: the shortest of `d` queues drawn from those with room."""
    dice = head(view.seed, _STREAM)
    if filling.is_unlimited(view):
        send_by_slots(dice, min(options.d, view.load.size), view, work)
        return
    count = filling.list_open(view, work.fleet)
    for j in range(count):
        work.queue[j] = view.running[work.fleet.open[j]] + view.queued[work.fleet.open[j]]
    for i in range(view.waiting_load.size):
        if count == 0:
            break
        size, left = view.waiting_load[i], 0
        for j in range(count):
            work.urn[left] = j
            left += work.fleet.kv[j] >= size
        best = -1
        for draw in range(min(options.d, left)):
            k = int(uniform_from(dice, view.waiting_id[i], draw) * left)
            place = work.urn[k]
            left -= 1
            work.urn[k] = work.urn[left]
            if best < 0 or (work.queue[place], place) < (work.queue[best], best):
                best = place
        if best >= 0:
            work.queue[best] += 1
            if work.fleet.slots[best] == 1:
                filling.take_out(best, count, work.queue)
            count = filling.send(i, best, size, count, work.fleet)


@part
def send_by_slots(dice: np.uint64, d: int, view: RuleView, work: Work) -> None:
    """Send the oldest requests while slots last, each to the shortest of `d` drawn queues. Only without KV limit."""
    sent = min(view.waiting_load.size, filling.total_free(view))
    for draw in range(d):
        filling.draw_all(dice, draw, sent, view, work.chance[draw * sent : draw * sent + sent])
    for g in range(view.load.size):
        work.queue[g] = view.running[g] + view.queued[g]
        work.urn[g] = g
    count = filling.list_where_slots_limit(view, work.fleet)
    for i in range(sent):
        best = shortest_drawn(i, sent, min(d, count), count, work)
        g = np.uintp(work.fleet.open[best])
        work.fleet.worker[i] = work.fleet.open[best]
        work.queue[g] += 1
        work.fleet.slots[g] -= 1
        if work.fleet.slots[g] == 0:
            filling.take_out(best, count, work.fleet.open)
            count -= 1


@part
def shortest_drawn(i: int, sent: int, draws: int, count: int, work: Work) -> int:
    """The place of the shortest queue among `draws` workers drawn for request i from `count`; ties: lowest place.

    The random numbers are in `work.chance`, `sent` of them for each draw. The urn is the same afterwards.
    """
    left, best, shortest = count, count, _LONG
    for draw in range(draws):
        k = np.uintp(work.chance[np.uintp(draw * sent + i)] * left)
        place = work.urn[k]
        left -= 1
        last = np.uintp(left)
        work.urn[k], work.urn[last] = work.urn[last], place
        work.drawn[np.uintp(draw)] = np.int64(k)
        length = work.queue[np.uintp(work.fleet.open[np.uintp(place)])]
        is_better = length < shortest or (length == shortest and place < best)
        best = place if is_better else best
        shortest = min(shortest, length)
    for draw in range(draws - 1, -1, -1):
        k, last = np.uintp(work.drawn[np.uintp(draw)]), np.uintp(left)
        work.urn[k], work.urn[last] = work.urn[last], work.urn[k]
        left += 1
    return best


policy = PowerOfD
