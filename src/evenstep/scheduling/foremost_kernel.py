# pyright: basic
"""Who of a waiting queue is foremost, remembered from batch to batch, compiled: the twin of `foremost`, equal in bits.

Those who join in this batch stand in ``picked[:, start:given]``, by position from R on, among running prefills.
"""

from __future__ import annotations

from evenstep.compiled import borrowing, borrowing_inlined
from evenstep.scheduling.filling_kernel import grows
from evenstep.scheduling.foremost import BALANCE, FEWEST, NEXT, PLACE, PLACES
from evenstep.scheduling.view import EVICTIONS, HIGH, ID, LEFT, LOW, PROMPT


@borrowing_inlined
def doubled(rows, row):
    """Twice the tokens a request is expected to bring."""
    return 2 * rows[PROMPT, row] + rows[LOW, row] + rows[HIGH, row]


@borrowing_inlined
def has_joined(picked, start, given, position):
    """Whether a request joins in this batch."""
    found = False
    for p in range(start, given):
        found = found or picked[0, p] == position
    return found


@borrowing_inlined
def joined_before(picked, start, given, R, position):
    """How many of those who join in this batch stand before a position."""
    count = 0
    for p in range(start, given):
        if R <= picked[0, p] < position:
            count += 1
    return count


@borrowing
def recall(memory, rows, waiting, first, R, W, places, seen, picked, start, given, newcomers):
    """Forget what does not hold any more, else compare those that are new."""
    balance = W - newcomers - seen
    if memory[BALANCE] != balance:
        memory[PLACE] = memory[FEWEST] = 0
        memory[BALANCE] = balance
    elif memory[PLACE] != 0 or memory[FEWEST] != 0:
        for i in range(memory[PLACES] + newcomers, places):
            if newcomers == 0 or not has_joined(picked, start, given, R + i):
                compare(memory, rows, waiting, first, R, W, i, picked, start, given, newcomers)
    memory[PLACES] = places - newcomers


@borrowing
def compare(memory, rows, waiting, first, R, W, i, picked, start, given, newcomers):
    """A request that is new in the window: whether it is foremost."""
    new = waiting[first + i]
    if memory[FEWEST] != 0:
        memory[FEWEST] = min(memory[FEWEST], rows[LEFT, new])
    at = found(memory, rows, waiting, first, R, W, picked, start, given, newcomers)
    if at < 0 or rows[EVICTIONS, waiting[first + at]] > 0:
        return
    if rows[EVICTIONS, new] > 0 or doubled(rows, new) < doubled(rows, waiting[first + at]):
        note(memory, rows, new, i, R, picked, start, given)


@borrowing
def found(memory, rows, waiting, first, R, W, picked, start, given, newcomers):
    """The place of who joins next by size in the queue as this batch found it; -1 where it is not remembered."""
    if memory[PLACE] == 0:
        return -1
    i = memory[PLACE] - 1
    if newcomers > 0:
        moved = -1
        while moved != i:  # those who join before it; more of them may stand where it comes to
            moved = i
            i = memory[PLACE] - 1 + joined_before(picked, start, given, R, R + moved + 1)
    if i >= W or rows[ID, waiting[first + i]] != memory[NEXT]:
        return -1
    return i


@borrowing
def note(memory, rows, row, i, R, picked, start, given):
    """Remember who joins next by size."""
    memory[PLACE] = i + 1 - joined_before(picked, start, given, R, R + i)
    memory[NEXT] = rows[ID, row]


@borrowing
def leave(memory, i, R, picked, start, given):
    """A request joins, after others of this batch: it is taken off what is remembered."""
    place = i + 1 - joined_before(picked, start, given, R, R + i)
    if memory[PLACE] == place:
        memory[PLACE] = 0
    elif memory[PLACE] > place:
        memory[PLACE] -= 1
    memory[PLACES] -= 1
    memory[BALANCE] -= 1


@borrowing
def look_over(
    memory, limits, rows, waiting, first, count, R, picked, start, given, newcomers, free, spare, reserve, longest,
    budget_left,
):  # fmt: skip
    """The first that was evicted, else the shortest, the oldest of equals; and the shortest that fits. -1 = none.

    The former, and the fewest tokens that are left, are remembered.

    Args:
        free, spare, reserve, longest, budget_left: what has to be left, see `best.Best.who_passes`.
    """
    shortest, least, fits, least_fits, fewest, evicted = -1, 0, -1, 0, 0, -1
    for i in range(count):
        row = waiting[first + i]
        if newcomers > 0 and has_joined(picked, start, given, R + i):
            continue
        size, tokens = doubled(rows, row), rows[LEFT, row]
        if evicted < 0 and rows[EVICTIONS, row] > 0:
            evicted = i
        if shortest < 0 or size < least:
            shortest, least = i, size
        if fewest == 0 or tokens < fewest:
            fewest = tokens
        if tokens <= min(longest, free) and (fits < 0 or size < least_fits):
            whole, others = grows(limits, rows, row, tokens), max(reserve, R * tokens // budget_left)
            if whole <= spare and whole + others <= free:
                fits, least_fits = i, size
    foremost = evicted if evicted >= 0 else shortest
    if foremost >= 0:
        note(memory, rows, waiting[first + foremost], foremost, R, picked, start, given)
        memory[FEWEST] = fewest
    return foremost, fits
