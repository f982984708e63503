"""Bounds of output lengths, for schedulers that plan with intervals: from a predictor, or made for simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenstep.errors import MOST, InputError, PolicyError, check_range
from evenstep.predict.gate import curves_of
from evenstep.predict.history import LONGEST
from evenstep.predict.view import Active
from evenstep.request import I8

_FIRST_HORIZON = 1024
_CELLS = 4_000_000  # of a curve that is asked for at once


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Settings of bounds that a predictor gives each request on arrival, from the requests completed by then."""

    predictor: Any  # one with a method `curve` or `interval`; it learns during the run
    low: float = 0.1  # probability that the length is at most the lower bound
    high: float = 0.9  # probability that the length is at most the upper bound


def interval(predictor: Any, active: Active, low: float = 0.1, high: float = 0.9) -> tuple[I8, I8]:
    """The lower and the upper quantile of the whole output length, given the tokens produced so far; int64[N] each.

    They are 0 and 0 where a curve does not reach the upper bound within 262,144 more tokens, or is still 1 after 16,384.

    Args:
        predictor: one with a method `curve`, or with one of its own, ``interval(active, low, high)``, which then answers.
        active: N requests; age 0 = still waiting.
        low, high: probabilities that the length is at most the lower, and the upper bound; 0 < low <= high <= 1.

    Raises:
        InputError: probabilities out of order, or a predictor that has neither method.
        PolicyError: a curve that `curves_of` refuses, or an answer of ``interval`` that is no pair of one bound a request.
    """
    if not 0.0 < low <= high <= 1.0:
        raise InputError("interval", "low, high", f"{low:g}, {high:g}", "0 < low <= high <= 1")
    own = getattr(predictor, "interval", None)
    if own is not None:
        found = own(active, low, high)
        shapes = [np.shape(one) for one in found] if isinstance(found, Sequence | np.ndarray) else []
        if shapes != [active.age.shape] * 2:
            name = type(predictor).__name__
            raise PolicyError(f"predictor {name} answered {type(found).__name__}; expected low and high, one a request each")
        return found[0], found[1]
    if not hasattr(predictor, "curve"):
        raise InputError("interval", "predictor", type(predictor).__name__, "a predictor with a method `curve`")
    bounds = np.zeros((2, active.age.size), np.int64)
    left = np.arange(active.age.size)
    horizon = _FIRST_HORIZON
    while left.size and horizon <= LONGEST:
        unknown: list[I8] = []
        for part in np.array_split(left, max(1, left.size * horizon // _CELLS)):
            stays = curves_of(predictor, active.take(part), horizon)
            is_done = stays[:, -1] <= 1.0 - high + 1e-12
            done = part[is_done]
            for row, chance in enumerate((low, high)):
                ended = stays[is_done] <= 1.0 - chance + 1e-12
                bounds[row, done] = active.age[done] + np.argmax(ended, axis=1)
            may_end = (stays[:, -1] < 1.0) | (horizon == _FIRST_HORIZON)  # where nothing is known: look once further
            unknown.append(part[~is_done & may_end])
        left = np.concatenate(unknown)
        horizon *= 16
    return bounds[0], bounds[1]


def constant(requests: int, low: int, high: int) -> tuple[I8, I8]:
    """Equal bounds for every request: int64[requests] of `low`, and of `high`.

    Raises an `InputError` for bounds out of order, below 1 or above `MOST`.
    """
    if not 1 <= low <= high <= MOST:
        raise InputError("bounds constant", "low/high", f"{low}/{high}", f"1 <= low <= high <= {MOST}")
    return np.full(requests, low, np.int64), np.full(requests, high, np.int64)


def bucketed(output_tokens: I8, edges: Sequence[int]) -> tuple[I8, I8]:
    """The least and the largest length of the bucket that contains each true length, int64[N] each; simulation only.

    Args:
        output_tokens: int64[N], true lengths, none above the last edge.
        edges: upper bounds of the buckets, ascending; the first bucket starts at 1.

    Raises:
        InputError: edges that do not ascend from 1 or more, or beyond `MOST`; or a length above the last.
    """
    if max(edges, default=0) > MOST:
        raise InputError("bounds bucketed", "edges", "/".join(map(str, edges)), f"integers from 1 to {MOST}")
    upper = np.array(edges, dtype=np.int64)
    if upper.size == 0 or upper[0] < 1 or np.any(np.diff(upper) <= 0):
        raise InputError("bounds bucketed", "edges", "/".join(map(str, edges)), "ascending integers >= 1")
    if output_tokens.size and output_tokens.max() > upper[-1]:
        expected = f"at least {output_tokens.max()}, the longest output"
        raise InputError("bounds bucketed", "last edge", int(upper[-1]), expected)
    bucket = np.searchsorted(upper, output_tokens, side="left")
    lower = np.concatenate([[1], upper[:-1] + 1])
    return lower[bucket], upper[bucket]


def around(output_tokens: I8, share: float) -> tuple[I8, I8]:
    """The true lengths minus and plus a `share` of them, int64[N] each, rounded outwards, at least 1; simulation only.

    A share above 1 counts as 1 for the lower bound. Raises an `InputError` for a share below 0 or not finite.
    """
    check_range("bounds around", "a finite number >= 0", low=0, finite=True, share=share)
    digits = 6  # 100 * 1.1 is a little above 110
    low = np.floor(np.round(output_tokens * (1.0 - min(share, 1.0)), digits)).astype(np.int64)
    high = np.ceil(np.round(output_tokens * (1.0 + share), digits)).astype(np.int64)
    return np.maximum(low, 1), high
