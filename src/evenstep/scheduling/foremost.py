"""Who of a waiting queue is foremost, remembered from batch to batch, so that a long queue is looked over seldom.

Kept are the place of whoever joins next by size, and a number of tokens that no waiting request of the window has fewer of
left. Both hold while others join and new ones arrive at the queue's end, who are compared one by one; whoever is evicted
changes the balance of those who wait and those who have arrived, and all is forgotten. Nothing here changes a decision.
`foremost_kernel` is the compiled twin, equal in bits.
"""

from __future__ import annotations

from evenstep.request import I8
from evenstep.scheduling import knee
from evenstep.scheduling.view import EngineView

_FIRST = knee.MEMORY
#: Words: place of who joins next by size, from 1 on, 0 = not known; its id; tokens that none has fewer of left, 0 = not
#: known; places that were looked over; how many waited less how many had arrived. Those who have joined since are taken
#: off places and balance.
PLACE, NEXT, FEWEST, PLACES, BALANCE = range(_FIRST, _FIRST + 5)
#: Words that are kept, those of `knee` included.
MEMORY = _FIRST + 5


def recall(memory: I8, view: EngineView, running: int, places: int, joined: list[int]) -> None:
    """Forget what does not hold any more, else compare those that are new.

    Args:
        places: of the queue, those who join in this batch included.
        joined: positions of these.
    """
    balance = view.left.size - running - len(joined) - int(view.arrived.sum())
    if memory[BALANCE] != balance:
        memory[PLACE] = memory[FEWEST] = 0
        memory[BALANCE] = balance
    elif memory[PLACE] or memory[FEWEST]:
        for k in range(running + int(memory[PLACES]) + len(joined), running + places):
            if k not in joined:
                _compare(memory, view, running, k, joined)
    memory[PLACES] = places - len(joined)


def _compare(memory: I8, view: EngineView, running: int, new: int, joined: list[int]) -> None:
    """A request that is new in the window: whether it is foremost."""
    if memory[FEWEST]:
        memory[FEWEST] = min(int(memory[FEWEST]), int(view.left[new]))
    known = found(memory, view, running, joined)
    if known < 0 or view.evictions[known] > 0:
        return
    if view.evictions[new] > 0 or doubled(view, new) < doubled(view, known):
        note(memory, view, running, new, joined)


def found(memory: I8, view: EngineView, running: int, joined: list[int]) -> int:
    """The position of who joins next by size, as it is remembered; -1 where it is not."""
    if memory[PLACE] == 0:
        return -1
    request = running + int(memory[PLACE]) - 1
    for gone in sorted(joined):
        request += gone <= request
    known = request < view.left.size and view.request_id[request] == memory[NEXT]
    return request if known else -1


def note(memory: I8, view: EngineView, running: int, request: int, joined: list[int]) -> None:
    """Remember who joins next by size."""
    memory[PLACE] = request - running + 1 - sum(k < request for k in joined)
    memory[NEXT] = view.request_id[request]


def look_over(memory: I8, view: EngineView, running: int, queue: list[int], joined: list[int]) -> int:
    """The first that was evicted, else the shortest, the oldest of equals; it and the fewest tokens left are remembered."""
    evicted = [k for k in queue if view.evictions[k] > 0]
    request = evicted[0] if evicted else min(queue, key=lambda k: doubled(view, k))
    note(memory, view, running, request, joined)
    memory[FEWEST] = min(int(view.left[k]) for k in queue)
    return request


def leave(memory: I8, running: int, request: int, joined: list[int]) -> None:
    """A request joins, after others of this batch: it is taken off what is remembered."""
    place = request - running + 1 - sum(k < request for k in joined)
    if memory[PLACE] == place:
        memory[PLACE] = 0
    elif memory[PLACE] > place:
        memory[PLACE] -= 1
    memory[PLACES] -= 1
    memory[BALANCE] -= 1


def doubled(view: EngineView, request: int) -> int:
    """Twice the tokens a request is expected to bring: prompt, and the middle of its believed output bounds."""
    return (
        2 * int(view.prompt_tokens[request]) + int(view.output_low[request]) + int(view.output_high[request])
    )
