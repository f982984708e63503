"""Counters and histograms of a dispatcher, as plain numbers that a host turns into metrics."""

from __future__ import annotations

import math
from collections import Counter

from evenstep.dispatch.log.histogram import SECONDS, TOKENS, Histogram, Seconds, Waits


def tpot_s(streamed_s: float, tokens: int, sequences: int) -> float:
    """Seconds per further token of each sequence of a streamed answer; nan with under two tokens a sequence, or no stream.

    Args:
        streamed_s: seconds from its first token to its end.
        tokens: of all its sequences together.
        sequences: number of sequences that streamed side by side; 0 = the answer did not stream.
    """
    further = tokens // sequences - 1 if sequences else 0
    return streamed_s / further if further > 0 else math.nan


class Meters:
    """Counters and histograms of a dispatcher since its start; other parts write the attributes.

    Attributes:
        requests: ended requests by status code, or ``error`` after the first token, or ``cancelled``.
        decisions: decisions by (policy text, outcome); an outcome is ``admitted``, ``held`` or ``fallback``.
        waits: mean seconds in the pool until a request was sent to a worker, for policies and Retry-After; old waits fade.
            `pool_wait_s` is the histogram of the same waits.
        stages: a histogram of seconds for each stage of a decision, by name; filled only if a stopwatch times them.
    """

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.decisions: Counter[tuple[str, str]] = Counter()
        self.output_tokens = self.recomputes = self.retries = self.cancelled = self.late = 0
        self.pool_wait_s, self.ttft_s, self.tpot_s = Histogram(SECONDS), Histogram(SECONDS), Histogram(SECONDS)
        self.waits = Waits()
        self.prediction_error = Histogram(TOKENS)
        self.stages = {name: Seconds() for name in ("predict", "prepare", "route", "apply")}

    def values(self) -> dict[str, object]:
        """The meters as plain numbers, texts, lists and dictionaries, by metric name without the prefix ``evenstep_``."""
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
