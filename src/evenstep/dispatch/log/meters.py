"""Counters and histograms of a dispatcher, as plain numbers that a host turns into metrics."""

from __future__ import annotations

from collections import Counter

from evenstep.dispatch.log.histogram import SECONDS, TOKENS, Histogram, Seconds, Waits


class Meters:
    """Counters and histograms of a dispatcher since its start. Other parts write the attributes, `values` reads most.

    Attributes:
        requests: ended requests by status code, or ``error`` after the first token, or ``cancelled``.
        decisions: decisions by (policy text, outcome); an outcome is ``admitted``, ``held`` or ``fallback``.
        waits: mean seconds of requests in the pool until they were sent to a worker, where older ones fade, for policies and
            Retry-After. `pool_wait_s` is the histogram of the same waits.
        stages: a histogram of seconds for each stage of a decision, by name; filled only if a stopwatch times them.
    """

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()  # by status code, or "error" after the first token, or "cancelled"
        self.decisions: Counter[tuple[str, str]] = Counter()
        self.output_tokens = self.recomputes = self.retries = self.cancelled = self.late = 0
        self.pool_wait_s, self.ttft_s, self.tpot_s = Histogram(SECONDS), Histogram(SECONDS), Histogram(SECONDS)
        self.waits = Waits()
        self.prediction_error = Histogram(TOKENS)
        self.stages = {name: Seconds() for name in ("predict", "prepare", "route", "apply")}

    def values(self) -> dict[str, object]:
        """All of them as plain numbers, lists and dictionaries, by metric name without the prefix ``evenstep_``."""
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
