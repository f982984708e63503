"""Join the shortest queue: the oldest request goes to the worker with the fewest requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from evenstep.compiled import part
from evenstep.draws import head, uniform_from
from evenstep.routing.filling import Open, draw_all, is_unlimited, list_open, nth_with, send, take_out, total_free
from evenstep.routing.rules import RequestFloats, Ruled, RuleView, WorkerInts, rule
from evenstep.streams import stream_number

_STREAM = stream_number("jsq")
_LONG = 1 << 62


@dataclass(frozen=True, slots=True)
class JSQ(Ruled):
    """The oldest request goes to the worker with fewest requests, running or sent, among those with room.

    Room is a slot and memory for the request. A request that fits nowhere is held.

    Args:
        ties: ``random`` = chance among the shortest, keyed by seed and request id; ``lowest`` = lowest index. With
            ``lowest`` and equal slots this is FCFS.

    Source: BF-IO App. A.1.1; the default of vLLM's and SGLang's routers.
    """

    ties: Literal["random", "lowest"] = "random"


class Work(NamedTuple):
    """Working space: the open workers (see `filling.Open`), their requests, running or sent, and a draw for each request."""

    fleet: Open
    queue: WorkerInts  # by a worker's place in the list
    chance: RequestFloats  # in [0, 1), of the waiting requests, oldest first


@rule
def route(view: RuleView, options: Any, work: Work) -> None:
    """Write each request's worker to `work`, oldest first: one of the shortest queues with room; `HOLD` if none has room."""
    dice = head(view.seed, _STREAM)
    if is_unlimited(view):
        sent = min(view.waiting_load.size, total_free(view))
        if options.ties_random:
            draw_all(dice, 0, sent, view, work.chance)
        send_by_length(options.ties_random, sent, view, work)
        return
    count = list_open(view, work.fleet)
    for j in range(count):
        g = work.fleet.open[j]
        work.queue[j] = view.running[g] + view.queued[g]
    for i in range(view.waiting_load.size):
        if count == 0:
            break
        size = view.waiting_load[i]
        best, ties = shortest_that_fits(size, count, work)
        if best < 0:
            continue
        if options.ties_random and ties > 1:
            shortest = work.queue[best]
            skip = int(uniform_from(dice, view.waiting_id[i], 0) * ties)
            while skip > 0:
                best += 1
                skip -= work.fleet.kv[best] >= size and work.queue[best] == shortest
        work.queue[best] += 1
        if work.fleet.slots[best] == 1:
            take_out(best, count, work.queue)
        count = send(i, best, size, count, work.fleet)


@part
def shortest_that_fits(size: float, count: int, work: Work) -> tuple[int, int]:
    """The first place of a shortest queue with memory for `size` tokens, or -1; and the number of such queues.

    `count` is the length of the list of open workers.
    """
    shortest, best, ties = _LONG, -1, 0
    for j in range(count):
        if work.fleet.kv[j] >= size:
            if work.queue[j] < shortest:
                shortest, best, ties = work.queue[j], j, 1
            elif work.queue[j] == shortest:
                ties += 1
    return best, ties


@part
def send_by_length(by_chance: bool, sent: int, view: RuleView, work: Work) -> None:
    """Send the oldest `sent` requests, each to a shortest queue: a random one if `by_chance`, else that of lowest index.

    Call it only for views without KV limit. `sent` is at most the number of free slots. Draws are in `work.chance`.
    """
    queue, workers, count, i = work.queue, work.fleet.open, 0, 0
    for g in range(view.free_slots.size):  # without a branch: nothing predicts which workers have a slot
        place = np.uintp(count)
        workers[place], queue[place] = g, view.running[g] + view.queued[g]
        count += view.free_slots[g] > 0
    while i < sent:
        shortest, ties = _LONG, 0
        for j in range(count):
            shortest = min(shortest, queue[j])
        for j in range(count):
            ties += queue[j] == shortest
        while ties > 0 and i < sent:
            j = nth_with(queue, shortest, int(work.chance[i] * ties) if by_chance and ties > 1 else 0)
            g = workers[j]
            work.fleet.worker[i] = g
            queue[j] += 1
            if queue[j] - view.running[g] - view.queued[g] == view.free_slots[g]:
                queue[j] = _LONG
            ties -= 1
            i += 1


policy = JSQ
