"""Keeps the shortest waiting requests in the policy's memory between batches, so that a long queue is rarely rescanned.

The memory holds up to `MOST` requests of the window, the oldest part of the queue, in the order in which they are admitted
next. It also holds a lower bound on the tokens that any request of the window has left. Both stay valid while others are
admitted, and new arrivals are compared one by one. Once all stored requests are admitted, the queue is scanned again. After
an eviction, all are forgotten: the numbers of waiting and arrived requests then no longer match. None of this changes a
decision. "To join" means to be admitted in the batch that is being formed (`Joining`).
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from evenstep.compiled import Ints, part
from evenstep.scheduling.adaptive import prefill_pacing
from evenstep.scheduling.batch import Batch, grows
from evenstep.scheduling.rules import RunningInts
from evenstep.scheduling.view import UNLIMITED, RuleView

_FIRST = prefill_pacing.MEMORY
#: The most requests that are stored: the shortest of the window, the one that joins next first.
MOST = 12
#: Words of memory: number of stored requests; a lower bound of the tokens that any request has left (0 = unknown), and one
#: for those not stored; number of queue places that were considered; number of waiting requests less number of arrivals.
#: Requests that have joined since are subtracted from the last two.
COUNT, FEWEST, OTHERS, PLACES, BALANCE = range(_FIRST, _FIRST + 5)
#: Words of the stored requests: the index of each in the queue, its id, twice its expected tokens, tokens it has left.
PLACE, NEXT, SIZE, LEFT = range(_FIRST + 5, _FIRST + 5 + 4 * MOST, MOST)
#: Number of words kept in memory, those of `prefill_pacing` included.
MEMORY = _FIRST + 5 + 4 * MOST


class Joining(NamedTuple):
    """The batch being formed, and which of its entries are requests admitted from the queue."""

    batch: Batch  # the batch that is being formed
    chunk: RunningInts  # positions of the running prefills, fewest tokens left first
    #: first entry of the batch that may be a newcomer (a request admitted from the queue) or a running prefill
    start: Annotated[Ints, "1"]
    newcomers: Annotated[Ints, "1"]  # number of newcomers


class Gap(NamedTuple):
    """The limits for a waiting request that is admitted before a blocked one, which does not fit."""

    free: int  # KV tokens that are free
    spare: int  # most KV tokens it may take, so that the blocked one still fits after the next completion
    reserve: int  # fewest KV tokens it leaves free, for the growth of running requests
    longest: int  # most tokens that its prefill may have left
    budget: int  # tokens that this batch may still run, > 0


@part
def doubled(view: RuleView, row: int) -> int:
    """Twice the expected size of a request in tokens: its prompt plus the middle of its believed output bounds."""
    return 2 * view.prompt_tokens[row] + view.output_low[row] + view.output_high[row]


@part
def has_joined(joining: Joining, position: int) -> bool:
    """True if the batch being formed holds the request at this position, among its entries from `start` on."""
    found = False
    for p in range(joining.start[0], joining.batch.given[0]):
        found = found or joining.batch.picked[p] == position
    return found


@part
def joined_before(view: RuleView, joining: Joining, i: int) -> int:
    """The number of requests with a queue index below `i` that join in this batch."""
    count, runs = 0, view.running.size
    for p in range(joining.start[0], joining.batch.given[0]):
        if runs <= joining.batch.picked[p] < runs + i:
            count += 1
    return count


@part
def recall(view: RuleView, joining: Joining, places: int, seen: int) -> None:
    """Bring the stored requests up to date: `compare` those new in the window with them, or forget all after an eviction.

    An eviction shows when arrivals and joins do not explain the length of the queue. `places` is the number of requests at
    the front of the queue to look at, including those that join in this batch; `seen`, how many have arrived so far.
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
    """Store the new request at index `i` of the queue if it is shorter than a stored one.

    If it was ever evicted, it replaces all stored ones. It is not stored if the memory holds no request, or if the one that
    joins next was evicted. In any case the lower bounds on the tokens that requests have left take it into account.
    """
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
    """Store the request at index `i` of the queue, by `doubled` size, after equal ones; drop the last one beyond `MOST`."""
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
    """Drop all stored requests, and store only the request at index `i` of the queue: it was evicted, so it joins first."""
    memory = joining.batch.memory
    memory[COUNT], memory[OTHERS] = 0, memory[FEWEST]
    insert(view, joining, i)


@part
def found(view: RuleView, joining: Joining) -> int:
    """The queue index of the stored request that joins next; -1 if none is stored, or another request stands there now."""
    memory = joining.batch.memory
    if memory[COUNT] == 0:
        return -1
    i: int = memory[PLACE]
    if joining.newcomers[0] > 0:
        moved = -1
        while moved != i:  # newcomers before it raise its index; then more of them may be before it
            moved = i
            i = memory[PLACE] + joined_before(view, joining, moved + 1)
    if i >= view.waiting.size or view.request_id[view.waiting[i]] != memory[NEXT]:
        return -1
    return i


@part
def leave(view: RuleView, joining: Joining, i: int) -> None:
    """Note that the request at queue index `i` joins this batch: drop it if stored; update indices and bounds of others."""
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
    """Scan the queue and store its `MOST` shortest requests, or only the first evicted one if there is one.

    Args:
        places: how many requests at the front of the queue are scanned.
        gap: the limits for a request that passes another one.

    Returns: two queue indices, -1 = no such request: the request that joins next (the first evicted, else the shortest, of
        equals the oldest), and the shortest that fits `gap`.
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
    """True if a waiting request's whole prefill is within `longest` and `spare`, and fits `free` next to what others grow.

    Others grow by one token for each running request and iteration of the prefill, or by `gap.reserve` if that is more.
    """
    tokens: int = view.left[row]
    whole, others = grows(view, row, tokens), max(gap.reserve, view.running.size * tokens // gap.budget)
    return tokens <= gap.longest and whole <= gap.spare and whole + others <= gap.free
