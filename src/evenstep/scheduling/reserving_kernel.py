# pyright: basic
"""Admitting by a believed output length, compiled: the twin of `reserving`.

A policy says by a number which length it believes: `HIGHEST`, `LOWEST_THEN_HIGHEST` (A_ell), `LEARNED` or `RAISED` (A_min).
"""

from __future__ import annotations

from evenstep.compiled import borrowing, borrowing_inlined
from evenstep.scheduling.feasible_kernel import (
    UNKNOWN,
    WORDS,
    base,
    fits_with,
    insert,
    may_grow,
    put,
    remaining,
    sort,
)
from evenstep.scheduling.filling_kernel import FREE, PLACES, ROOM, offer, open_batch
from evenstep.scheduling.giving_way_kernel import GROWS, LEAVES, PAUSES, grow, grow_or_give_way, leaving
from evenstep.scheduling.view import (
    EVICTED,
    EVICTIONS,
    HIGH,
    KV_CAPACITY,
    LOST_AT,
    LOW,
    PICKED,
    PRODUCED,
    REACHED,
    RESIDENT,
    RUNNING,
    WAITING,
)

HIGHEST, LOWEST_THEN_HIGHEST, LEARNED, RAISED = range(4)


def scratch(running, waiting, parameters):
    """Working space: what is left, a mark and three words a request; a key a request."""
    return ROOM + (1 + WORDS) * (running + waiting), running


@borrowing_inlined
def marks_and_ahead(left):
    """Where in the working space marks and the words of those ahead begin."""
    return ROOM, ROOM + (left.size - ROOM) // (1 + WORDS)


@borrowing_inlined
def believed(rows, row, belief):
    """Output length a request is believed to have."""
    low, reached = rows[LOW, row], rows[REACHED, row]
    if belief == LEARNED:
        return rows[LOST_AT, row] if rows[EVICTIONS, row] > 0 else low
    if belief == RAISED:
        return max(low, reached)
    if belief == LOWEST_THEN_HIGHEST and max(reached, rows[PRODUCED, row]) < low:
        return low
    return rows[HIGH, row] if rows[HIGH, row] > 0 else UNKNOWN


@borrowing_inlined
def moves_back(rows, row):
    """Whether a running request has its lowest length and goes on: A_ell moves it back, once."""
    return 0 < rows[LOW, row] == rows[PRODUCED, row] and rows[EVICTIONS, row] == 0


@borrowing
def admit(limits, left, rows, waiting, first, W, R, belief, share, ahead, count, picked, given):
    """Start requests of the queue, up to the first that would not fit to its end; how many are given."""
    capacity = int(share * limits[KV_CAPACITY])
    for i in range(W):
        row = waiting[first + i]
        length = believed(rows, row, belief)
        more, own = remaining(limits, rows, row, length), base(limits, rows, row)
        if count > 0 and not fits_with(left, ahead, count, capacity, more, own):
            break
        before = given
        given = offer(limits, left, rows, row, R + i, 0, picked, given)
        if given == before:
            break
        count = insert(left, ahead, count, more, own)
    return given


@borrowing
def take_back(limits, left, rows, running, R, belief, share, marks, ahead, count, picked, given):
    """Requests that gave up their memory in this batch come back as far as they fit to their ends; how many are given."""
    capacity = int(share * limits[KV_CAPACITY])
    for position in range(R):
        if left[marks + position] != LEAVES:
            continue
        row = running[position]
        more, own = remaining(limits, rows, row, believed(rows, row, belief)), base(limits, rows, row)
        if left[PLACES] <= 0 or (count > 0 and not fits_with(left, ahead, count, capacity, more, own)):
            break
        left[FREE] -= rows[RESIDENT, row]
        left[PLACES] -= 1
        before = given
        given = offer(limits, left, rows, row, position, 0, picked, given)
        if given == before:
            left[FREE] += rows[RESIDENT, row]
            left[PLACES] += 1
            break
        left[marks + position] = GROWS
        count = insert(left, ahead, count, more, own)
    return given


@borrowing
def form_reserved(limits, running, waiting, first, counts, rows, belief, share, left, keys, picked, evicted):
    """The batch of `reserving.batch_of_reserved`, written into `picked`, `evicted` and `counts`."""
    R, W = counts[RUNNING], counts[WAITING]
    marks, ahead = marks_and_ahead(left)
    open_batch(limits, left, R)
    count, given = 0, 0
    moving = 0
    for position in range(R):
        row = running[position]
        if belief == LOWEST_THEN_HIGHEST and moves_back(rows, row):
            moving += 1
            left[marks + position] = LEAVES
            left[FREE] += rows[RESIDENT, row]
            left[PLACES] += 1
        else:
            left[marks + position] = GROWS
            count = put(limits, left, ahead, count, rows, row, position, believed(rows, row, belief))
    sort(left, ahead, count)
    allowed = may_grow(left, ahead, count, limits[KV_CAPACITY])
    if count > 0 and allowed == 0:
        for position in range(R):
            keys[position] = -position
        given = grow_or_give_way(limits, left, rows, running, marks, R, count, keys, picked, given)
    else:
        for i in range(allowed, count):
            left[marks + left[ahead + WORDS * i + 1]] = PAUSES
        given = grow(limits, left, rows, running, marks, R, picked, given)
        before = given
        given = admit(limits, left, rows, waiting, first, W, R, belief, share, ahead, count, picked, given)
        if moving > 0 and given == before + W:
            count += W
            given = take_back(
                limits, left, rows, running, R, belief, share, marks, ahead, count, picked, given
            )
    counts[PICKED], counts[EVICTED] = given, leaving(left, marks, R, evicted)
