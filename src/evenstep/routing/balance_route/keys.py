"""Scans of a pool whose sizes are held as keys.

A key is the bits of a size, a float64 >= 0, as int64. Keys order like the sizes. The compiler can compare several integers
at once, but may not reorder comparisons of floats. A request that left the pool has key -1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep.compiled import Ints, borrowing, part

#: Key above every size.
NONE = 0x7FFFFFFFFFFFFFFF


@part
def key_of(tokens: Any) -> Any:
    """The key of a size in tokens: the bits of the float64, as int64."""
    return np.float64(tokens).view(np.int64)


@part
def tokens_of(key: Any) -> Any:
    """The size in tokens, float64, that has this key; the inverse of `key_of`."""
    return np.int64(key).view(np.float64)


@borrowing
def nearest(keys: Ints, high: int, limit: int) -> tuple[int, int, int]:
    """The keys nearest to `high`, the key of the end of a score's peak, among keys up to `limit`.

    Requests that left the pool (key -1) are skipped. Returns the largest key <= `high`, or -1; the smallest key above it, or
    `NONE`; and the number of keys above it.
    """
    under, short, above = -1, 0, 0
    top = min(high, limit)
    for i in range(keys.size):
        k = keys[i]
        under = max(under, k if k <= top else -1)
        is_beyond = (k > high) & (k <= limit)
        short = max(short, NONE - k if is_beyond else 0)  # counted from `NONE` down: so the compiler vectorises it
        above += 1 if is_beyond else 0
    return under, NONE - short, above


@borrowing
def count_above(keys: Ints, floor: int, limit: int) -> int:
    """The number of requests with floor < key <= limit; all three are keys (`key_of`)."""
    count = 0
    for i in range(keys.size):
        count += 1 if (keys[i] > floor) & (keys[i] <= limit) else 0
    return count


@borrowing
def first_between(keys: Ints, low: int, high: int) -> int:
    """Row of the oldest request with low <= key <= high; -1 if there is no such request."""
    for i in range(keys.size):
        if low <= keys[i] <= high:
            return i
    return -1


@borrowing
def key_at_rank(keys: Ints, limit: int, rank: int) -> int:
    """The `rank`-th largest key (1 = largest) among keys up to `limit`; there must be at least `rank` of these."""
    bound, seen = limit, 0
    while True:
        best, count = -1, 0
        for i in range(keys.size):
            best = max(best, keys[i] if keys[i] <= bound else -1)
        for i in range(keys.size):
            count += 1 if keys[i] == best else 0
        seen += count
        if seen >= rank:
            return best
        bound = best - 1


@borrowing
def list_first(sign: int, keys: Ints, low: int, high: int, count: int, rows: Ints, row_keys: Ints) -> int:
    """List up to `count` rows of keys in (low, high]: largest first if `sign` is 1, smallest first if -1, then older.

    Rows and keys are written to `rows` and `row_keys`. Returns the number of rows listed.
    """
    n = 0
    for i in range(keys.size):
        k = keys[i]
        if k <= low or k > high or (n == count and (n == 0 or sign * k <= sign * row_keys[n - 1])):
            continue
        j = n if n < count else n - 1
        while j > 0 and sign * row_keys[j - 1] < sign * k:
            row_keys[j] = row_keys[j - 1]
            rows[j] = rows[j - 1]
            j -= 1
        row_keys[j] = k
        rows[j] = i
        n += 1 if n < count else 0
    return n


@borrowing
def list_fitting(keys: Ints, high: int, limit: int, count: int, rows: Ints, row_keys: Ints) -> int:
    """List up to `count` rows with keys up to `limit` around `high`, the key of the end of the peak; returns their number.

    They are the smallest key above `high`, and the ``count - 1`` (`count` if none is above) largest others. Where these are
    too few, more keys above follow. Those above come first, smaller first; then the others, larger first; older first at
    equal size. Rows and keys are written to `rows` and `row_keys`.
    """
    above = count_above(keys, high, limit)
    top = min(high, limit)
    below = list_first(1, keys, -1, top, count - 1 if above > 0 else count, rows, row_keys)
    above = min(above, count - below)
    for j in range(below - 1, -1, -1):  # make room in front
        rows[j + above] = rows[j]
        row_keys[j + above] = row_keys[j]
    list_first(-1, keys, high, limit, above, rows, row_keys)
    return above + below
