# pyright: basic
"""Whether requests of believed lengths fit to their ends, compiled: the twin of `feasible`.

Requests stand in ``ahead`` from `first` on, three words each: remaining iterations, running number, base.
"""

from __future__ import annotations

from evenstep.compiled import borrowing, borrowing_inlined
from evenstep.scheduling.view import (
    BLOCK_TOKENS,
    DECODING,
    FIRST_DECODED,
    HOLD_PRODUCED,
    KV_CAPACITY,
    LEFT,
    PREFILLED,
    PRODUCED,
)

#: A believed length of which nothing is known; more than any memory holds.
UNKNOWN = 1 << 50
WORDS = 3


@borrowing_inlined
def base(limits, rows, row):
    """KV tokens a request holds before the first of its remaining iterations."""
    held = rows[PREFILLED, row] + limits[HOLD_PRODUCED] + limits[BLOCK_TOKENS] - 1
    return held if rows[DECODING, row] == 1 else held + rows[LEFT, row] - 1


@borrowing_inlined
def remaining(limits, rows, row, length):
    """Iterations a request is believed to need, if its output is `length` tokens."""
    more = 0 if rows[DECODING, row] == 1 else limits[FIRST_DECODED]
    most = limits[KV_CAPACITY] - base(limits, rows, row)
    return max(min(length - rows[PRODUCED, row] + more, most), 1)


@borrowing_inlined
def put(limits, ahead, first, count, rows, row, number, length):
    """One more request at the end, not yet in order; how many there are."""
    at = first + WORDS * count
    ahead[at], ahead[at + 1] = remaining(limits, rows, row, length), number
    ahead[at + 2] = base(limits, rows, row)
    return count + 1


@borrowing
def sort(ahead, first, count):
    """Bring them into order of remaining iterations, ties by running number (Shell's sort)."""
    gap = 1
    while gap < count:
        gap = 3 * gap + 1
    while gap >= 1:
        for i in range(gap, count):
            at = first + WORDS * i
            more, number, own = ahead[at], ahead[at + 1], ahead[at + 2]
            j = i - gap
            while j >= 0:
                other = first + WORDS * j
                if ahead[other] < more or (ahead[other] == more and ahead[other + 1] < number):
                    break
                behind = other + WORDS * gap
                ahead[behind], ahead[behind + 1], ahead[behind + 2] = (
                    ahead[other], ahead[other + 1], ahead[other + 2],
                )  # fmt: skip
                j -= gap
            at = first + WORDS * (j + gap)
            ahead[at], ahead[at + 1], ahead[at + 2] = more, number, own
        gap //= 3


@borrowing
def fits_with(ahead, first, count, capacity, more, own):
    """Whether those in order fit with one more that needs `more` iterations and has a base of `own`."""
    held, many, is_in = 0, 0, False
    for i in range(count - 1, -1, -1):
        at = first + WORDS * i
        if not is_in and ahead[at] <= more:
            is_in = True
            held += own
            many += 1
            if held + many * more > capacity:
                return False
        held += ahead[at + 2]
        many += 1
        if held + many * ahead[at] > capacity:
            return False
    return is_in or held + own + (many + 1) * more <= capacity


@borrowing
def insert(ahead, first, count, more, own):
    """One more request goes where it belongs, behind its equals; how many there are."""
    i = count
    while i > 0 and ahead[first + WORDS * (i - 1)] > more:
        at = first + WORDS * i
        ahead[at], ahead[at + 1], ahead[at + 2] = ahead[at - 3], ahead[at - 2], ahead[at - 1]
        i -= 1
    at = first + WORDS * i
    ahead[at], ahead[at + 1], ahead[at + 2] = more, count, own
    return count + 1


@borrowing
def may_grow(ahead, first, count, capacity):
    """How many, from the start of the order, may run a token now so that all can still finish one after the other."""
    held = 0
    for i in range(count):
        held += ahead[first + WORDS * i + 2]
    limit = 1 << 60
    for i in range(count):
        at = first + WORDS * i
        limit = min(limit, capacity - held - ahead[at] + 1 + i)
        if limit < i + 1:
            return i
        held -= ahead[at + 2]
    return count
