"""Compiled twin of `f_score.best_by_bits`: reachable sums in bit masks."""
# pyright: basic

from __future__ import annotations

import numpy as np

from evenstep.compiled import allocating, jit
from evenstep.routing.balance_route.f_score_kernel import value

_ONE = np.uint64(1)


@jit
def _has(mask, bit):
    return (mask[bit >> 6] >> np.uint64(bit & 63)) & _ONE != 0


@jit
def _or_shifted(target, source, shift, limit):
    """target |= source << shift, up to bit `limit`."""
    words, bits = shift >> 6, np.uint64(shift & 63)
    last = limit >> 6
    for w in range(words, last + 1):
        x = source[w - words] << bits
        if bits != 0 and w > words:
            x |= source[w - words - 1] >> (np.uint64(64) - bits)
        target[w] |= x
    spare = np.uint64(63 - (limit & 63))
    target[last] = (target[last] << spare) >> spare


@allocating
def by_bits(sizes, n, slots, kv_free, high, margins, weights, H1, reward, penalty, chosen):
    """The subset of largest score; see `f_score.best_by_bits`.

    Args:
        sizes: float64[n], whole.
        chosen: int64[n], written: 1 where a candidate is in the subset.

    Returns:
        tokens, score of the subset.
    """
    total, most = 0.0, 0.0
    for i in range(n):
        total += sizes[i]
        most = max(most, sizes[i])
        chosen[i] = 0
    limit = int(min(kv_free, total, high + most))
    reach = np.zeros(
        (n + 1, slots + 1, (limit >> 6) + 1), np.uint64
    )  # the one allocation of a routing kernel
    for i in range(n + 1):
        reach[i, 0, 0] = _ONE
    for i in range(n):
        size = int(sizes[i])
        for r in range(1, slots + 1):
            reach[i + 1, r] = reach[i, r]
            if size <= limit:
                _or_shifted(reach[i + 1, r], reach[i, r - 1], size, limit)
    edge = int(min(high, float(limit)))
    under, over, best_r = -1, -1, 0
    for tokens in range(edge, -1, -1):
        if under >= 0:
            break
        for r in range(1, slots + 1):
            if _has(reach[n, r], tokens):
                under = tokens
                break
    for tokens in range(edge + 1, limit + 1):
        if over >= 0:
            break
        for r in range(1, slots + 1):
            if _has(reach[n, r], tokens):
                over = tokens
                break
    best, score = -1, -np.inf
    if under >= 0:
        best, score = under, value(float(under), margins, weights, H1, reward, penalty)
    if over >= 0:
        other = value(float(over), margins, weights, H1, reward, penalty)
        if other > score:
            best, score = over, other
    for r in range(1, slots + 1):
        if _has(reach[n, r], best):
            best_r = r
            break
    left = best
    for i in range(n, 0, -1):
        if not _has(reach[i - 1, best_r], left):
            chosen[i - 1] = 1
            left -= int(sizes[i - 1])
            best_r -= 1
    return float(best), score
