"""Checks whether requests of believed lengths fit in memory until each has finished: eq. 3 of Interval scheduling.

A request that runs in every iteration from now on holds ``base + j`` KV tokens in the j-th of them, and is believed to need
``remaining`` of them. Memory peaks in the last iteration of one of them, so a set of requests fits if, for every r among the
remaining iterations::

    sum over those with remaining >= r of (base + r) <= capacity

Source: Interval scheduling eq. 3, with two readings. A request that has outgrown its believed length is believed to need one
    more iteration (literally it would count nothing). A prefill that is cut into chunks counts whole from its start.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple, TypeAlias

from evenstep.compiled import Ints, part
from evenstep.scheduling.view import RuleView

#: The believed length of a request without a bound; more than any memory holds.
UNKNOWN = 1 << 50
_OfAll: TypeAlias = Annotated[Ints, "running + waiting"]


class Ahead(NamedTuple):
    """Requests in a list, fewest remaining iterations first, ties by `number`, inserted last.

    The caller keeps its length.
    """

    more: _OfAll  # remaining iterations
    number: _OfAll  # a number by which the caller knows the request
    base: _OfAll  # KV tokens counted for it before the first of these iterations (`base`)


@part
def base(view: RuleView, row: int) -> int:
    """KV tokens counted for a request before its next iteration: what it holds, plus an allowance for whole blocks.

    The allowance is `block_tokens` - 1. A request still in its prefill counts as if it had run all of it but the last token.
    """
    held = view.prefilled[row] + view.hold_produced + view.block_tokens - 1
    return held if view.decoding[row] == 1 else held + view.left[row] - 1


@part
def remaining(view: RuleView, row: int, length: int) -> int:
    """Iterations that a request still needs if its output is `length` tokens, at least 1.

    The result is at most what memory allows the request alone. A request still in its prefill is taken to end it in the
    first of these iterations.
    """
    more = 0 if view.decoding[row] == 1 else view.first_decoded
    most = view.kv_capacity - base(view, row)
    return max(min(length - view.produced[row] + more, most), 1)


@part
def put(ahead: Ahead, at: int, more: int, number: int, own: int) -> None:
    """Write entry `at`: a request with `more` remaining iterations, this `number`, and a base of `own` KV tokens."""
    ahead.more[at], ahead.number[at], ahead.base[at] = more, number, own


@part
def sort(ahead: Ahead, count: int) -> None:
    """Sort the first `count` entries in place by remaining iterations, fewest first, ties by number (Shell's sort)."""
    gap = 1
    while gap < count:
        gap = 3 * gap + 1
    while gap >= 1:
        for i in range(gap, count):
            more, number, own = ahead.more[i], ahead.number[i], ahead.base[i]
            j = i - gap
            while j >= 0 and (ahead.more[j] > more or (ahead.more[j] == more and ahead.number[j] > number)):
                put(ahead, j + gap, ahead.more[j], ahead.number[j], ahead.base[j])
                j -= gap
            put(ahead, j + gap, more, number, own)
        gap //= 3


@part
def fits_with(ahead: Ahead, count: int, capacity: int, more: int, own: int) -> bool:
    """True if the first `count` entries, which are sorted, and one more request fit `capacity` KV tokens until all finish.

    The other request has `more` remaining iterations and a base of `own` KV tokens.
    """
    held, many, is_in = 0, 0, False
    for i in range(count - 1, -1, -1):
        if not is_in and ahead.more[i] <= more:
            is_in = True
            held += own
            many += 1
            if held + many * more > capacity:
                return False
        held += ahead.base[i]
        many += 1
        if held + many * ahead.more[i] > capacity:
            return False
    return is_in or held + own + (many + 1) * more <= capacity


@part
def insert(ahead: Ahead, count: int, more: int, own: int) -> int:
    """Insert a request by its `more` remaining iterations into `count` sorted entries, after equals; returns `count` + 1.

    Its number is `count`, its base `own` KV tokens. That it fits is not checked (`fits_with`).
    """
    i = count
    while i > 0 and ahead.more[i - 1] > more:
        put(ahead, i, ahead.more[i - 1], ahead.number[i - 1], ahead.base[i - 1])
        i -= 1
    put(ahead, i, more, count, own)
    return count + 1


@part
def may_grow(ahead: Ahead, count: int, capacity: int) -> int:
    """How many of the `count` sorted entries, from the first on, may run a token now so that all can still finish.

    They finish one after the other in this order, and those that do not fit pause with what they hold. Memory holds
    `capacity` KV tokens. The result is `count` if all fit, and 0 if even so not all can finish, or if `count` is 0.
    """
    held = 0
    for i in range(count):
        held += ahead.base[i]
    limit, growing = 1 << 60, count
    for i in range(count):
        left = capacity - held - ahead.more[i]
        if left < 0:
            return 0
        limit = min(limit, left + 1 + i)
        if limit < i + 1:
            growing = min(growing, i)
        held -= ahead.base[i]
    return growing
