"""Functions that fill one batch; the rules of engine policies are made of them.

A rule walks over requests in its own order and gives each its tokens. The functions here keep count of budget, seats,
memory, places for requests that hold memory, and evictions, all in a `Batch`. A request is named twice: by its
`row` in the view's arrays, and by its `position`, which the answer takes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenstep.compiled import Floats, Ints, part
from evenstep.errors import check_range
from evenstep.scheduling.view import RuleView


class Batch(NamedTuple):
    """The batch that a rule fills, the limits left for it, and the policy's memory.

    Write it with the functions of this file, which keep the counts.

    Args:
        picked, tokens: int64[R+W], the batch so far: positions, and the tokens that each runs.
        evicted: int64[R], positions of running requests that give up their memory, in any order.
        memory: int64[M], what the policy keeps.
        given, gone: int64[1], entries of `picked` and of `evicted` that are written.
        budget, seats: int64[1], tokens and requests that the batch may still run.
        free: int64[1], KV tokens of memory that are still free.
        places: int64[1], requests that may still join those that hold memory.
        wake_s: float64[1], when to ask again at the latest if nothing runs; inf on entry.
    """

    picked: Ints
    tokens: Ints
    evicted: Ints
    memory: Ints
    given: Ints
    gone: Ints
    budget: Ints
    seats: Ints
    free: Ints
    places: Ints
    wake_s: Floats


@part
def kept(memory: Ints, word: int) -> float:
    """Read a float64 whose bits are kept in a word of the policy's memory."""
    return np.int64(memory[word]).view(np.float64)


@part
def keep(memory: Ints, word: int, value: float) -> None:
    """Keep the bits of a float64 in a word of the policy's memory."""
    memory[word] = np.float64(value).view(np.int64)


@part
def opened(view: RuleView, batch: Batch) -> None:
    """Reset the batch to empty, with all limits of the view."""
    batch.given[0] = 0
    batch.gone[0] = 0
    batch.budget[0] = view.token_budget
    batch.seats[0] = view.batch_limit
    batch.free[0] = view.kv_free
    batch.places[0] = view.resident_limit - view.running.size
    batch.wake_s[0] = np.inf


@part
def grows(view: RuleView, row: int, tokens: int) -> int:
    """KV tokens of memory that running `tokens` more of a request takes, in whole blocks."""
    held = view.prefilled[row] + tokens
    if tokens == view.left[row]:
        held += view.hold_produced
    block, resident = view.block_tokens, view.resident[row]
    if block > 1:
        if held <= resident:  # within the block that it holds already: no division
            return 0
        held = (held + block - 1) // block * block
    return held - resident


