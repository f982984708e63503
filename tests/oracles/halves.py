"""The laws of two samples compared by sorting: Kaplan and Meier's estimates of both, as `predict.history.differ` counts them."""

from __future__ import annotations

import numpy as np

from evenstep.request import F8, I8


def differ(one: I8, other: I8, drift: float, ahead: int = 0) -> bool:
    """Whether the laws of two samples, some of it censored, lie further apart than chance explains.

    Args:
        one, other: int64[n] and int64[m], lengths, or less the age of a request that runs.
        drift: D times ``1 / sqrt(1/n + 1/m)`` from which they do; for n and m stands, at each length, how many requests
            without censoring would leave as many at risk.
        ahead: tokens by which the ages may be too high; the laws differ when they do with any ages in between.
    """
    at = np.unique(np.concatenate([one[one > 0], other[other > 0]]))
    (most_one, size_one), (most_other, size_other) = _passing(one, at), _passing(other, at)
    least_one, least_other = most_one, most_other
    if ahead > 0:
        (least_one, size_one), (least_other, size_other) = (
            _passing(np.where(sample > 0, sample, np.minimum(sample + ahead, 0)), at) for sample in (one, other)
        )
    known = (size_one > 0) & (size_other > 0)
    gap = np.maximum(least_one - most_other, least_other - most_one)[known]
    return bool(np.any(gap > drift * np.sqrt(1.0 / size_one[known] + 1.0 / size_other[known])))


def _passing(sample: I8, at: I8) -> tuple[F8, F8]:
    """Kaplan-Meier: chances to pass each length of `at`, and how many uncensored requests they are worth."""
    longest = np.sort(np.abs(sample))
    ended = np.sort(sample[sample > 0])
    at_risk = sample.size - np.searchsorted(longest, at, side="left")  # a running one is at risk up to its age
    events = np.searchsorted(ended, at, side="right") - np.searchsorted(ended, at, side="left")
    passing: F8 = np.cumprod(1.0 - events / np.maximum(at_risk, 1), dtype=np.float64)
    before = np.concatenate([[1.0], passing[:-1]])
    return passing, np.where(before > 0, at_risk / np.maximum(before, 1e-300), 0.0)
