"""What a dispatcher counts, as plain numbers: a host turns `Dispatcher.snapshot` into metrics."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

import numpy as np

from evenstep.dispatch.turn_kernel import count_all
from evenstep.request import F8, I8

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0)
SHORT_SECONDS = (
    1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 0.1,
)  # fmt: skip
TOKENS = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
_TOGETHER = 256


class Histogram:
    """Counts of observations at or below each bound, their sum and number.

    Args:
        bounds: ascending.

    Attributes:
        counts: int64, observations of each interval. sums: float64[2], sum and number of all.
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
        """Its counts, bounds and sums, for `turn_kernel.count`."""
        return np.frombuffer(self.counts, np.int64), np.array(self.bounds), np.frombuffer(self.sums)

    def cumulative(self) -> dict[str, int]:
        """Observations at or below each bound, by its text, and ``+Inf``."""
        total, found = 0, dict[str, int]()
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            total += count
            found[bound] = total
        return found

    def values(self) -> dict[str, object]:
        return {"buckets": self.cumulative(), "sum": self.sums[0], "count": int(self.sums[1])}


class Seconds(Histogram):
    """A histogram that is told often and read seldom: it counts many together."""

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
        new, self._new = self._new, []
        count_all(np.array(new, np.float64), *self.arrays())


class Meters:
    """Counters and histograms by the names of the exported metrics, less ``evenstep_``."""

    def __init__(self) -> None:
        self.requests: Counter[str] = (
            Counter()
        )  # by status code, or "error" after the first token, or "cancelled"
        self.decisions: Counter[tuple[str, str]] = Counter()
        self.output_tokens = self.recomputes = self.retries = self.cancelled = self.late = 0
        self.pool_wait_s, self.ttft_s, self.tpot_s = (
            Histogram(SECONDS),
            Histogram(SECONDS),
            Histogram(SECONDS),
        )
        self.prediction_error = Histogram(TOKENS)
        self.stages = {name: Seconds() for name in ("predict", "prepare", "route", "apply")}

    def values(self) -> dict[str, object]:
        """Plain numbers by metric name."""
        return {
            "requests_total": dict(self.requests),
            "decisions_total": [
                {"policy": policy, "outcome": outcome, "value": count}
                for (policy, outcome), count in sorted(self.decisions.items())
            ],
            "output_tokens_total": self.output_tokens,
            "recompute_total": self.recomputes,
            "retries_total": self.retries,
            "cancelled_total": self.cancelled,
            "late_events_total": self.late,
            "pool_wait_seconds": self.pool_wait_s.values(),
            "ttft_seconds": self.ttft_s.values(),
            "tpot_seconds": self.tpot_s.values(),
            "prediction_error_tokens": self.prediction_error.values(),
            "decision_seconds": {name: stage.values() for name, stage in self.stages.items()},
        }
