"""Keeps the KV of evicted and finished requests in free memory, until the memory is needed.

A request that gives up its memory leaves its KV there until others take it: the oldest blocks first, of one request's
blocks the last ones first. Tokens still kept when the request comes back are not computed again. An engine's prefix
cache does this for evicted requests; beginnings that different requests share are not modelled.
"""

from __future__ import annotations

from evenstep.compiled import part
from evenstep.sim.engine.left import set_left
from evenstep.sim.engine.model import Run


@part
def leave(run: Run, row: int, blocks: int) -> None:
    """Append the `blocks` blocks that a request gives up, if any, to the list of free memory that still holds KV."""
    if blocks == 0:
        return
    now, kept = run.now, run.kept
    if now.kept_last == kept.size:
        pack(run)
    entry = kept[now.kept_last]
    entry.row, entry.blocks = row, blocks
    now.kept_last += 1
    run.requests.noted[row].kept_at = now.kept_last


@part
def pack(run: Run) -> None:
    """Remove entries without blocks from the list of kept memory, so that its end is free again."""
    now, kept, packed = run.now, run.kept, 0
    for i in range(now.kept_first, now.kept_last):
        if kept[i].blocks > 0:
            entry = kept[packed]
            entry.row, entry.blocks = kept[i].row, kept[i].blocks
            packed += 1
            run.requests.noted[entry.row].kept_at = packed
    now.kept_first, now.kept_last = 0, packed


@part
def returns(run: Run, row: int) -> int:
    """Give a request back what is left of its kept KV; returns the number of blocks, 0 if nothing is left."""
    noted = run.requests.noted[row]
    at = noted.kept_at - 1
    if at < 0:
        return 0
    entry = run.kept[at]
    back = run.requests.shown[row].prefilled // run.fixed.block_tokens
    run.now.unused_blocks += entry.blocks - back
    entry.blocks = 0
    noted.kept_at = 0
    return back


@part
def lose(run: Run, row: int, blocks: int) -> None:
    """Keep only the first `blocks` blocks of a request's KV. If it waits, it computes the rest again (wasted tokens)."""
    request, noted = run.requests.shown[row], run.requests.noted[row]
    lost = request.prefilled - blocks * run.fixed.block_tokens
    if lost > 0 and request.produced < run.requests.hidden[row].output_tokens and request.resident == 0:
        request.prefilled -= lost
        noted.wasted_tokens += lost
        run.now.wasted_tokens += lost
        set_left(run, row)
    if blocks == 0:
        noted.kept_at = 0


@part
def overwrite(run: Run, blocks: int) -> None:
    """Take `blocks` blocks from free memory: unused ones first, then the longest kept, of each request its last ones first.

    The requests' prefilled tokens fall accordingly. As many blocks must be free.
    """
    now = run.now
    taken = min(blocks, now.unused_blocks)
    now.unused_blocks -= taken
    blocks -= taken
    while blocks > 0:
        entry = run.kept[now.kept_first]
        taken = min(blocks, entry.blocks)
        blocks -= taken
        entry.blocks -= taken
        if taken > 0:
            lose(run, entry.row, entry.blocks)
        if entry.blocks == 0:
            now.kept_first += 1
