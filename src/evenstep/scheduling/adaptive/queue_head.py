"""Remembers the head of the waiting queue by size from batch to batch, so that a long queue is rarely rescanned.

The policy's memory keeps the place of the request that joins next by size, and a number of tokens: no waiting request of
the window has fewer left. Both hold while others join, and while new requests arrive at the queue's end and are compared
one by one. An eviction changes the balance of waiting and arrived requests, and all is forgotten. Nothing here changes a
decision. Requests that join in the batch that is being formed stand in `Joining`.
"""

from __future__ import annotations

from typing import NamedTuple

from evenstep.compiled import Ints, part
from evenstep.scheduling.adaptive import prefill_pacing as knee
from evenstep.scheduling.batch import Batch, grows
from evenstep.scheduling.view import RuleView

_FIRST = knee.MEMORY
#: Words: place of who joins next by size, from 1 on, 0 = not known; its id; tokens that none has fewer of left, 0 = not
#: known; places that were looked over; how many waited less how many had arrived. Those who have joined since are taken
#: off places and balance.
PLACE, NEXT, FEWEST, PLACES, BALANCE = range(_FIRST, _FIRST + 5)
#: Words that are kept, those of `knee` included.
MEMORY = _FIRST + 5


class Joining(NamedTuple):
    """The batch, and which of its entries are requests that join.

    Args:
        batch: the batch that is being formed.
        chunk: int64[R], positions of the running prefills.
        start: int64[1], the entry of the batch from which on requests join, among running prefills.
        newcomers: int64[1], how many have joined.
    """

    batch: Batch
    chunk: Ints
    start: Ints
    newcomers: Ints


class Gap(NamedTuple):
    """What a request that passes another one has to fit into.

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
    """Twice the tokens a request is expected to bring: prompt, and the middle of its believed output bounds."""
    return 2 * view.prompt_tokens[row] + view.output_low[row] + view.output_high[row]


@part
def has_joined(joining: Joining, position: int) -> bool:
    """Whether a request joins in this batch."""
    found = False
    for p in range(joining.start[0], joining.batch.given[0]):
        found = found or joining.batch.picked[p] == position
    return found


@part
def joined_before(view: RuleView, joining: Joining, i: int) -> int:
    """How many of those who join in this batch stand before a place of the queue."""
    count, runs = 0, view.running.size
    for p in range(joining.start[0], joining.batch.given[0]):
        if runs <= joining.batch.picked[p] < runs + i:
            count += 1
    return count


@part
def recall(view: RuleView, joining: Joining, places: int, seen: int) -> None:
    """Forget what does not hold any more, else compare those that are new.

    Args:
        places: of the queue that are looked at, those who join in this batch included.
        seen: requests that have arrived so far.
    """
    memory, newcomers = joining.batch.memory, joining.newcomers[0]
    balance = view.waiting.size - newcomers - seen
    if memory[BALANCE] != balance:
        memory[PLACE] = memory[FEWEST] = 0
        memory[BALANCE] = balance
    elif memory[PLACE] != 0 or memory[FEWEST] != 0:
        for i in range(memory[PLACES] + newcomers, places):
            if newcomers == 0 or not has_joined(joining, view.running.size + i):
                compare(view, joining, i)
    memory[PLACES] = places - newcomers


@part
def compare(view: RuleView, joining: Joining, i: int) -> None:
    """A request that is new in the window: whether it is foremost."""
    memory = joining.batch.memory
    new: int = view.waiting[i]
    if memory[FEWEST] != 0:
        memory[FEWEST] = min(memory[FEWEST], view.left[new])
    at = found(view, joining)
    if at < 0:
        return
    known: int = view.waiting[at]
    if view.evictions[known] == 0 and (view.evictions[new] > 0 or doubled(view, new) < doubled(view, known)):
        note(view, joining, i)


@part
def found(view: RuleView, joining: Joining) -> int:
    """The place of who joins next by size in the queue as this batch found it; -1 where it is not remembered."""
    memory = joining.batch.memory
    if memory[PLACE] == 0:
        return -1
    i: int = memory[PLACE] - 1
    if joining.newcomers[0] > 0:
        moved = -1
        while moved != i:  # those who join before it; more of them may stand where it comes to
            moved = i
            i = memory[PLACE] - 1 + joined_before(view, joining, moved + 1)
    if i >= view.waiting.size or view.request_id[view.waiting[i]] != memory[NEXT]:
        return -1
    return i


@part
def note(view: RuleView, joining: Joining, i: int) -> None:
    """Remember who joins next by size."""
    memory = joining.batch.memory
    memory[PLACE] = i + 1 - joined_before(view, joining, i)
    memory[NEXT] = view.request_id[view.waiting[i]]


@part
def leave(view: RuleView, joining: Joining, i: int) -> None:
    """A request joins, after others of this batch: it is taken off what is remembered."""
    memory = joining.batch.memory
    place = i + 1 - joined_before(view, joining, i)
    if memory[PLACE] == place:
        memory[PLACE] = 0
    elif memory[PLACE] > place:
        memory[PLACE] -= 1
    memory[PLACES] -= 1
    memory[BALANCE] -= 1


@part
def look_over(view: RuleView, joining: Joining, places: int, gap: Gap) -> tuple[int, int]:
    """The first that was evicted, else the shortest, the oldest of equals; and the shortest that fits. -1 = none.

    The former, and the fewest tokens that are left, are remembered.

    Args:
        places: of the queue that are looked at.
        gap: what the second has to fit into.
    """
    shortest, least, fits, least_fits, fewest, evicted = -1, 0, -1, 0, 0, -1
    for i in range(places):
        if joining.newcomers[0] > 0 and has_joined(joining, view.running.size + i):
            continue
        row: int = view.waiting[i]
        size, tokens = doubled(view, row), view.left[row]
        if evicted < 0 and view.evictions[row] > 0:
            evicted = i
        if shortest < 0 or size < least:
            shortest, least = i, size
        if fewest == 0 or tokens < fewest:
            fewest = tokens
        if tokens <= min(gap.longest, gap.free) and (fits < 0 or size < least_fits) and fits_gap(view, gap, row):
            fits, least_fits = i, size
    foremost = evicted if evicted >= 0 else shortest
    if foremost >= 0:
        note(view, joining, foremost)
        joining.batch.memory[FEWEST] = fewest
    return foremost, fits


@part
def fits_gap(view: RuleView, gap: Gap, row: int) -> bool:
    """Whether the whole of a request fits, besides what running requests grow by during its prefill."""
    tokens: int = view.left[row]
    whole, others = grows(view, row, tokens), max(gap.reserve, view.running.size * tokens // gap.budget)
    return tokens <= gap.longest and whole <= gap.spare and whole + others <= gap.free
