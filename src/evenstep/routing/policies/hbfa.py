"""Honey-bee foraging: workers attract requests at random, in proportion to a fitness that falls with their load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from evenstep.compiled import part
from evenstep.draws import head, uniform_from
from evenstep.errors import check_range
from evenstep.request import F8, I8
from evenstep.routing.filling import Room, count_requests, list_with_room, send_to, set_load, set_room
from evenstep.routing.roulette import spin
from evenstep.routing.rules import Ruled, RuleView, WorkerFloats, WorkerInts, rule
from evenstep.streams import stream_number

_STREAM = stream_number("hbfa")


@dataclass(frozen=True, slots=True)
class HBFA(Ruled):
    """Honey-bee foraging: the oldest request goes to a worker drawn by chance, more often to a lightly loaded one.

    A worker has the fitness ``1 / ((1 + load / mean load) * (1 + requests / mean requests))``. A request goes to a worker
    with room, drawn in proportion to fitness. Workers above the mean load are left out, unless all with room are above it.
    Requests that scout go to any worker with room, all equally likely. Fitness changes with each request sent.

    Kept for comparison: BF-IO App. A.1.1 says that it does not fit a decode step, for lack of known workloads and of time
    for a population of bees. It leaves out priorities of tasks, and CPU and memory of workers.

    Args:
        scouts: share of the requests that scout, 0..1.

    Raises:
        InputError: `scouts` out of range.

    Source: BF-IO App. A.1.1; Dhinesh Babu, Krishna 2013 (only workers that are not overloaded attract). The fitness and the
    share of scouts are our choice.
    """

    scouts: float = 0.1

    def __post_init__(self) -> None:
        check_range("hbfa", "a number from 0 to 1", low=0, high=1, scouts=self.scouts)


class Work(NamedTuple):
    """Working space: the room (see `filling.Room`); KV tokens, requests (sent ones included) and fitness of workers."""

    fleet: Room
    load: WorkerFloats
    requests: WorkerInts
    fitting: WorkerInts  # the workers with room for the request at hand
    fitness: WorkerFloats  # of each of those


@rule
def route(view: RuleView, options: HBFA, work: Work) -> None:
    """Draw a worker with room for each request, oldest first, into `work`: by fitness, or evenly for a scout."""
    dice, left = head(view.seed, _STREAM), set_room(view, work.fleet)
    set_load(view, work.load)
    count_requests(view, work.requests)
    for i in range(view.waiting_load.size):
        if left == 0:
            break
        count = list_with_room(view.waiting_load[i], work.fitting, work.fleet)
        if count == 0:
            continue
        if uniform_from(dice, view.waiting_id[i], 0) < options.scouts:
            work.fitness[:count] = 1.0
        else:
            dance(count, work)
        best = work.fitting[spin(work.fitness, count, uniform_from(dice, view.waiting_id[i], 1))]
        send_to(i, best, view.waiting_load[i], work.fleet)
        left -= 1
        work.load[best] += view.waiting_load[i]
        work.requests[best] += 1


@part
def dance(count: int, work: Work) -> None:
    """Write the fitness of the first `count` workers in `work.fitting` to `work.fitness`; 0 for one that is left out."""
    load, requests, is_light = mean(work.load), mean(work.requests), False
    for k in range(count):
        is_light |= share(work.load[int(work.fitting[k])], load) <= 1
    for k in range(count):
        g = int(work.fitting[k])
        heavy = share(work.load[g], load)
        work.fitness[k] = 1 / ((1 + heavy) * (1 + share(work.requests[g], requests)))
        if is_light and heavy > 1:
            work.fitness[k] = 0.0


@part
def mean(values: F8 | I8) -> float:
    """The mean of the values, added up in order."""
    total = 0.0
    for g in range(values.size):
        total += values[g]
    return total / values.size


@part
def share(value: float, mean: float) -> float:
    """`value` divided by `mean`; 0 if the mean is 0."""
    return value / mean if mean > 0.0 else 0.0


policy = HBFA
