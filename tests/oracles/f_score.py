"""BalanceRoute's score of sending KV tokens to a worker, and the requests that make it largest, by sorts and lists."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from evenstep.request import F8, I8

#: A slope of the score smaller than this share of its first slope counts as level.
LEVEL = 1e-9
#: Candidates that are enumerated at most.
ENUMERATED = 16


@dataclass(frozen=True, slots=True, eq=False)
class FScore:
    """F(D) of one worker: the value of sending D tokens to it; concave, piecewise linear, F(0) = 0.

    ``F(D) = reward * D - penalty * sum_h weights[h] * max(0, D - margins[h])``

    Args:
        margins: float64[H+1], tokens until the worker overtakes its group's envelope, h steps ahead; all >= 0.
        weights: float64[H+1], discount of each step, > 0.
        reward: slope up to the first margin, > 0.
        penalty: cost of a token over the envelope per step, >= 0.

    Source: BalanceRoute eqs. 1 and 2; the spec's two readings of eq. 2 differ in `reward`.
    """

    margins: F8
    weights: F8
    reward: float
    penalty: float

    def of(self, tokens: F8 | float) -> F8:
        """float64, the score of each total of tokens; summed over h in order."""
        D = np.asarray(tokens, np.float64)
        over = np.zeros_like(D)
        for margin, weight in zip(self.margins, self.weights, strict=True):
            over += weight * np.maximum(0.0, D - margin)
        return self.reward * D - self.penalty * over

    def peak(self) -> tuple[float, float]:
        """The stretch of D on which F is largest; mostly one point, (inf, inf) when F never falls."""
        order = np.argsort(self.margins, kind="stable")
        slope = self.reward - self.penalty * np.cumsum(self.weights[order])  # after each kink
        kinks = self.margins[order]
        level = np.flatnonzero(slope <= LEVEL * self.reward)
        falling = np.flatnonzero(slope < -LEVEL * self.reward)
        low = kinks[level[0]] if level.size else math.inf
        high = kinks[falling[0]] if falling.size else math.inf
        return float(low), float(high)


def best_total(score: FScore, tokens: F8) -> int:
    """Place of the total of largest score.

    The score is concave, so that is one of the two neighbours of its peak; where the peak is a level stretch that
    holds totals, they are all equally good. Ties go to the first.

    Args:
        tokens: float64[n], n >= 1, the totals to choose from.
    """
    low, high = score.peak()
    level = np.flatnonzero((tokens >= low) & (tokens <= high))
    if level.size:
        return int(level[0])
    below, above = np.flatnonzero(tokens < low), np.flatnonzero(tokens > high)
    neighbours = [int(below[np.argmax(tokens[below])])] if below.size else []
    neighbours += [int(above[np.argmin(tokens[above])])] if above.size else []
    neighbours.sort()
    return neighbours[int(np.argmax(score.of(tokens[neighbours])))]


def best_single(score: FScore, size: F8, rows: I8) -> int:
    """The one request of largest score; ties go to the oldest.

    Args:
        size: float64[W], KV tokens of all waiting requests.
        rows: int64[n], n >= 1, the ones to choose from, oldest first.
    """
    return int(rows[best_total(score, size[rows])])


def largest(size: F8, rows: I8, count: int) -> I8:
    """int64[<= count], the largest requests, larger first, older first at equal size."""
    return rows[np.argsort(-size[rows], kind="stable")[:count]]


def fitting(score: FScore, size: F8, rows: I8, count: int) -> I8:
    """int64[<= count], requests around the score's peak.

    The smallest above the peak, then the largest ones not above it (one short of `count`); where these are too few,
    more from above. Requests above come first, smaller first; then the others, larger first; older first at equal size.
    """
    _, high = score.peak()
    above, below = rows[size[rows] > high], rows[size[rows] <= high]
    below = largest(size, below, count - 1 if above.size else count)
    above = above[np.argsort(size[above], kind="stable")[: count - below.size]]
    return np.concatenate([above, below])


def best_enumerated(score: FScore, size: F8, candidates: I8, slots: int, kv_free: float) -> tuple[I8, float, float]:
    """The subset of largest score among all subsets of at most `slots` candidates.

    Args:
        size: float64[W], KV tokens of all waiting requests.
        candidates: int64[n], n <= 16, each of at most `kv_free` tokens; the first counts as the lowest bit.
        kv_free: KV tokens the worker may still be sent.

    Returns:
        The rows chosen, their tokens, their score. Ties go to the smallest subset number.
    """
    sums, count = np.zeros(1), np.zeros(1, np.int64)
    for row in candidates:
        sums = np.concatenate([sums, sums + size[row]])
        count = np.concatenate([count, count + 1])
    subsets = np.flatnonzero((count > 0) & (count <= slots) & (sums <= kv_free))
    best = int(subsets[best_total(score, sums[subsets])])
    chosen = candidates[[bool(best >> bit & 1) for bit in range(candidates.size)]]
    return chosen, float(sums[best]), float(score.of(sums[best]))


def best_by_bits(score: FScore, size: F8, candidates: I8, slots: int, kv_free: float) -> tuple[I8, float, float]:
    """Same as `best_enumerated` by reachable sums in bit masks; needs whole sizes.

    ``reach[n][r]`` has bit D set when r of the first n candidates weigh D together. Only two sums can be best: the
    largest one up to the end of the score's peak, and the smallest one above it. Ties go to the former, then to
    fewer requests, then to earlier candidates.

    Source: BalanceRoute App. D.4.
    """
    whole = [int(size[row]) for row in candidates]
    _, high = score.peak()
    limit = int(min(kv_free, sum(whole), high + max(whole)))  # the smallest sum above the peak is not beyond
    mask = (2 << limit) - 1
    reach = [[1] + [0] * slots]
    for s in whole:
        last = reach[-1]
        reach.append([last[0]] + [last[r] | (last[r - 1] << s & mask) for r in range(1, slots + 1)])
    sums = 0
    for r in range(1, slots + 1):
        sums |= reach[-1][r]
    edge = int(min(high, limit))
    under, over = sums & ((2 << edge) - 1), sums >> (edge + 1)
    best, value = -1, -math.inf
    if under:
        best = under.bit_length() - 1
        value = float(score.of(float(best)))
    if over:
        tokens = edge + 1 + (over & -over).bit_length() - 1
        if float(score.of(float(tokens))) > value:
            best, value = tokens, float(score.of(float(tokens)))
    r = next(r for r in range(1, slots + 1) if reach[-1][r] >> best & 1)
    chosen: list[int] = []
    left = best
    for n in range(len(whole), 0, -1):
        if not reach[n - 1][r] >> left & 1:
            chosen.append(n - 1)
            left, r = left - whole[n - 1], r - 1
    return candidates[sorted(chosen)], float(best), value
