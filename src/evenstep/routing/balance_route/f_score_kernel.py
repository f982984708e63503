"""Compiled twin of `f_score`.

The pool's sizes are held as keys: the bits of a float64 >= 0 as int64, which order like the numbers and let the
compiler compare several at once (it may not reorder comparisons of floats). A request that left has key -1.
"""
# pyright: basic

from __future__ import annotations

import math

from evenstep.compiled import jit
from evenstep.routing.balance_route.f_score import LEVEL

#: Key above every size.
NONE = 0x7FFFFFFFFFFFFFFF


@jit
def value(tokens, margins, weights, H1, reward, penalty):
    """F(D); see `f_score.FScore`."""
    over = 0.0
    for h in range(H1):
        over += weights[h] * max(0.0, tokens - margins[h])
    return reward * tokens - penalty * over


@jit
def peak(margins, weights, kinks, places, H1, reward, penalty):
    """The stretch of D on which F is largest, and the slope behind it (-inf where it never falls).

    Args:
        kinks, places: float64[H+1] and int64[H+1], written.
    """
    for h in range(H1):  # insertion sort, stable: H is small and margins are nearly in order
        x = margins[h]
        j = h
        while j > 0 and kinks[j - 1] > x:
            kinks[j] = kinks[j - 1]
            places[j] = places[j - 1]
            j -= 1
        kinks[j] = x
        places[j] = h
    low, used = math.inf, 0.0
    for j in range(H1):
        used += weights[places[j]]
        slope = reward - penalty * used
        if low == math.inf and slope <= LEVEL * reward:
            low = kinks[j]
        if slope < -LEVEL * reward:
            return low, kinks[j], slope
    return low, math.inf, -math.inf


@jit
def nearest(keys, waiting, high, limit):
    """Keys around the peak among those up to `limit`: the largest up to `high` (or -1), the smallest above it
    (or `NONE`), and how many are above it."""
    under, over, above = -1, NONE, 0
    top = min(high, limit)
    for i in range(waiting):
        k = keys[i]
        under = max(under, k if k <= top else -1)
        beyond = (k > high) & (k <= limit)
        over = min(over, k if beyond else NONE)
        above += 1 if beyond else 0
    return under, over, above


@jit
def count_above(keys, waiting, floor, limit):
    """How many requests have floor < key <= limit."""
    count = 0
    for i in range(waiting):
        count += 1 if (keys[i] > floor) & (keys[i] <= limit) else 0
    return count


@jit
def first_with(keys, waiting, key):
    """Place of the oldest request with this key, which must be there."""
    place = NONE
    for i in range(waiting):
        place = min(place, i if keys[i] == key else NONE)
    return place


@jit
def first_between(keys, waiting, low, high):
    """Place of the oldest request with low <= key <= high, or -1."""
    for i in range(waiting):
        if low <= keys[i] <= high:
            return i
    return -1


@jit
def rank_key(keys, waiting, limit, rank):
    """Key of the request of this rank (1 = largest) among those up to `limit`; there must be that many."""
    bound, seen = limit, 0
    while True:
        best, count = -1, 0
        for i in range(waiting):
            best = max(best, keys[i] if keys[i] <= bound else -1)
        for i in range(waiting):
            count += 1 if keys[i] == best else 0
        seen += count
        if seen >= rank:
            return best
        bound = best - 1


@jit
def largest_into(keys, waiting, limit, count, rows, row_keys):
    """Up to `count` rows of the largest keys up to `limit`, larger first, older first; returns how many."""
    n = 0
    for i in range(waiting):
        k = keys[i]
        if k < 0 or k > limit or (n == count and (n == 0 or k <= row_keys[n - 1])):
            continue
        j = n if n < count else n - 1
        while j > 0 and row_keys[j - 1] < k:
            row_keys[j] = row_keys[j - 1]
            rows[j] = rows[j - 1]
            j -= 1
        row_keys[j] = k
        rows[j] = i
        n += 1 if n < count else 0
    return n


@jit
def smallest_above_into(keys, waiting, high, limit, count, rows, row_keys):
    """Up to `count` rows of the smallest keys above `high` and up to `limit`, smaller first, older first."""
    n = 0
    for i in range(waiting):
        k = keys[i]
        if k <= high or k > limit or (n == count and (n == 0 or k >= row_keys[n - 1])):
            continue
        j = n if n < count else n - 1
        while j > 0 and row_keys[j - 1] > k:
            row_keys[j] = row_keys[j - 1]
            rows[j] = rows[j - 1]
            j -= 1
        row_keys[j] = k
        rows[j] = i
        n += 1 if n < count else 0
    return n


@jit
def fitting_into(keys, waiting, high, limit, count, rows, row_keys):
    """Rows around the peak; see `f_score.fitting`; returns how many."""
    above = 0
    for i in range(waiting):
        above += 1 if (keys[i] > high) & (keys[i] <= limit) else 0
    top = min(high, limit)
    below = largest_into(keys, waiting, top, count - 1 if above > 0 else count, rows, row_keys)
    above = min(above, count - below)
    for j in range(below - 1, -1, -1):  # make room in front
        rows[j + above] = rows[j]
    smallest_above_into(keys, waiting, high, limit, above, rows, row_keys)
    return above + below


@jit
def enumerated(sizes, n, slots, kv_free, low, high, sums, counts):
    """Subsets of n sizes by number (bit i = size i) that can be best, with 1..slots members and <= kv_free tokens.

    Args:
        sums: float64[2^n], written: tokens of each subset.
        counts: int64[2^n], written: its members.

    Returns:
        level, under, over: the first subset with low <= tokens <= high, the first of largest tokens < low, the
        first of smallest tokens > high; 0 = none (the empty subset is no answer).
    """
    level, under, over = 0, 0, 0
    sums[0] = 0.0
    counts[0] = 0
    for bit in range(n):
        top = 1 << bit
        for rest in range(top):
            subset = top + rest
            tokens = sums[rest] + sizes[bit]
            sums[subset] = tokens
            counts[subset] = counts[rest] + 1
            if counts[subset] > slots or tokens > kv_free:
                continue
            if tokens < low:
                if under == 0 or tokens > sums[under]:
                    under = subset
            elif tokens > high:
                if over == 0 or tokens < sums[over]:
                    over = subset
            elif level == 0:
                level = subset
    return level, under, over


@jit
def pairs(sizes, n, kv_free, low, high, sums):
    """`enumerated` for two slots: only the subsets of one and two are looked at."""
    level, under, over = 0, 0, 0
    sums[0] = 0.0
    for bit in range(n):
        top = 1 << bit
        for other in range(-1, bit):
            subset = top if other < 0 else top + (1 << other)
            tokens = sizes[bit] if other < 0 else sizes[other] + sizes[bit]
            sums[subset] = tokens
            if tokens > kv_free:
                continue
            if tokens < low:
                if under == 0 or tokens > sums[under]:
                    under = subset
            elif tokens > high:
                if over == 0 or tokens < sums[over]:
                    over = subset
            elif level == 0:
                level = subset
    return level, under, over
