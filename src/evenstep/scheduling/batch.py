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
        picked, tokens: int64[R+W], the batch so far: positions, and the tokens that each runs; `given` entries are valid.
        evicted: int64[R], positions of running requests that give up their memory, in any order; `gone` entries are valid.
        memory: int64[M], words that the policy keeps from one decision to the next, written in place.
        given, gone: int64[1], numbers of entries written in `picked` and in `evicted`.
        budget, seats: int64[1], tokens and requests that the batch may still run.
        free: int64[1], KV tokens of memory that are still free, after the batch so far.
        places: int64[1], requests without memory that may still get some (`resident_limit`).
        wake_s: float64[1], the host's time to ask again at the latest if nothing runs, seconds; inf on entry.
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
    """Read the float64 that `keep` wrote to a word of the policy's memory; 0.0 before that."""
    return np.int64(memory[word]).view(np.float64)


@part
def keep(memory: Ints, word: int, value: float) -> None:
    """Write the bits of a float64 to the int64 at index `word` of the policy's memory."""
    memory[word] = np.float64(value).view(np.int64)


@part
def opened(view: RuleView, batch: Batch) -> None:
    """Reset the batch to empty, with all limits of the view and `wake_s` inf; the policy's memory stays."""
    batch.given[0] = 0
    batch.gone[0] = 0
    batch.budget[0] = view.token_budget
    batch.seats[0] = view.batch_limit
    batch.free[0] = view.kv_free
    batch.places[0] = view.resident_limit - view.running.size
    batch.wake_s[0] = np.inf


@part
def grows(view: RuleView, row: int, tokens: int) -> int:
    """KV tokens of memory, in whole blocks, that running `tokens` more of a request takes beyond what it holds.

    0 if they fit into blocks that it holds. A token that it produces counts if `hold_produced` is 1.
    """
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
    """KV tokens of a share, 0 to 1, of the whole memory, rounded down to whole blocks."""
    return int(share * (view.kv_capacity // view.block_tokens)) * view.block_tokens


def check_watermark(policy: str, watermark: float) -> None:
    """Refuse a watermark outside 0 <= watermark < 1, with an InputError that names `policy`."""
    check_range(policy, "a share of the memory, 0 <= share < 1", low=0, below=1, watermark=watermark)


@part
def most(view: RuleView, batch: Batch, row: int) -> int:
    """The most tokens of a request that budget, seats and places let run now; 0 = it cannot run.

    Only a request without memory needs a place. Free memory is not checked.
    """
    if batch.seats[0] <= 0 or (batch.places[0] <= 0 and view.resident[row] == 0):
        return 0
    return min(view.left[row], batch.budget[0])


@part
def give(view: RuleView, batch: Batch, row: int, position: int, tokens: int) -> None:
    """Append `tokens` of a request to the batch, and lower all limits by what they take.

    The caller has checked that they fit, and that the batch has none of the request's tokens yet.
    """
    give_grown(view, batch, row, position, tokens, grows(view, row, tokens))


@part
def give_grown(view: RuleView, batch: Batch, row: int, position: int, tokens: int, taken: int) -> None:
    """`give`, for a caller that knows `taken`, the KV tokens of memory that this takes (`grows`)."""
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
    """Run a token of each running request that decodes, in order of admission, up to the first that cannot run.

    A request cannot run if budget, seats or free memory do not suffice, or if it holds no memory. If requests were evicted
    in this batch, they must be those admitted last; they are left out. `passes_prefills` skips running prefills; otherwise
    the first of them stops this function too.

    Returns the position of the request that stopped it; if none did, one after the last running request not evicted.
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
    """Run as many tokens of a request as `most` allows, if they fit and `reserve` KV tokens of memory remain free.

    Memory is all or nothing: it does not lower the number of tokens. Returns whether the request runs; if not, the batch is
    unchanged.
    """
    tokens: int = most(view, batch, row)
    taken: int = grows(view, row, tokens)
    if tokens < 1 or taken > batch.free[0] - reserve:
        return False
    give_grown(view, batch, row, position, tokens, taken)
    return True


@part
def admit(view: RuleView, batch: Batch, row: int, position: int, reserve: int) -> bool:
    """`offer`, if memory holds the request's whole prefill and `reserve` KV tokens more, not only the chunk that runs now.

    `position` is the one in the answer: for a waiting request, ``view.running.size`` plus its place in `view.waiting`.

    Returns whether the request runs; if not, the batch is unchanged.
    """
    if grows(view, row, view.left[row]) > batch.free[0] - reserve:
        return False
    return offer(view, batch, row, position, 0)


@part
def admit_first(view: RuleView, batch: Batch, waits: int, reserve: int) -> None:
    """Admit the first `waits` requests of the queue in order, up to the first that cannot run.

    A request runs, as much as the budget allows, if its whole prefill fits and leaves `reserve` KV tokens free.
    """
    for i in range(waits):
        if not admit(view, batch, view.waiting[i], view.running.size + i, reserve):
            break


@part
def vacate(view: RuleView, batch: Batch, position: int) -> None:
    """Evict a running request to which the batch has given no tokens; its memory and its place are free at once."""
    batch.free[0] += view.resident[view.running[position]]
    batch.places[0] += 1
    batch.evicted[batch.gone[0]] = position
    batch.gone[0] += 1


@part
def take_back(view: RuleView, batch: Batch, row: int, position: int) -> None:
    """Take back the tokens that the batch has given to a request, with the budget, seat, place and memory they took.

    Its entry remains with 0 tokens (`drop_empty`). A request without tokens changes nothing.
    """
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
    """Evict a running request, and take back the tokens the batch has given it; its memory and place are free at once."""
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
    """Remove entries of `picked` that have 0 tokens; the others keep their order."""
    written = 0
    for p in range(batch.given[0]):
        if batch.tokens[p] > 0:
            batch.picked[written], batch.tokens[written] = batch.picked[p], batch.tokens[p]
            written += 1
    batch.given[0] = written


@part
def closed(batch: Batch) -> None:
    """If requests were evicted, remove entries without tokens and sort the evicted positions, as hosts require.

    A rule need not call it, since it is called after every rule. Without evictions it does nothing: a rule that took tokens
    back calls `drop_empty` itself.
    """
    if batch.gone[0] == 0:
        return
    drop_empty(batch)
    for e in range(1, batch.gone[0]):
        at, position = e, batch.evicted[e]
        while at > 0 and batch.evicted[at - 1] > position:
            batch.evicted[at] = batch.evicted[at - 1]
            at -= 1
        batch.evicted[at] = position
