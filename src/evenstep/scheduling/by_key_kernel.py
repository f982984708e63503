# pyright: basic
"""Running by priority, compiled: the twin of `by_key`.

The caller writes the weights of the key (`QueueOrder.weights`) to the front of ``scratch_f``; the keys of those that run
stand behind them, and in ``scratch_i`` their positions sorted by key.
"""

from __future__ import annotations

from evenstep.compiled import borrowing
from evenstep.scheduling.filling_kernel import (
    BUDGET_LEFT,
    FREE,
    PLACES,
    ROOM,
    SEATS,
    give,
    grows,
    most,
    open_batch,
)
from evenstep.scheduling.order_kernel import QUANTUM, key_of
from evenstep.scheduling.view import (
    BLOCK_TOKENS,
    EVICTED,
    KV_CAPACITY,
    LEFT,
    PICKED,
    RESIDENT,
    RUNNING,
    WAITING,
)

#: Words of a key's weights.
WEIGHTS = 12


def room(running):
    """Working space: (int64, float64) words for R running requests."""
    return ROOM + 2 * running, WEIGHTS + running


@borrowing
def clear(weights):
    """No feature counts, quanta are one token."""
    for k in range(WEIGHTS):
        weights[k] = 0.0
    weights[QUANTUM] = 1.0


@borrowing
def sort_running(seed, rows, arrival_s, running, R, scratch_i, scratch_f):
    """Positions of those that run by key, equal ones by admission, from `ROOM` on."""
    for position in range(R):
        key = key_of(scratch_f, seed, running[position], rows, arrival_s, 0)
        scratch_f[WEIGHTS + position] = key
        at = ROOM + position
        while at > ROOM and scratch_f[WEIGHTS + scratch_i[at - 1]] > key:
            scratch_i[at] = scratch_i[at - 1]
            at -= 1
        scratch_i[at] = position


@borrowing
def run_next(limits, rows, running, at, end, scratch_i, picked, given):
    """The request runs; those with larger keys make room for it: (given, end of those that keep their memory)."""
    position = scratch_i[ROOM + at]
    row = running[position]
    tokens = most(scratch_i, rows, row)
    while tokens > 0 and grows(limits, rows, row, tokens) > scratch_i[FREE]:
        if end == at + 1:
            return given, end
        end -= 1
        scratch_i[PLACES] += 1
        scratch_i[FREE] += rows[RESIDENT, running[scratch_i[ROOM + end]]]
    if tokens > 0:
        given = give(limits, scratch_i, rows, row, tokens, position, picked, given)
    return given, end


@borrowing
def make_room(rows, running, needed, at, end, scratch_i):
    """Requests with larger keys give up their memory until `needed` KV tokens and a place are free; how many are kept."""
    if needed <= scratch_i[FREE] and scratch_i[PLACES] > 0:
        return end
    held = scratch_i[FREE]
    for i in range(at, end):
        held += rows[RESIDENT, running[scratch_i[ROOM + i]]]
    while needed <= held and end > at and (needed > scratch_i[FREE] or scratch_i[PLACES] <= 0):
        end -= 1
        scratch_i[PLACES] += 1
        scratch_i[FREE] += rows[RESIDENT, running[scratch_i[ROOM + end]]]
    return end


@borrowing
def admit(limits, rows, running, row, position, at, end, makes_room, reserve, scratch_i, picked, given):
    """A request is admitted if the whole of its prefill fits: (given, end)."""
    if scratch_i[SEATS] <= 0 or scratch_i[BUDGET_LEFT] <= 0:
        return given, end
    needed = grows(limits, rows, row, rows[LEFT, row]) + reserve
    if makes_room:
        end = make_room(rows, running, needed, at, end, scratch_i)
    tokens = most(scratch_i, rows, row)
    if tokens < 1 or needed > scratch_i[FREE]:
        return given, end
    return give(limits, scratch_i, rows, row, tokens, position, picked, given), end


@borrowing
def write_evicted(R, end, scratch_i, counts, evicted):
    """Positions of those who gave up their memory, in order."""
    for position in range(R):
        scratch_i[ROOM + R + position] = 0
    for i in range(end, R):
        scratch_i[ROOM + R + scratch_i[ROOM + i]] = 1
    gone = 0
    for position in range(R):
        if scratch_i[ROOM + R + position] == 1:
            evicted[gone] = position
            gone += 1
    counts[EVICTED] = gone


@borrowing
def run_by_key(
    seed, limits, running, waiting, first, counts, rows, arrival_s, makes_room, watermark, scratch_i, scratch_f, picked,
    evicted,
):  # fmt: skip
    """One batch by the key whose weights stand at the front of `scratch_f`."""
    R, W = counts[RUNNING], counts[WAITING]
    open_batch(limits, scratch_i, R)
    sort_running(seed, rows, arrival_s, running, R, scratch_i, scratch_f)
    block = limits[BLOCK_TOKENS]
    blocks = int(watermark * (limits[KV_CAPACITY] // block))
    at, next_, end, given = 0, 0, R, 0
    admitting = W > 0
    while admitting or at < end:
        goes_before = False
        if admitting:
            goes_before = at >= end
            if not goes_before:
                key = key_of(scratch_f, seed, waiting[first + next_], rows, arrival_s, 0)
                goes_before = key < scratch_f[WEIGHTS + scratch_i[ROOM + at]]
        if goes_before:
            before = given
            reserve = blocks * block if R > 0 or given > 0 else 0
            given, end = admit(
                limits, rows, running, waiting[first + next_], R + next_, at, end, makes_room, reserve, scratch_i,
                picked, given,
            )  # fmt: skip
            next_ += 1
            admitting = given > before and next_ < W
        else:
            given, end = run_next(limits, rows, running, at, end, scratch_i, picked, given)
            at += 1
    counts[PICKED] = given
    write_evicted(R, end, scratch_i, counts, evicted)
