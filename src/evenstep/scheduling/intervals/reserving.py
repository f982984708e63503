"""Admitting by a believed output length so that memory suffices to the end: A_max, H-SF, A_random and A_ell.

Those that run grow, in order of admission, decodes before chunks of prefills. As long as they fit to their ends (eq. 3)
all do. Where a token budget or a batch limit has kept some from running, memory may need some to pause, with what they
hold. Those nearest to their end go on: while believed lengths are upper bounds, no request is ever evicted. Where one
was not, the request admitted last gives way. Then the queue is taken in order while eq. 3 allows.

A policy says which length it believes by a function ``believed(view, options, row)``.
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
    """The batch; a mark (`GROWS` ..) and an eviction key for each running position; and the requests that stay."""

    batch: Batch
    mark: RunningInts
    ahead: Ahead
    key: RunningFloats


@part
def highest(view: RuleView, options: Any, row: int) -> int:
    """The upper bound of a request's output in tokens; `UNKNOWN` without one."""
    return view.output_high[row] if view.output_high[row] > 0 else UNKNOWN


@part
def lowest_then_highest(view: RuleView, options: Any, row: int) -> int:
    """A request's lower bound until it has reached it, then its upper bound, tokens; `UNKNOWN` without one.

    Tokens produced before an eviction count.
    """
    low = view.output_low[row]
    if max(view.reached[row], view.produced[row]) < low:
        return low
    return highest(view, options, row)


@part
def form_reserved(
    view: RuleView, options: Any, work: ReservedWork, believed: Callable[..., int], moves: bool, share: float
) -> None:
    """Form a batch in which memory suffices for each request to its believed end, as this module's text says.

    Args:
        believed: ``(view, options, row)``, output length of a request, tokens.
        moves: whether a request that was never evicted and whose output is just its lower bound, if it has one, is evicted
            to the queue's end, unless all that wait fit first.
        share: of the memory that admissions may fill, 0 to 1.
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
    """Start requests of the queue in order, up to the first that the batch's limits keep out, or that would not fit with
    those that stay until each has reached its believed end; returns how many started.

    If no request holds memory, the first one starts in any case; the engine has checked that it fits alone.

    Args:
        believed: ``(view, options, row)``, output length of a request, tokens.
        share: of the memory that may be filled, 0 to 1.
        count: entries at the front of `work.ahead`, sorted: one for each request that stays. One is inserted for each that
            starts.
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
    """Undo evictions of this batch, in their order, while the requests fit with the `count` entries of `work.ahead`.

    A request that fits runs in this batch with what it holds, and is marked `GROWS`. The first that does not ends this.
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
