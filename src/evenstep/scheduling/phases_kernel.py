# pyright: basic
"""The two phases of a batch, compiled: the twin of `phases`.

Lists of running requests stand in ``order[first:end]`` as positions; the queue is walked in its own order.
"""

from __future__ import annotations

from evenstep.compiled import borrowing
from evenstep.scheduling.filling_kernel import admit, grows
from evenstep.scheduling.preempting_kernel import run_or_evict
from evenstep.scheduling.view import DECODING, HIGH, LEFT, LOW, PRODUCED


@borrowing
def list_phase(rows, running, R, decoding, cap, order, first):
    """List the running requests of a phase, `cap` at most, from `first` on; where the list ends."""
    end = first
    for position in range(R):
        if rows[DECODING, running[position]] == decoding:
            if end - first == cap:
                break
            order[end] = position
            end += 1
    return end


@borrowing
def left_of_phase(rows, row):
    """Tokens left of its prefill, or of a request that decodes, twice what is believed to be left of its output."""
    if rows[DECODING, row] == 1:
        return rows[LOW, row] + rows[HIGH, row] - 2 * rows[PRODUCED, row]
    return rows[LEFT, row]


@borrowing
def sort_by_left(rows, running, order, first, end):
    """Sort the list of a phase by what is left of it, the smallest first, equal ones as they stand."""
    for i in range(first + 1, end):
        position = order[i]
        value, at = left_of_phase(rows, running[position]), i
        while at > first and left_of_phase(rows, running[order[at - 1]]) > value:
            order[at] = order[at - 1]
            at -= 1
        order[at] = position


@borrowing
def run_list(limits, left, rows, running, kept, order, first, end, picked, given):
    """Running requests of a list run or are evicted: (given, kept)."""
    for i in range(first, end):
        given, kept = run_or_evict(limits, left, rows, running, kept, order[i], picked, given)
    return given, kept


@borrowing
def needed_by(limits, rows, running, kept, order, first, end):
    """KV tokens of memory that the requests of a list take for a token each."""
    needed = 0
    for i in range(first, end):
        if order[i] < kept:
            needed += grows(limits, rows, running[order[i]], 1)
    return needed


@borrowing
def admit_first(limits, left, rows, waiting, first, W, R, reserve, picked, given):
    """The queue's first W are admitted, until the prefill of one does not fit; how many are given now."""
    for i in range(W):
        before = given
        given = admit(limits, left, rows, waiting[first + i], R + i, reserve, picked, given)
        if given == before:
            break
    return given


@borrowing
def admit_shortest(limits, left, rows, waiting, first, W, R, reserve, picked, given):
    """The same, fewest tokens left first; what is picked is put in the queue's order."""
    start, last_left, last = given, -1, -1
    while True:
        best = -1
        for i in range(W):
            tokens = rows[LEFT, waiting[first + i]]
            is_next = tokens > last_left or (tokens == last_left and i > last)
            if is_next and (best < 0 or tokens < rows[LEFT, waiting[first + best]]):
                best = i
        if best < 0:
            break
        before = given
        given = admit(limits, left, rows, waiting[first + best], R + best, reserve, picked, given)
        if given == before:
            break
        last_left, last = rows[LEFT, waiting[first + best]], best
    for i in range(start + 1, given):
        position, tokens, at = picked[0, i], picked[1, i], i
        while at > start and picked[0, at - 1] > position:
            picked[0, at], picked[1, at] = picked[0, at - 1], picked[1, at - 1]
            at -= 1
        picked[0, at], picked[1, at] = position, tokens
    return given
