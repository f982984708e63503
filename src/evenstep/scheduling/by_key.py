"""Runs requests by priority: the smallest key goes first, running or waiting.

Running requests that the batch's limits leave out pause and keep their KV. If memory is short, the running request with the
largest key is evicted for running requests with smaller keys; with `makes_room` also for waiting ones (`make_room`).

If the request with the smallest key holds memory, it runs in every iteration and keeps its memory. So every run ends if keys
change by service alone, up or down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from evenstep.compiled import part
from evenstep.scheduling.batch import Batch, give, grows, most, share_of_memory, vacate
from evenstep.scheduling.rules import RunningFloats, RunningInts
from evenstep.scheduling.view import RuleView


class KeyedWork(NamedTuple):
    """The batch, and working space: positions of running requests, smallest key first, and the key of each by position."""

    batch: Batch
    order: RunningInts
    key: RunningFloats


@part
def run_by_key(
    view: RuleView, options: Any, work: KeyedWork, key_of: Callable[..., float], makes_room: bool, watermark: float
) -> None:
    """Form one batch by keys: the smallest key runs first. Among equal keys, running requests go first, by admission.

    The first waiting request that is not admitted ends admissions.

    Args:
        key_of: ``(view, options, row)`` -> a request's key; the policy's `order` must sort the queue by the same key.
        makes_room: whether running requests with larger keys are evicted for a waiting one that lacks memory or a place
            (`Batch.places`).
        watermark: share of the memory that an admission leaves free while others run.
    """
    batch, runs, waits = work.batch, view.running.size, view.waiting.size
    sort_running(view, options, work, key_of)
    reserve = share_of_memory(view, watermark)
    at, i, is_admitting = 0, 0, waits > 0
    while is_admitting or at < runs - batch.gone[0]:
        goes_before = is_admitting
        if is_admitting and at < runs - batch.gone[0]:
            goes_before = key_of(view, options, view.waiting[i]) < work.key[work.order[at]]
        if goes_before:
            left_free = reserve if runs > 0 or batch.given[0] > 0 else 0
            is_admitted = admit_by_key(view, work, i, at, makes_room, left_free)
            i += 1
            is_admitting = is_admitted and i < waits
        else:
            run_next(view, work, at)
            at += 1


@part
def sort_running(view: RuleView, options: Any, work: KeyedWork, key_of: Callable[..., float]) -> None:
    """Write the keys of running requests to `work.key`, and their positions, by key, ties by admission, to `work.order`."""
    for position in range(view.running.size):
        key = key_of(view, options, view.running[position])
        work.key[position] = key
        at = position
        while at > 0 and work.key[work.order[at - 1]] > key:
            work.order[at] = work.order[at - 1]
            at -= 1
        work.order[at] = position


@part
def evict_last(view: RuleView, work: KeyedWork) -> None:
    """Evict the last request of `work.order` not yet evicted, and free its memory; the batch must hold no tokens of it."""
    last: int = view.running.size - work.batch.gone[0] - 1
    vacate(view, work.batch, work.order[last])


@part
def run_next(view: RuleView, work: KeyedWork, at: int) -> None:
    """Run the request at index `at` of `work.order`, as many tokens as budget and seats allow.

    While they do not fit the memory, the last running request of `work.order` is evicted. If none is left after index `at`,
    the request at `at` pauses.
    """
    batch = work.batch
    position: int = work.order[at]
    row: int = view.running[position]
    tokens: int = most(view, batch, row)
    while tokens > 0 and grows(view, row, tokens) > batch.free[0]:
        if view.running.size - batch.gone[0] == at + 1:
            return
        evict_last(view, work)
    if tokens > 0:
        give(view, batch, row, position, tokens)


@part
def admit_by_key(view: RuleView, work: KeyedWork, i: int, at: int, makes_room: bool, reserve: int) -> bool:
    """Admit the waiting request at index `i` of the queue if its whole prefill fits and leaves `reserve` KV tokens free.

    Its prefill then runs as far as the budget allows. It is not admitted without budget, seat or place. With `makes_room`,
    `make_room` first evicts running requests from index `at` of `work.order` on, which the caller knows to have larger keys.
    Returns true if it is admitted.
    """
    batch = work.batch
    row: int = view.waiting[i]
    if batch.seats[0] <= 0 or batch.budget[0] <= 0:
        return False
    needed = grows(view, row, view.left[row]) + reserve
    if makes_room:
        make_room(view, work, needed, at)
    tokens: int = most(view, batch, row)
    if tokens < 1 or needed > batch.free[0]:
        return False
    give(view, batch, row, view.running.size + i, tokens)
    return True


@part
def make_room(view: RuleView, work: KeyedWork, needed: int, at: int) -> None:
    """Evict running requests, the largest key first, until `needed` KV tokens and a place (`Batch.places`) are free.

    Only those from index `at` of `work.order` on may be evicted. If all of them together would not free `needed` KV tokens,
    no request is evicted.
    """
    batch, runs = work.batch, view.running.size
    if needed <= batch.free[0] and batch.places[0] > 0:
        return
    held = batch.free[0]
    for i in range(at, runs - batch.gone[0]):
        held += view.resident[view.running[work.order[i]]]
    if needed > held:
        return
    while runs - batch.gone[0] > at and (needed > batch.free[0] or batch.places[0] <= 0):
        evict_last(view, work)
