"""Finds the best subset of candidates of whole sizes, with the reachable sums of their sizes as bit masks."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep.compiled import Floats, Ints, allocating, borrowing
from evenstep.routing.balance_route.f_score import FScore, value

_ONE = np.uint64(1)


@borrowing
def _has(mask: Any, bit: int) -> Any:
    """True if a bit is set in a mask of 64-bit words."""
    return (mask[bit >> 6] >> np.uint64(bit & 63)) & _ONE != 0


@borrowing
def _or_shifted(target: Any, source: Any, shift: int, limit: int) -> None:
    """Compute ``target |= source << shift`` in place, for bits up to `limit`; both are masks of 64-bit words."""
    words, bits = shift >> 6, np.uint64(shift & 63)
    last = limit >> 6
    for w in range(words, last + 1):
        x = source[w - words] << bits
        if bits != 0 and w > words:
            x |= source[w - words - 1] >> (np.uint64(64) - bits)
        target[w] |= x
    spare = np.uint64(63 - (limit & 63))
    target[last] = (target[last] << spare) >> spare


@borrowing
def _fewest(sums: Any, slots: int, tokens: int) -> int:
    """The fewest candidates, 1..`slots`, that add up to `tokens`; 0 if none do. `sums` is ``reach[n]`` of `by_bits`."""
    for r in range(1, slots + 1):
        if _has(sums[r], tokens):
            return r
    return 0


@allocating
def _mark(reach: Any, sizes: Floats, n: int, slots: int, best: int, chosen: Ints) -> None:
    """Set `chosen` to 1 for the fewest, then earliest, of n candidates that add up to `best`; `reach` as in `by_bits`."""
    best_r, left = _fewest(reach[n], slots, best), best
    for i in range(n, 0, -1):
        if not _has(reach[i - 1, best_r], left):
            chosen[i - 1] = 1
            left -= int(sizes[i - 1])
            best_r -= 1


@allocating
def by_bits(
    sizes: Floats, n: int, slots: int, kv_free: float, high: float, score: FScore, chosen: Ints
) -> tuple[float, float]:
    """Find the non-empty subset of the first n candidates with the largest score, and write it to `chosen`.

    ``reach[i][r]`` is a mask: bit D is set if some r of the first i candidates add up to D tokens. F rises up to its peak
    and falls after `high`, so only two sums can be best: the largest one up to `high`, and the smallest one above it. Ties
    go to the former, then to fewer requests, then to earlier candidates.

    Args:
        sizes: float64[>= n], tokens of each candidate, whole numbers.
        slots, kv_free: most members, and most tokens, of the subset.
        high: tokens after which F falls, the end of its peak; inf if it never falls.
        score: the terms of F, the score of a number of tokens.
        chosen: int64[>= n], written: 1 for each member of the subset, else 0.

    Returns:
        Tokens and score of the subset, which may be below 0; 0 and -inf if no candidate fits.

    Source: BalanceRoute App. D.4.
    """
    total, most = 0.0, 0.0
    for i in range(n):
        total += sizes[i]
        most = max(most, sizes[i])
        chosen[i] = 0
    limit = int(min(kv_free, total, high + most))
    reach = np.zeros((n + 1, slots + 1, (limit >> 6) + 1), np.uint64)  # the one allocation of a routing rule
    reach[:, 0, 0] = _ONE
    for i in range(n):
        size = int(sizes[i])
        for r in range(1, slots + 1):
            reach[i + 1, r] = reach[i, r]
            if size <= limit:
                _or_shifted(reach[i + 1, r], reach[i, r - 1], size, limit)
    edge = int(min(high, float(limit)))
    sums, under, over = reach[n], edge, edge + 1
    while under > 0 and _fewest(sums, slots, under) == 0:
        under -= 1
    while over <= limit and _fewest(sums, slots, over) == 0:
        over += 1
    best, worth = 0, -np.inf
    if under > 0:
        best, worth = under, value(float(under), score)
    if over <= limit:
        other = value(float(over), score)
        if other > worth:
            best, worth = over, other
    _mark(reach, sizes, n, slots, best, chosen)
    return float(best), worth
