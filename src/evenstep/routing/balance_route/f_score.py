"""BalanceRoute's score of sending KV tokens to a worker, and the tokens for which it is largest."""

from __future__ import annotations

import math
from typing import NamedTuple

from evenstep.compiled import Floats, Ints, borrowing

#: A slope of the score smaller than this share of its first slope counts as level.
LEVEL = 1e-9


class FScore(NamedTuple):
    """F(D) of one worker: the score of sending D tokens to it; concave, piecewise linear, F(0) = 0.

    ``F(D) = reward * D - penalty * sum_h weights[h] * max(0, D - margins[h])``

    Source: BalanceRoute eqs. 1 and 2; our two readings of eq. 2 differ in `reward`.
    """

    margins: Floats  # [H+1], tokens until the worker overtakes its group's envelope, h steps ahead; all >= 0
    weights: Floats  # [H+1], discount of each step, > 0
    reward: float  # slope up to the first margin, > 0
    penalty: float  # cost of a token over the envelope per step, >= 0


@borrowing
def value(tokens: float, score: FScore) -> float:
    """The score F of sending this many KV tokens, summed over h in ascending order. It may be below 0."""
    over = 0.0
    for h in range(score.weights.size):
        over += score.weights[h] * max(0.0, tokens - score.margins[h])
    return score.reward * tokens - score.penalty * over


@borrowing
def peak(score: FScore, kinks: Floats, places: Ints) -> tuple[float, float, float]:
    """The least and the largest D at which F is largest, and the slope of F beyond.

    They are the same point unless F is level between them. If F never falls, the largest is inf and the slope -inf; if F
    rises for ever, both are inf. `kinks` and `places`, float64[H+1] and int64[H+1], are working space.
    """
    for h in range(score.margins.size):  # insertion sort, stable: H is small and margins are nearly in order
        x = score.margins[h]
        j = h
        while j > 0 and kinks[j - 1] > x:
            kinks[j] = kinks[j - 1]
            places[j] = places[j - 1]
            j -= 1
        kinks[j] = x
        places[j] = h
    low, used = math.inf, 0.0
    for j in range(score.margins.size):
        used += score.weights[places[j]]
        slope = score.reward - score.penalty * used
        if low == math.inf and slope <= LEVEL * score.reward:
            low = kinks[j]
        if slope < -LEVEL * score.reward:
            return low, kinks[j], float(slope)
    return low, math.inf, -math.inf
