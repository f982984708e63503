"""Free memory that still holds the KV of requests that left it, in plain Python.

A request that gives up its memory leaves its KV there until others take it: the oldest blocks first, of one request's the
last ones first. What is left when it comes back need not be computed again. That is what an engine's prefix cache does for
it; its own copies of other requests' beginnings are not modelled here. State as the compiled loop keeps it
(`engine.layout`): a row of `hidden` is the queue of free memory.
"""

from __future__ import annotations

from evenstep.scheduling.view import PREFILLED, RESIDENT
from evenstep.sim.engine import layout as at
from evenstep.sim.engine.layout import EngineState


def leave(state: EngineState, row: int, blocks: int) -> None:
    """Memory a request gives up joins the free memory's end."""
    if not blocks:
        return
    numbers, hidden = state.state_i, state.hidden
    if numbers[at.KEPT_LAST] == hidden.shape[1]:
        queue = range(numbers[at.KEPT_FIRST], numbers[at.KEPT_LAST])
        kept = [i for i in queue if hidden[at.KEPT_BLOCKS, i] > 0]
        for place, i in enumerate(kept):
            hidden[at.KEPT_ROW : at.KEPT_BLOCKS + 1, place] = hidden[at.KEPT_ROW : at.KEPT_BLOCKS + 1, i]
            hidden[at.KEPT_AT, hidden[at.KEPT_ROW, place]] = place + 1
        numbers[at.KEPT_FIRST], numbers[at.KEPT_LAST] = 0, len(kept)
    last = numbers[at.KEPT_LAST]
    hidden[at.KEPT_ROW, last], hidden[at.KEPT_BLOCKS, last] = row, blocks
    numbers[at.KEPT_LAST] += 1
    hidden[at.KEPT_AT, row] = numbers[at.KEPT_LAST]


def returns(state: EngineState, row: int) -> int:
    """A request takes back what is left of its memory; in blocks."""
    place = int(state.hidden[at.KEPT_AT, row]) - 1
    if place < 0:
        return 0
    back = int(state.rows[PREFILLED, row] // state.numbers_i[at.BLOCK])
    state.state_i[at.UNUSED] += state.hidden[at.KEPT_BLOCKS, place] - back
    state.hidden[at.KEPT_BLOCKS, place] = 0
    state.hidden[at.KEPT_AT, row] = 0
    return back


def overwrite(state: EngineState, blocks: int) -> list[int]:
    """Blocks are taken from the free memory; the waiting requests that lost KV by it."""
    numbers, hidden, rows = state.state_i, state.hidden, state.rows
    taken = min(blocks, int(numbers[at.UNUSED]))
    numbers[at.UNUSED] -= taken
    blocks -= taken
    lost_some: list[int] = []
    while blocks > 0:
        first = int(numbers[at.KEPT_FIRST])
        row, held = int(hidden[at.KEPT_ROW, first]), int(hidden[at.KEPT_BLOCKS, first])
        taken = min(blocks, held)
        blocks -= taken
        hidden[at.KEPT_BLOCKS, first] = held - taken
        is_waiting = not state.times[at.FINISHED_S, row] >= 0.0 and rows[RESIDENT, row] == 0
        lost = int(rows[PREFILLED, row] - (held - taken) * state.numbers_i[at.BLOCK])
        if taken > 0 and lost > 0 and is_waiting:
            rows[PREFILLED, row] -= lost
            hidden[at.WASTED, row] += lost
            numbers[at.WASTED_ALL] += lost
            lost_some.append(row)
        if held == taken:
            if taken > 0:
                hidden[at.KEPT_AT, row] = 0
            numbers[at.KEPT_FIRST] += 1
    return lost_some
