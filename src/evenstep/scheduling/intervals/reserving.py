"""Admits by believed output lengths so that memory suffices until all have finished: A_max, H-SF, A_random and A_ell.

Running requests run first, decodes before chunks of prefills, each in order of admission. If memory does not suffice for all
until they finish (eq. 3), for instance after a token budget held some back, only those nearest to their end run. The others
pause with what they hold. While believed lengths are upper bounds, no request is evicted; otherwise those admitted last may
be. Then requests are admitted in order of the queue while eq. 3 allows.

A policy gives the length that it believes as a function ``believed(view, options, row)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from evenstep.compiled import part
from evenstep.scheduling.batch import Batch, offer
from evenstep.scheduling.intervals.eviction import GROWS, PAUSES, give_way, grow, leave
from evenstep.scheduling.intervals.feasible import UNKNOWN, Ahead, base, fits_with, insert, may_grow, put, remaining, sort
from evenstep.scheduling.rules import RunningFloats, RunningInts
from evenstep.scheduling.view import RuleView


class ReservedWork(NamedTuple):
    """The batch, and working space: for each running position a mark (`GROWS`, `PAUSES`, `LEAVES`) and an eviction key.

    `ahead` is a list for the functions of `feasible`.
    """

    batch: Batch
    mark: RunningInts
    ahead: Ahead
    key: RunningFloats


@part
def highest(view: RuleView, options: Any, row: int) -> int:
    """The upper bound of a request's output length in tokens; `UNKNOWN` if it has no bound."""
    return view.output_high[row] if view.output_high[row] > 0 else UNKNOWN


@part
def lowest_then_highest(view: RuleView, options: Any, row: int) -> int:
    """A request's lower bound until it has ever had that many tokens, then its upper bound; `UNKNOWN` without a bound."""
    low = view.output_low[row]
    if max(view.reached[row], view.produced[row]) < low:
        return low
    return highest(view, options, row)


@part
def form_reserved(
    view: RuleView, options: Any, work: ReservedWork, believed: Callable[..., int], moves: bool, share: float
) -> None:
    """Form a batch in which memory suffices for each request to its believed end: run or pause running ones, then admit.

    If running requests cannot all finish even so, those admitted last are evicted and no request is admitted.

    Args:
        believed: ``(view, options, row)`` -> believed output length of a request, tokens.
        moves: whether to evict a request, once, when its output reaches its lower bound, so that it waits at the queue's
            end. It keeps its memory and runs if all waiting requests are admitted and it still fits.
        share: share of the memory that admissions may fill, 0 to 1.
    """
    batch, ahead, count = work.batch, work.ahead, 0
    for position in range(view.running.size):
        row: int = view.running[position]
        work.key[position] = -position
        if moves and 0 < view.output_low[row] == view.produced[row] and view.evictions[row] == 0:
            leave(view, batch, work.mark, position)
        else:
            work.mark[position] = GROWS
            put(ahead, count, remaining(view, row, believed(view, options, row)), position, base(view, row))
            count += 1
    moving = batch.gone[0]
    sort(ahead, count)
    allowed = may_grow(ahead, count, view.kv_capacity)
    if count > 0 and allowed == 0:
        give_way(view, batch, work.mark, work.key, count)
        grow(view, batch, work.mark)
        return
    for i in range(allowed, count):
        work.mark[ahead.number[i]] = PAUSES
    grow(view, batch, work.mark)
    joined = admit_believed(view, options, work, believed, share, count)
    if moving > 0 and joined == view.waiting.size:
        take_back(view, options, work, believed, share, count + joined)


@part
def admit_believed(
    view: RuleView, options: Any, work: ReservedWork, believed: Callable[..., int], share: float, count: int
) -> int:
    """Admit requests of the queue in order, up to the first that would not fit until its end; returns how many.

    Each must fit, together with the requests that stay, until all have reached their believed ends. The limits of the batch
    also end admissions. If no request stays, the first starts in any case: the engine has checked that it fits alone.

    `believed` gives a length in tokens, `share` the share of memory to fill (`form_reserved`). `count` is the number of
    sorted entries in `work.ahead`, one for each request that stays; admitted ones are inserted.
    """
    ahead, capacity, joined = work.ahead, int(share * view.kv_capacity), 0
    for i in range(view.waiting.size):
        row: int = view.waiting[i]
        more, own = remaining(view, row, believed(view, options, row)), base(view, row)
        if count > 0 and not fits_with(ahead, count, capacity, more, own):
            break
        if not offer(view, work.batch, row, view.running.size + i, 0):
            break
        count = insert(ahead, count, more, own)
        joined += 1
    return joined


@part
def take_back(
    view: RuleView, options: Any, work: ReservedWork, believed: Callable[..., int], share: float, count: int
) -> None:
    """Undo evictions of this batch, first evicted first, up to a request that does not fit with those in `work.ahead`.

    A request whose eviction is undone keeps its memory, runs in this batch and is marked `GROWS`. Limits of the batch also
    end it. `count` is the number of entries in `work.ahead`.
    """
    batch, ahead, capacity = work.batch, work.ahead, int(share * view.kv_capacity)
    gone, kept = batch.gone[0], 0
    for e in range(gone):
        position: int = batch.evicted[e]
        row: int = view.running[position]
        more, own = remaining(view, row, believed(view, options, row)), base(view, row)
        if batch.places[0] <= 0 or (count > 0 and not fits_with(ahead, count, capacity, more, own)):
            break
        batch.free[0] -= view.resident[row]
        batch.places[0] -= 1
        if not offer(view, batch, row, position, 0):
            batch.free[0] += view.resident[row]
            batch.places[0] += 1
            break
        work.mark[position] = GROWS
        count = insert(ahead, count, more, own)
        kept += 1
    for e in range(kept, gone):
        batch.evicted[e - kept] = batch.evicted[e]
    batch.gone[0] = gone - kept
