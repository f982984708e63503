"""Quantiles of many values: exact from all of them, or within 0.1 % from a histogram of fixed size."""

from __future__ import annotations

import numpy as np

from evenstep.request import F8, I8

_BITS = 9  # leading bits of the fraction kept: a bin is at most 2**-9 of its value wide
# How a compiled loop finds a value's bin: its bits shifted right by `SHIFT`, less `FIRST_BIN`, within 0..BINS-1.
SHIFT = 52 - _BITS
_LOWEST = 2.0**-40  # smaller values (a picosecond and below) are counted as 0
_HIGHEST = 2.0**40  # larger values are counted as this one


def _key(value: float) -> int:
    """The exponent and first `_BITS` fraction bits of a positive value, an int; less `FIRST_BIN`, it is the value's bin."""
    return int(np.float64(value).view(np.int64)) >> SHIFT


FIRST_BIN = _key(_LOWEST) - 1  # the bin of zero
BINS = _key(_HIGHEST) - FIRST_BIN + 1


class LogHistogram:
    """Counts of non-negative values in bins of about equal relative width; memory does not grow with the number of values.

    A bin is the exponent and the nine leading fraction bits of a float64. Values below 2**-40 count as 0, above 2**40 as
    2**40. Between these limits a quantile differs from the exact one by at most the share `RELATIVE_ERROR`, about 0.1 %.
    """

    RELATIVE_ERROR = 2.0 ** -(_BITS + 1)

    def __init__(self) -> None:
        self.counts: I8 = np.zeros(BINS, np.int64)
        self.total = 0

    @classmethod
    def of(cls, counts: I8) -> LogHistogram:
        """Make a histogram from int64[BINS] counts, one for each bin in ascending order; the array is kept, not copied.

        A value's bin is its float64 bits shifted right by `SHIFT`, less `FIRST_BIN`, clipped to 0..BINS-1.
        """
        made = cls()
        made.counts, made.total = counts, int(counts.sum())
        return made

    def add(self, values: F8) -> None:
        """Count float64[N] more values, in any order, each >= 0 and not nan; N may be 0."""
        if values.size == 0:
            return
        bins = np.clip((np.ascontiguousarray(values).view(np.int64) >> SHIFT) - FIRST_BIN, 0, BINS - 1)
        low = int(bins.min())
        seen = np.bincount(bins - low)
        self.counts[low : low + seen.size] += seen
        self.total += values.size

    def quantiles(self, shares: F8) -> F8:
        """Quantiles of the N values counted so far: float64[Q] for float64[Q] shares in [0, 1]; nan if N is 0.

        A share of 0.5 asks for the median. The result is linear between the two values next to rank ``share * (N - 1)``,
        each taken as the middle of its bin.
        """
        if self.total == 0:
            return np.full(shares.shape, np.nan)
        rank = shares * (self.total - 1)
        below = np.floor(rank)
        cumulative = np.cumsum(self.counts)
        low = self._middle(np.searchsorted(cumulative, below, side="right"))
        high = self._middle(np.searchsorted(cumulative, np.ceil(rank), side="right"))
        return low + (rank - below) * (high - low)

    @staticmethod
    def _middle(bins: I8) -> F8:
        """The value in the middle of each bin, float64[Q] for int64[Q] bin numbers; 0 for bin 0, which holds the zeros."""
        lower = ((bins.astype(np.int64) + FIRST_BIN) << SHIFT).view(np.float64)
        upper = ((bins.astype(np.int64) + FIRST_BIN + 1) << SHIFT).view(np.float64)
        return np.where(bins == 0, 0.0, 0.5 * (lower + upper))


class AllValues:
    """Keeps every value, so that quantiles are exact; memory grows with the number of values."""

    def __init__(self) -> None:
        self._parts: list[F8] = []

    def add(self, values: F8) -> None:
        """Keep float64[N] more values, in any order, without nan. The array is not copied: do not change it afterwards."""
        self._parts.append(values)

    def quantiles(self, shares: F8) -> F8:
        """Exact quantiles of the N values so far, linear as in NumPy: float64[Q] for shares in [0, 1]; nan if N is 0."""
        values = np.concatenate(self._parts) if self._parts else np.zeros(0)
        self._parts = [values]
        values.sort()
        if values.size == 0:
            return np.full(shares.shape, np.nan)
        rank = shares * (values.size - 1)
        below = np.floor(rank)
        low, high = values[below.astype(np.int64)], values[np.ceil(rank).astype(np.int64)]
        return low + (rank - below) * (high - low)
