"""Remembers the head of the waiting queue by size from batch to batch, so that a long queue is rarely rescanned.

The policy's memory keeps the requests that join next by size, and a number of tokens: no waiting request of the window has
fewer left. Both hold while others join, and while new requests arrive at the queue's end and are compared one by one. The
queue is looked over again when all that are remembered have joined. An eviction changes the balance of waiting and arrived
requests, and all is forgotten. Nothing here changes a decision. Requests that join in the batch that is being formed stand
in `Joining`.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from evenstep.compiled import Ints, part
from evenstep.scheduling.adaptive import prefill_pacing
from evenstep.scheduling.batch import Batch, grows
from evenstep.scheduling.rules import RunningInts
from evenstep.scheduling.view import UNLIMITED, RuleView

_FIRST = prefill_pacing.MEMORY
#: Requests that are remembered at most: the shortest of the window, the one that joins next first.
MOST = 12
#: Words: how many are remembered; a lower bound of the tokens that a request has left (0 = not known), and one for those
#: not remembered; places that were looked over; how many waited less how many had arrived. Requests that have joined
#: since are taken off places and balance.
COUNT, FEWEST, OTHERS, PLACES, BALANCE = range(_FIRST, _FIRST + 5)
#: Words of the remembered requests: the place of each in the queue, its id, twice its expected tokens, tokens it has left.
PLACE, NEXT, SIZE, LEFT = range(_FIRST + 5, _FIRST + 5 + 4 * MOST, MOST)
#: Words that are kept, those of `prefill_pacing` included.
MEMORY = _FIRST + 5 + 4 * MOST


class Joining(NamedTuple):
    """The batch being formed, and which of its entries are requests that join from the queue.

    Args:
        batch: the batch that is being formed.
        chunk: positions of the running prefills, fewest tokens left first.
        start: the entry of the batch from which on newcomers may stand, among running prefills.
        newcomers: how many have joined.
    """

    batch: Batch
    chunk: RunningInts
    start: Annotated[Ints, "1"]
    newcomers: Annotated[Ints, "1"]


class Gap(NamedTuple):
    """The limits for a request that passes another one in the queue.

    Args:
        free: KV tokens that are free.
        spare: KV tokens it may take at most, so that the other one still fits after the next completion.
        reserve: KV tokens that it leaves free.
        longest: tokens that it may have left.
        budget: tokens that this batch may still run, > 0.
    """

    free: int
    spare: int
    reserve: int
    longest: int
    budget: int


@part
def doubled(view: RuleView, row: int) -> int:
    """Twice the expected size of a request in tokens: its prompt plus the middle of its believed output bounds."""
    return 2 * view.prompt_tokens[row] + view.output_low[row] + view.output_high[row]


@part
def has_joined(joining: Joining, position: int) -> bool:
    """Whether the batch holds the request at this position, from the entry `start` on."""
    found = False
    for p in range(joining.start[0], joining.batch.given[0]):
        found = found or joining.batch.picked[p] == position
    return found


@part
def joined_before(view: RuleView, joining: Joining, i: int) -> int:
    """How many requests that join in this batch stand before place i of the queue."""
    count, runs = 0, view.running.size
    for p in range(joining.start[0], joining.batch.given[0]):
        if runs <= joining.batch.picked[p] < runs + i:
            count += 1
    return count


@part
def recall(view: RuleView, joining: Joining, places: int, seen: int) -> None:
    """Forget the remembered requests if the queue has changed otherwise than by arrivals and joins; else `compare` arrivals.

    So many `places` of the queue are looked at, those of requests that join in this batch included; `seen` requests have
    arrived so far.
    """
    memory, newcomers = joining.batch.memory, joining.newcomers[0]
    balance = view.waiting.size - newcomers - seen
    if memory[BALANCE] != balance:
        memory[COUNT] = memory[FEWEST] = 0
        memory[BALANCE] = balance
    elif memory[FEWEST] != 0:
        for i in range(memory[PLACES] + newcomers, places):
            if newcomers == 0 or not has_joined(joining, view.running.size + i):
                compare(view, joining, i)
    memory[PLACES] = places - newcomers


@part
def compare(view: RuleView, joining: Joining, i: int) -> None:
    """Remember the newly seen request at place i of the queue if it is among the shortest, or was evicted."""
    memory = joining.batch.memory
    new: int = view.waiting[i]
    memory[FEWEST] = min(memory[FEWEST], view.left[new])
    at, size = found(view, joining), doubled(view, new)
    known: int = view.waiting[max(at, 0)]
    if at >= 0 and view.evictions[known] == 0 and view.evictions[new] > 0:
        keep_only(view, joining, i)
    elif at >= 0 and view.evictions[known] == 0 and size < memory[SIZE + memory[COUNT] - 1]:
        insert(view, joining, i)
    else:
        memory[OTHERS] = min(memory[OTHERS], view.left[new])


@part
def insert(view: RuleView, joining: Joining, i: int) -> None:
    """Remember the request at place i of the queue, in order of size after its equals; drops the last beyond `MOST`."""
    memory = joining.batch.memory
    row: int = view.waiting[i]
    size: int = doubled(view, row)
    if memory[COUNT] == MOST:
        memory[OTHERS] = min(memory[OTHERS], memory[LEFT + MOST - 1])
        memory[COUNT] -= 1
    k: int = memory[COUNT]
    while k > 0 and size < memory[SIZE + k - 1]:
        for word in (PLACE, NEXT, SIZE, LEFT):
            memory[word + k] = memory[word + k - 1]
        k -= 1
    memory[PLACE + k] = i - joined_before(view, joining, i)
    memory[NEXT + k], memory[SIZE + k], memory[LEFT + k] = view.request_id[row], size, view.left[row]
    memory[COUNT] += 1


@part
def keep_only(view: RuleView, joining: Joining, i: int) -> None:
    """Remember only the evicted request at place i of the queue: it joins before all others."""
    memory = joining.batch.memory
    memory[COUNT], memory[OTHERS] = 0, memory[FEWEST]
    insert(view, joining, i)


@part
def found(view: RuleView, joining: Joining) -> int:
    """The present place in the queue of the request remembered as next; -1 if it is unknown or not there."""
    memory = joining.batch.memory
    if memory[COUNT] == 0:
        return -1
    i: int = memory[PLACE]
    if joining.newcomers[0] > 0:
        moved = -1
        while moved != i:  # newcomers that stand before it; where it moves to, there may be more of them
            moved = i
            i = memory[PLACE] + joined_before(view, joining, moved + 1)
    if i >= view.waiting.size or view.request_id[view.waiting[i]] != memory[NEXT]:
        return -1
    return i


@part
def leave(view: RuleView, joining: Joining, i: int) -> None:
    """Forget the request at place i of the queue, which joins the batch, and correct places and bounds of the others.

    Others of this batch may have joined before it.
    """
    memory = joining.batch.memory
    place, count, fewest = i - joined_before(view, joining, i), 0, memory[OTHERS]
    for k in range(memory[COUNT]):
        at = memory[PLACE + k]
        if at != place:
            memory[PLACE + count] = at - 1 if at > place else at
            for word in (NEXT, SIZE, LEFT):
                memory[word + count] = memory[word + k]
            fewest = min(fewest, memory[LEFT + count])
            count += 1
    if memory[FEWEST] != 0:
        memory[FEWEST] = fewest
    memory[COUNT] = count
    memory[PLACES] -= 1
    memory[BALANCE] -= 1


@part
def look_over(view: RuleView, joining: Joining, places: int, gap: Gap) -> tuple[int, int]:
    """Scan the queue, and remember the `MOST` shortest requests, or only the first evicted one if there is one.

    Args:
        places: how many places of the queue are looked at.
        gap: the limits for a request that passes another one.

    Returns:
        Two places: the first evicted request, else the shortest, the oldest of equals; and the shortest that fits `gap`. -1
        = no such request.
    """
    memory = joining.batch.memory
    shortest, least, fits, least_fits, fewest, evicted = -1, 0, -1, 0, UNLIMITED, -1
    memory[COUNT], memory[OTHERS] = 0, UNLIMITED
    for i in range(places):
        if joining.newcomers[0] > 0 and has_joined(joining, view.running.size + i):
            continue
        row: int = view.waiting[i]
        size, tokens = doubled(view, row), view.left[row]
        if evicted < 0 and view.evictions[row] > 0:
            evicted = i
        if shortest < 0 or size < least:
            shortest, least = i, size
        fewest = min(fewest, tokens)
        if memory[COUNT] < MOST or size < memory[SIZE + MOST - 1]:
            insert(view, joining, i)
        else:
            memory[OTHERS] = min(memory[OTHERS], tokens)
        if tokens <= min(gap.longest, gap.free) and (fits < 0 or size < least_fits) and fits_gap(view, gap, row):
            fits, least_fits = i, size
    if shortest >= 0:
        memory[FEWEST] = fewest
    if evicted >= 0:
        keep_only(view, joining, evicted)
    return evicted if evicted >= 0 else shortest, fits


@part
def fits_gap(view: RuleView, gap: Gap, row: int) -> bool:
    """Whether a whole request fits the gap, together with the growth of running requests during its prefill.

    That growth is a token a running request and iteration, at least `gap.reserve`.
    """
    tokens: int = view.left[row]
    whole, others = grows(view, row, tokens), max(gap.reserve, view.running.size * tokens // gap.budget)
    return tokens <= gap.longest and whole <= gap.spare and whole + others <= gap.free
