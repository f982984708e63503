"""Histograms of what a dispatcher measures, and the mean wait."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from evenstep.compiled import jit
from evenstep.request import F8, I8

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0)
SHORT_SECONDS = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 0.1)
TOKENS = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
#: Observations of a mean after which the older ones weigh half.
FORGET_AT = 1 << 16
_TOGETHER = 256


@jit
def count(value: float, counts: I8, bounds: F8, sums: F8) -> None:
    """Count one observation in the arrays of a histogram, as `Histogram.arrays` returns them; changes counts and sums."""
    counts[np.searchsorted(bounds, value)] += 1
    sums[0] += value
    sums[1] += 1.0


@jit
def add_wait(wait_s: float, sums: F8) -> None:
    """Add one wait, in seconds, to `Waits.sums` (sum and number); at 65536 waits both are halved."""
    sums[0] += wait_s
    sums[1] += 1.0
    if sums[1] == FORGET_AT:
        sums[0], sums[1] = sums[0] / 2, FORGET_AT // 2


class Waits:
    """Mean wait of the requests sent to workers so far; old waits fade. `add_wait` adds one.

    `sums`: array of the seconds of all waits together, and of their number; both are halved when the number is 65536.
    """

    def __init__(self) -> None:
        self.sums = array("d", [0.0, 0.0])

    @property
    def mean_s(self) -> float:
        """The mean wait in seconds; 0 before the first wait."""
        total, count = self.sums
        return total / count if count else 0.0


class Histogram:
    """Counts observations between ascending bounds, with their sum and number.

    Args:
        bounds: ascending upper bounds, in the unit of the observations; an observation equal to a bound is within it.

    Attributes:
        counts: int64, observations up to each bound and above the one before; the last are those above all bounds.
        sums: float64[2], sum and number of all.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts, self.sums = array("q", [0]) * (len(self.bounds) + 1), array("d", [0.0, 0.0])

    def add(self, value: float) -> None:
        sums = self.sums
        self.counts[bisect_left(self.bounds, value)] += 1
        sums[0] += value
        sums[1] += 1.0

    def arrays(self) -> tuple[I8, F8, F8]:
        """Counts, bounds and sums as arrays, for `count`; counts and sums are windows on the histogram, not copies."""
        return np.frombuffer(self.counts, np.int64), np.array(self.bounds), np.frombuffer(self.sums)

    def values(self) -> dict[str, object]:
        """The histogram as plain values: ``buckets``, ``sum`` and ``count``.

        ``buckets`` has the observations at or below each bound, keyed by the bound as text and ``+Inf``.
        """
        buckets = dict(zip((*map(str, self.bounds), "+Inf"), accumulate(self.counts), strict=True))
        return {"buckets": buckets, "sum": self.sums[0], "count": int(self.sums[1])}


class Seconds(Histogram):
    """A histogram of short times in seconds. It counts 256 observations at a time; only `values` is always up to date."""

    def __init__(self) -> None:
        super().__init__(SHORT_SECONDS)
        self._new = list[float]()

    def add(self, value: float) -> None:
        self._new.append(value)
        if len(self._new) == _TOGETHER:
            self._count()

    def values(self) -> dict[str, object]:
        self._count()
        return super().values()

    def _count(self) -> None:
        """Count the observations kept so far, and empty their list."""
        new, self._new = self._new, []
        counts, bounds, sums = self.arrays()
        counts += np.bincount(np.searchsorted(bounds, new), minlength=counts.size)
        sums[0], sums[1] = np.cumsum([sums[0], *new])[-1], sums[1] + len(new)
