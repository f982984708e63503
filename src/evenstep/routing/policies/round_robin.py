"""Round robin: each request goes to the next worker in turn that has room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenstep.compiled import part
from evenstep.routing.filling import Open as Work
from evenstep.routing.filling import is_unlimited, list_open, most_free, one_each, send
from evenstep.routing.rules import Ruled, RuleView, rule


@dataclass(frozen=True, slots=True)
class RoundRobin(Ruled):
    """Sends each request, oldest first, to the next worker by index, round and round, that has a slot and memory for it.

    The turn is remembered between decisions. A request that fits nowhere is held and uses up no turn.

    Source: BF-IO App. A.1.1.
    """

    memory_size: ClassVar[int] = 1  #: one word: the worker whose turn it is


@rule
def route(view: RuleView, options: RoundRobin, work: Work) -> None:
    """Send requests, oldest first, each to the next worker in turn with room; the turn, `work.memory[0]`, moves on."""
    if is_unlimited(view):
        send_in_rounds(view, work)
        return
    count = list_open(view, work)
    turn = 0  # place of the next worker in turn; `count` when it comes after all of them
    while turn < count and work.open[turn] < work.memory[0]:
        turn += 1
    for i in range(view.waiting_load.size):
        if count == 0:
            break
        place = first_that_fits(view.waiting_load[i], turn, count, work)
        if place < 0:
            place = first_that_fits(view.waiting_load[i], 0, min(turn, count), work)
        if place >= 0:
            work.memory[0] = work.open[place] + 1
            before = count
            count = send(i, place, view.waiting_load[i], count, work)
            turn = place + 1 if count == before else place


@part
def first_that_fits(size: float, low: int, high: int, work: Work) -> int:
    """The first place of the open list in low..high-1 whose worker has memory for `size` tokens; -1 without one."""
    for j in range(low, high):
        if work.kv[j] >= size:
            return j
    return -1


@part
def send_in_rounds(view: RuleView, work: Work) -> None:
    """Send requests in rounds to workers with free slots; `work.memory[0]`, the turn, moves on. Only without KV limit."""
    begin = min(work.memory[0], view.free_slots.size)
    level, i, most = 1, 0, most_free(view)
    while level <= most and i < work.worker.size:
        i = one_each(level, begin, view.free_slots.size, i, view, work)
        i = one_each(level, 0, begin, i, view, work)
        level += 1
    if i > 0:
        work.memory[0] = work.worker[i - 1] + 1


policy = RoundRobin
