"""Functions that fill one batch, from which the rules of engine policies are made.

A rule goes through requests in its own order and gives each its tokens. The functions keep count in a `Batch`: of tokens
(`budget`), requests (`seats`), free KV memory, requests that may get memory (`places`), and evictions. A request has a `row`
in the view's arrays and a `position` in the answer: running requests first, then the queue.
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
        evicted: int64[R], positions of running requests that lose their memory, in any order; `gone` entries are valid.
        memory: int64[M], words that the policy keeps from one decision to the next, written in place.
        given, gone: int64[1], numbers of entries written in `picked` and in `evicted`.
        budget, seats: int64[1], tokens and requests that the batch may still run.
        free: int64[1], KV tokens of memory that are still free, after the batch so far.
        places: int64[1], requests without memory that may still get some (`resident_limit`).
        wake_s: float64[1], the host's time, seconds, to ask again at the latest if no request runs; inf on entry.
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
    """Read the float64 that `keep` wrote to the int64 at index `word` of the policy's memory; 0.0 if none was written."""
    return np.int64(memory[word]).view(np.float64)


@part
def keep(memory: Ints, word: int, value: float) -> None:
    """Write the bits of a float64 to the int64 at index `word` of the policy's memory."""
    memory[word] = np.float64(value).view(np.int64)


@part
def opened(view: RuleView, batch: Batch) -> None:
    """Make the batch empty, with all limits of the view and `wake_s` inf; the policy's memory stays as it is."""
    batch.given[0] = 0
    batch.gone[0] = 0
    batch.budget[0] = view.token_budget
    batch.seats[0] = view.batch_limit
    batch.free[0] = view.kv_free
    batch.places[0] = view.resident_limit - view.running.size
    batch.wake_s[0] = np.inf


@part
def grows(view: RuleView, row: int, tokens: int) -> int:
    """KV tokens of memory, in whole blocks, that a request needs beyond what it holds to run `tokens` more.

    0 if they fit into blocks that it holds. If they are all of its `left`, it produces a token, which counts if
    `hold_produced` is 1.
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
    """The given share, 0 to 1, of the whole memory in KV tokens, rounded down to whole blocks."""
    return int(share * (view.kv_capacity // view.block_tokens)) * view.block_tokens


def check_watermark(policy: str, watermark: float) -> None:
    """Raise an InputError that names `policy` unless 0 <= watermark < 1."""
    check_range(policy, "a share of the memory, 0 <= share < 1", low=0, below=1, watermark=watermark)


@part
def most(view: RuleView, batch: Batch, row: int) -> int:
    """The most tokens of a request that may run: its `left`, at most the batch's `budget`; 0 without a seat or a place.

    A request that holds memory needs no place. Free memory is not checked.
    """
    if batch.seats[0] <= 0 or (batch.places[0] <= 0 and view.resident[row] == 0):
        return 0
    return min(view.left[row], batch.budget[0])


@part
def give(view: RuleView, batch: Batch, row: int, position: int, tokens: int) -> None:
    """Add `tokens` of a request to the batch, and lower `budget`, `seats` and `free`; `places` too if it holds no memory.

    The caller has checked that they fit, and that the batch has no tokens of the request yet.
    """
    give_grown(view, batch, row, position, tokens, grows(view, row, tokens))


@part
def give_grown(view: RuleView, batch: Batch, row: int, position: int, tokens: int, taken: int) -> None:
    """Add `tokens` of a request to the batch and lower its limits, `free` by `taken`, which the caller got from `grows`."""
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
    """Run one token of each running request that decodes, in order of admission, up to the first that cannot run.

    A request cannot run if budget, seats or free memory do not suffice. With `passes_prefills` running prefills are skipped;
    otherwise the first of them stops the function, too. Requests evicted in this batch must be those admitted last; they are
    left out.

    Returns the position at which the function stopped; if no request stopped it, the number of running requests not evicted.
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
    """Run as many tokens of a request as `most` allows, if their memory fits and leaves `reserve` KV tokens free.

    If memory is short it runs no token, rather than fewer. Returns true if the request runs; otherwise the batch is
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
    """Run as many tokens of a request as `most` allows, if its whole prefill fits and leaves `reserve` KV tokens free.

    For a waiting request, `position` is ``view.running.size`` plus its index in `view.waiting`. Returns true if the request
    runs; otherwise, also if `most` is 0, the batch is unchanged.
    """
    if grows(view, row, view.left[row]) > batch.free[0] - reserve:
        return False
    return offer(view, batch, row, position, 0)


@part
def admit_first(view: RuleView, batch: Batch, waits: int, reserve: int) -> None:
    """Admit (`admit`, with this `reserve`) the first `waits` requests of the queue, up to the first that cannot run."""
    for i in range(waits):
        if not admit(view, batch, view.waiting[i], view.running.size + i, reserve):
            break


@part
def vacate(view: RuleView, batch: Batch, position: int) -> None:
    """Evict a running request, of which the batch must hold no tokens; its memory and its place are free at once."""
    batch.free[0] += view.resident[view.running[position]]
    batch.places[0] += 1
    batch.evicted[batch.gone[0]] = position
    batch.gone[0] += 1


@part
def take_back(view: RuleView, batch: Batch, row: int, position: int) -> None:
    """Take a request's tokens out of the batch, and give back to its limits the budget, seat, place and memory they took.

    The entry in `picked` stays with 0 tokens; the caller calls `drop_empty`. If the request has no tokens, nothing changes.
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
    """Evict a running request, and take its tokens out of the batch; its memory and place are free at once."""
    take_back(view, batch, view.running[position], position)
    vacate(view, batch, position)


@part
def is_evicted(batch: Batch, position: int) -> bool:
    """True if the running request at this position is evicted in this batch."""
    found = False
    for e in range(batch.gone[0]):
        found = found or batch.evicted[e] == position
    return found


@part
def in_queue_order(batch: Batch, start: int) -> None:
    """Sort the entries of the batch from index `start` on by position: hosts require waiting requests in ascending order."""
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

    The generated ``form_batch_into`` calls it after the rule. Without evictions it does nothing, so a rule that took tokens
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
