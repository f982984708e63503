"""Expected loads of a worker, compiled: each running request counts in proportion to its probability of still running.

They are smooth, so they are computed at some steps only (`routing.view.EXPECTED_AT`, and the last one), and interpolated
linearly between. This keeps thousands of survival curves cheap at every decision.
"""

from __future__ import annotations

from evenstep.compiled import inlined, jit
from evenstep.request import F8
from evenstep.routing.view import EXPECTED_AT

#: Adding and subtracting this number rounds a load to 2^-20 tokens, so that sums of expected loads are exact in any order.
ROUNDING = 1.5 * 2.0**32


@jit
def steps_between(horizon: int) -> int:
    """Number of the evaluated steps `EXPECTED_AT` before the last step H; loads at other steps are interpolated."""
    n = 0
    while n < len(EXPECTED_AT) and EXPECTED_AT[n] < horizon:
        n += 1
    return n


@inlined
def step_at(n: int, between: int, horizon: int) -> int:
    """Steps ahead of the n-th evaluated step (n from 0); H if n >= `between`, which is from `steps_between`."""
    return EXPECTED_AT[n] if n < between else horizon


@inlined
def rounded(expected: float) -> float:
    """Round KV tokens to multiples of 2^-20."""
    return (expected + ROUNDING) - ROUNDING


@jit
def add_expected(load: float, growth: F8, copies: float, between: int, curve: F8, since: int, ahead: F8) -> None:
    """Add one request to its worker's expected loads, at the evaluated steps of `ahead` (`step_at`).

    Args:
        load: its KV tokens now, those of all its copies.
        growth: float64[H+1], KV tokens that each copy has gained after h steps.
        copies: number of sequences that decode for the request.
        between: from `steps_between`.
        curve: float64[K], K > since + H, probability of running h steps after the prediction, above 0 at h = `since`.
        since: steps since the prediction.
        ahead: float64[H+1], changed in place; `fill_between` fills the other steps after the last request.
    """
    H, share = ahead.size - 1, 1.0 / curve[since]
    for n in range(between + 1):
        h = step_at(n, between, H)
        ahead[h] += rounded((load + growth[h] * copies) * (curve[since + h] * share))


@jit
def fill_between(ahead: F8) -> None:
    """Fill the steps of `ahead`, float64[H+1], that are not evaluated, by linear interpolation, in place."""
    H = ahead.size - 1
    for n in range(1, steps_between(H) + 1):
        low, high = EXPECTED_AT[n - 1], min(EXPECTED_AT[n], H) if n < len(EXPECTED_AT) else H
        rise = (ahead[high] - ahead[low]) / (high - low)
        for h in range(low + 1, high):
            ahead[h] = ahead[low] + rise * (h - low)
