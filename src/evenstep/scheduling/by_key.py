"""Runs requests by priority: the smallest key goes first, running or waiting.

A request that is not reached pauses with its KV. When memory is short the running request with the largest key gives it
up, for running requests with smaller keys, and for waiting ones if they are to make room.

A request whose key is the smallest runs in every iteration and keeps its memory. With keys that rise only by what a
request is served, or that fall by it, every run comes to its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from evenstep.compiled import part
from evenstep.scheduling.batch import Batch, give, grows, most, share_of_memory, vacate
from evenstep.scheduling.rules import RunningFloats, RunningInts
from evenstep.scheduling.view import RuleView


class KeyedWork(NamedTuple):
    """The batch; the positions of running requests, smallest key first; and the key of each running position."""

    batch: Batch
    order: RunningInts
    key: RunningFloats


@part
def run_by_key(
    view: RuleView, options: Any, work: KeyedWork, key_of: Callable[..., float], makes_room: bool, watermark: float
) -> None:
    """Form one batch by keys: the smallest key runs first. Among equal keys, running requests go first, by admission.

    Admissions end with the first waiting request that does not fit.

    Args:
        key_of: ``(view, options, row)``, the key that the policy's `order` keeps the queue sorted by.
        makes_room: whether running requests with larger keys are evicted for one that waits and finds no memory or no place
            otherwise.
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
    """Write the keys of the running requests to `work.key`, and their positions to `work.order`.

    The order is by key, equal ones by admission.
    """
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
    """Evict the running request with the largest key of those not yet evicted."""
    last: int = view.running.size - work.batch.gone[0] - 1
    vacate(view, work.batch, work.order[last])


@part
def run_next(view: RuleView, work: KeyedWork, at: int) -> None:
    """Run the request at place `at` of `work.order`, as many tokens as budget and seats allow.

    While they do not fit the memory, the request with the largest key is evicted. If no larger key is left, it pauses.
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
    """Admit the waiting request at place i of the queue if its whole prefill fits and leaves `reserve` KV tokens free.

    As much of the prefill as the budget allows runs in this batch. Without a budget, seat or place it is not admitted.

    Args:
        at: place in `work.order`, the running requests by key, from which on keys are larger than the waiting one's.
        makes_room: whether running requests from there on may be evicted for it, the last first, as many as it takes.

    Returns:
        Whether it is admitted.
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
    """Evict requests from place `at` of the key order on, the last first, until `needed` KV tokens and a place are free.

    If all of them together hold too little, no request is evicted.
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
