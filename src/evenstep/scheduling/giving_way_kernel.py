# pyright: basic
"""Whoever holds memory goes on or gives it up, compiled: the twin of `giving_way`.

Requests that run carry a mark, one word each by position, from `marks` on in the working space `left`.
"""

from __future__ import annotations

from evenstep.compiled import borrowing
from evenstep.scheduling.filling_kernel import BUDGET_LEFT, FREE, PLACES, SEATS, grows, offer
from evenstep.scheduling.view import DECODING, LEFT, RESIDENT

#: Goes on; pauses with what it holds; gives up its memory.
GROWS, PAUSES, LEAVES = range(3)


@borrowing
def needed(limits, left, rows, running, marks, R):
    """KV tokens of memory that running those that go on takes, as far as budget and seats go."""
    budget, seats, total = left[BUDGET_LEFT], left[SEATS], 0
    for decoding in range(1, -1, -1):
        for position in range(R):
            row = running[position]
            if left[marks + position] != GROWS or rows[DECODING, row] != decoding:
                continue
            if seats == 0:
                return total
            seats -= 1
            tokens = min(rows[LEFT, row], budget)
            if tokens > 0:
                total += grows(limits, rows, row, tokens)
                budget -= tokens
    return total


@borrowing
def grow(limits, left, rows, running, marks, R, picked, given):
    """Tokens for those that go on, decodes first; how many are given."""
    for decoding in range(1, -1, -1):
        for position in range(R):
            row = running[position]
            if left[marks + position] == GROWS and rows[DECODING, row] == decoding:
                given = offer(limits, left, rows, row, position, 0, picked, given)
    return given


@borrowing
def grow_or_give_way(limits, left, rows, running, marks, R, kept, keys, picked, given):
    """Tokens for those that go on, the smallest keys giving way until they fit; how many are given.

    Args:
        kept: how many go on.
        keys: float64[*], by position.
    """
    while kept > 1 and needed(limits, left, rows, running, marks, R) > left[FREE]:
        victim = -1
        for position in range(R):
            if left[marks + position] == GROWS and (victim < 0 or keys[position] < keys[victim]):
                victim = position
        left[marks + victim] = LEAVES
        left[FREE] += rows[RESIDENT, running[victim]]
        left[PLACES] += 1
        kept -= 1
    return grow(limits, left, rows, running, marks, R, picked, given)


@borrowing
def leaving(left, marks, R, evicted):
    """Write down who gives up its memory, in order; how many."""
    gone = 0
    for position in range(R):
        if left[marks + position] == LEAVES:
            evicted[gone] = position
            gone += 1
    return gone