@part
def share_of_memory(view: RuleView, share: float) -> int:
    """KV tokens of a share of the memory, in whole blocks."""
    return int(share * (view.kv_capacity // view.block_tokens)) * view.block_tokens


def check_watermark(policy: str, watermark: float) -> None:
    """Refuse a watermark that is not a share.

    Raises:
        InputError: naming it.
    """
    check_range(policy, "a share of the memory, 0 <= share < 1", low=0, below=1, watermark=watermark)


@part
def most(view: RuleView, batch: Batch, row: int) -> int:
    """The most tokens of a request that budget, seats and places let run now; 0 = none. Free memory is not checked."""
    if batch.seats[0] <= 0 or (batch.places[0] <= 0 and view.resident[row] == 0):
        return 0
    return min(view.left[row], batch.budget[0])


@part
def give(view: RuleView, batch: Batch, row: int, position: int, tokens: int) -> None:
    """Add `tokens` of a request to the batch. The caller has checked that they fit."""
    give_grown(view, batch, row, position, tokens, grows(view, row, tokens))


@part
def give_grown(view: RuleView, batch: Batch, row: int, position: int, tokens: int, taken: int) -> None:
    """`give`, for a caller that knows the KV tokens of memory this takes."""
    given = batch.given[0]
    batch.picked[given], batch.tokens[given] = position, tokens
    batch.given[0] = given + 1
    batch.budget[0] -= tokens
    batch.seats[0] -= 1
    if view.resident[row] == 0:
        batch.places[0] -= 1
    batch.free[0] -= taken


@part
def give_decodes(view: RuleView, batch: Batch, passes_prefills: bool) -> int:
    """Run the running requests that decode, in order of admission, up to the first that cannot run.

    If requests were evicted in this batch, they must be those admitted last; they are left out.

    Args:
        passes_prefills: whether to skip running prefills; if not, the first of them stops this function too.

    Returns:
        The position of the request that stopped it; if none did, one after the last running request not evicted.
    """
    given, free = batch.given[0], batch.free[0]
    end = given + min(batch.budget[0], batch.seats[0])
    start, stop = given, view.running.size - batch.gone[0]
    for position in range(stop):
        row: int = view.running[position]
        if view.decoding[row] == 1:
            taken = grows(view, row, 1)
            if given >= end or taken > free or view.resident[row] == 0:
                stop = position
                break
            batch.picked[given], batch.tokens[given] = position, 1
            given += 1
            free -= taken
        elif not passes_prefills:
            stop = position
            break
    batch.given[0], batch.free[0] = given, free
    batch.budget[0] -= given - start
    batch.seats[0] -= given - start
    return stop


@part
def offer(view: RuleView, batch: Batch, row: int, position: int, reserve: int) -> bool:
    """Run as much of a request as the budget allows, if `reserve` KV tokens of memory remain free.

    Returns:
        Whether it runs.
    """
    tokens: int = most(view, batch, row)
    taken: int = grows(view, row, tokens)
    if tokens < 1 or taken > batch.free[0] - reserve:
        return False
    give_grown(view, batch, row, position, tokens, taken)
    return True


@part
def admit(view: RuleView, batch: Batch, row: int, position: int, reserve: int) -> bool:
    """`offer`, if memory holds the request's whole prefill and `reserve` more, not only the chunk that runs now."""
    if grows(view, row, view.left[row]) > batch.free[0] - reserve:
        return False
    return offer(view, batch, row, position, 0)


@part
def vacate(view: RuleView, batch: Batch, position: int) -> None:
    """Evict a running request to which the batch has given no tokens."""
    batch.free[0] += view.resident[view.running[position]]
    batch.places[0] += 1
    batch.evicted[batch.gone[0]] = position
    batch.gone[0] += 1


@part
def take_back(view: RuleView, batch: Batch, row: int, position: int) -> None:
    """Take back the tokens that the batch has given to a request. Its entry remains, without tokens (`drop_empty`)."""
    for p in range(batch.given[0]):
        if batch.picked[p] == position and batch.tokens[p] > 0:
            tokens: int = batch.tokens[p]
            batch.free[0] += grows(view, row, tokens)
            batch.budget[0] += tokens
            batch.seats[0] += 1
            batch.tokens[p] = 0
            if view.resident[row] == 0:
                batch.places[0] += 1


@part
def evict(view: RuleView, batch: Batch, position: int) -> None:
    """Evict a running request, and take back the tokens the batch has given it."""
    take_back(view, batch, view.running[position], position)
    vacate(view, batch, position)


@part
def is_evicted(batch: Batch, position: int) -> bool:
    """Whether a running request is evicted in this batch."""
    found = False
    for e in range(batch.gone[0]):
        found = found or batch.evicted[e] == position
    return found


@part
def in_queue_order(batch: Batch, start: int) -> None:
    """Sort the batch by position from entry `start` on, because hosts want waiting requests in ascending order."""
    for p in range(start + 1, batch.given[0]):
        at, position, tokens = p, batch.picked[p], batch.tokens[p]
        while at > start and batch.picked[at - 1] > position:
            batch.picked[at], batch.tokens[at] = batch.picked[at - 1], batch.tokens[at - 1]
            at -= 1
        batch.picked[at], batch.tokens[at] = position, tokens


@part
def drop_empty(batch: Batch) -> None:
    """Remove entries without tokens."""
    written = 0
    for p in range(batch.given[0]):
        if batch.tokens[p] > 0:
            batch.picked[written], batch.tokens[written] = batch.picked[p], batch.tokens[p]
            written += 1
    batch.given[0] = written


@part
def closed(batch: Batch) -> None:
    """If requests were evicted, remove entries without tokens and sort the evicted positions, as hosts require."""
    if batch.gone[0] == 0:
        return
    drop_empty(batch)
    for e in range(1, batch.gone[0]):
        at, position = e, batch.evicted[e]
        while at > 0 and batch.evicted[at - 1] > position:
            batch.evicted[at] = batch.evicted[at - 1]
            at -= 1
        batch.evicted[at] = position
