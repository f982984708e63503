"""Keeps the KV of evicted and finished requests in free memory, until the memory is needed.

A request that gives up its memory leaves its KV there until others take it: the oldest blocks first, and of one request the
last blocks first. Tokens still kept when the request comes back are not computed again. An engine's prefix cache does this
for evicted requests; prefixes that different requests share are not modelled. A waiting request that loses kept KV has more
tokens left to run (`set_left`).
"""

from __future__ import annotations

from evenstep.compiled import part
from evenstep.sim.engine.model import Run


@part
def leave(run: Run, row: int, blocks: int) -> None:
    """Append the `blocks` blocks that a request gives up to the list of kept memory, and set its `kept_at`.

    With 0 blocks nothing happens.
    """
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
    """Remove entries without blocks from the list of kept memory, so that new ones fit at its end; renumbers `kept_at`."""
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
    """Remove the kept entry of a request that comes back. Returns how many of its blocks are readable, 0 without an entry.

    The entry's other blocks become unused.
    """
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
def set_left(run: Run, row: int) -> None:
    """Set a request's `left`, the tokens it could run in one batch now, and `decoding`, 1 if that is a decode, else 0.

    They follow from its prompt, prefilled and produced tokens; call it after each change of these.
    """
    request = run.requests.shown[row]
    pending = request.prompt_tokens + request.produced - request.prefilled
    if run.fixed.first_decoded == 1:
        request.left = max(pending, 1)
        request.decoding = int(pending <= 0)
    else:
        request.left = pending
        request.decoding = int(request.produced > 0 and pending == 1)


@part
def lose(run: Run, row: int, blocks: int) -> None:
    """Record that only the first `blocks` blocks of a request's kept KV are still readable.

    If the request waits, its prefilled tokens fall to these blocks: it computes the rest again, and the rest counts as
    wasted. With 0 blocks its `kept_at` becomes 0. The caller changes the entry.
    """
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
    """Take `blocks` blocks of free memory: unused ones first, then the longest kept, the last blocks of a request first.

    The prefilled tokens of requests that lose kept blocks fall accordingly. At least `blocks` blocks must be free.
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
