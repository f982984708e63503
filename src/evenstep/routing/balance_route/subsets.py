"""Enumerates subsets of candidates. A subset is a mask: bit i stands for candidate i."""

from __future__ import annotations

from evenstep.compiled import Floats, Ints, borrowing


@borrowing
def enumerated(
    sizes: Floats, n: int, slots: int, kv_free: float, low: float, high: float, sums: Floats, counts: Ints
) -> tuple[int, int, int]:
    """The three subsets of n candidates that can have the largest score, with 1..`slots` members and <= `kv_free` tokens.

    Args:
        sizes: float64[>= n], tokens of each candidate.
        low, high: the peak of the score, from `f_score.peak`.
        sums, counts: float64[2^n] and int64[2^n], written: tokens and members of each subset.

    Returns:
        level, under, over: the first subset with low <= tokens <= high; the first of largest tokens < low; the first of
            smallest tokens > high. Each is 0 if there is no such subset.
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


@borrowing
def pairs(sizes: Floats, n: int, kv_free: float, low: float, high: float, sums: Floats) -> tuple[int, int, int]:
    """The three subsets that `enumerated` returns, for two slots; `sums` is set for subsets of up to two candidates."""
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
