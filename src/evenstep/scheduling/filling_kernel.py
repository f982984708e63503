# pyright: basic
"""Filling one batch, compiled: the twin of `filling.Filling`.

Tokens given so far stand in ``picked`` as (position, tokens); ``left`` holds what is left: `BUDGET_LEFT`, `SEATS`, `FREE`,
`PLACES` for requests that hold memory.
"""

from __future__ import annotations

from evenstep.compiled import borrowing, borrowing_inlined
from evenstep.scheduling.view import (
    BATCH_LIMIT,
    BLOCK_TOKENS,
    HOLD_PRODUCED,
    KV_FREE,
    LEFT,
    PREFILLED,
    RESIDENT,
    RESIDENT_LIMIT,
    TOKEN_BUDGET,
)

#: Entries of `left`; the scratch space a policy needs for it.
BUDGET_LEFT, SEATS, FREE, PLACES = range(4)
ROOM = 4


@borrowing_inlined
def open_batch(limits, left, R):
    """Nothing is given yet; R requests hold memory."""
    left[PLACES] = limits[RESIDENT_LIMIT] - R
    left[BUDGET_LEFT], left[SEATS], left[FREE] = limits[TOKEN_BUDGET], limits[BATCH_LIMIT], limits[KV_FREE]


@borrowing_inlined
def grows(limits, rows, row, tokens):
    """KV tokens of memory that running `tokens` more of a request takes."""
    held = rows[PREFILLED, row] + tokens
    if tokens == rows[LEFT, row]:
        held += limits[HOLD_PRODUCED]
    block, resident = limits[BLOCK_TOKENS], rows[RESIDENT, row]
    if block > 1:
        if held <= resident:  # within the block it holds already: no division
            return 0
        held = (held + block - 1) // block * block
    return held - resident


@borrowing_inlined
def most(left, rows, row):
    """Tokens of a request that budget, seats and places in memory allow."""
    if left[SEATS] <= 0 or (left[PLACES] <= 0 and rows[RESIDENT, row] == 0):
        return 0
    return min(rows[LEFT, row], left[BUDGET_LEFT])


@borrowing_inlined
def give(limits, left, rows, row, tokens, position, picked, given):
    """Run `tokens` of a request, the `given`-th of the batch; how many there are now."""
    picked[0, given], picked[1, given] = position, tokens
    left[BUDGET_LEFT] -= tokens
    left[SEATS] -= 1
    if rows[RESIDENT, row] == 0:
        left[PLACES] -= 1
    left[FREE] -= grows(limits, rows, row, tokens)
    return given + 1


@borrowing
def offer(limits, left, rows, row, position, reserve, picked, given):
    """Run as much of a request as the budget allows, if that leaves `reserve` KV tokens; how many are given now."""
    tokens = most(left, rows, row)
    if tokens < 1 or grows(limits, rows, row, tokens) > left[FREE] - reserve:
        return given
    return give(limits, left, rows, row, tokens, position, picked, given)


@borrowing
def admit(limits, left, rows, row, position, reserve, picked, given):
    """`offer`, if memory holds the whole of its prefill and `reserve` beside it; how many are given now."""
    if grows(limits, rows, row, rows[LEFT, row]) > left[FREE] - reserve:
        return given
    return offer(limits, left, rows, row, position, 0, picked, given)
