# pyright: basic
"""Free memory that still holds the KV of requests that left it, compiled: the twin of `kept_reference`."""

from __future__ import annotations

from evenstep.compiled import borrowing
from evenstep.scheduling.view import PREFILLED, RESIDENT
from evenstep.sim.engine.layout import (
    BLOCK,
    FINISHED_S,
    KEPT_AT,
    KEPT_BLOCKS,
    KEPT_FIRST,
    KEPT_LAST,
    KEPT_ROW,
    UNUSED,
    WASTED,
    WASTED_ALL,
)


@borrowing
def leave(state_i, hidden, row, blocks):
    """Memory a request gives up joins the free memory's end."""
    if blocks == 0:
        return
    at = state_i[KEPT_LAST]
    if at == hidden.shape[1]:
        left = 0
        for i in range(state_i[KEPT_FIRST], at):
            if hidden[KEPT_BLOCKS, i] > 0:
                hidden[KEPT_ROW, left], hidden[KEPT_BLOCKS, left] = (
                    hidden[KEPT_ROW, i],
                    hidden[KEPT_BLOCKS, i],
                )
                hidden[KEPT_AT, hidden[KEPT_ROW, left]] = left + 1
                left += 1
        state_i[KEPT_FIRST], at = 0, left
    hidden[KEPT_ROW, at], hidden[KEPT_BLOCKS, at] = row, blocks
    hidden[KEPT_AT, row] = at + 1
    state_i[KEPT_LAST] = at + 1


@borrowing
def returns(state_i, numbers_i, rows, hidden, row):
    """A request takes back what is left of its memory; in blocks."""
    at = hidden[KEPT_AT, row] - 1
    if at < 0:
        return 0
    back = rows[PREFILLED, row] // numbers_i[BLOCK]
    state_i[UNUSED] += hidden[KEPT_BLOCKS, at] - back
    hidden[KEPT_BLOCKS, at] = 0
    hidden[KEPT_AT, row] = 0
    return back


@borrowing
def overwrite(state_i, numbers_i, rows, hidden, times, blocks):
    """Blocks are taken from the free memory: unused ones, then the oldest; of a request's, the last ones first."""
    taken = min(blocks, state_i[UNUSED])
    state_i[UNUSED] -= taken
    blocks -= taken
    first = state_i[KEPT_FIRST]
    while blocks > 0:
        row, held = hidden[KEPT_ROW, first], hidden[KEPT_BLOCKS, first]
        taken = min(blocks, held)
        blocks -= taken
        hidden[KEPT_BLOCKS, first] = held - taken
        if taken > 0:
            lost = rows[PREFILLED, row] - (held - taken) * numbers_i[BLOCK]
            if lost > 0 and not times[FINISHED_S, row] >= 0.0 and rows[RESIDENT, row] == 0:
                rows[PREFILLED, row] -= lost
                hidden[WASTED, row] += lost
                state_i[WASTED_ALL] += lost
            if held == taken:
                hidden[KEPT_AT, row] = 0
        if held == taken:
            first += 1
    state_i[KEPT_FIRST] = first
