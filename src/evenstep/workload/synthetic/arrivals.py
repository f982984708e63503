"""When requests of a synthetic workload arrive: each process gives the times of N requests for a key.

The first request arrives at 0. Rates are requests a second. Draws are keyed by (seed, replicate, request).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from evenstep import streams
from evenstep.errors import InputError, check_range
from evenstep.request import F8


class Arrivals(Protocol):
    """An arrival process.

    `times` returns float64[N] ascending seconds, the first 0, of N `requests`; None for a workload without times. The same
    seed and replicate give the same times.
    """

    def times(self, requests: int, seed: int, replicate: int) -> F8 | None: ...


def _uniform(stream: str, count: int, seed: int, replicate: int) -> F8:
    return streams.uniform(seed, f"arrivals-{stream}", np.arange(count, dtype=np.int64), draw=replicate)


def _exponential(stream: str, count: int, seed: int, replicate: int) -> F8:
    """Exponential numbers of mean 1."""
    return -np.log1p(-_uniform(stream, count, seed, replicate))


def _hold(process: object, *fields: str) -> None:
    given = {field: getattr(process, field) for field in fields}
    check_range(type(process).__name__.lower(), "a finite number > 0", above=0, finite=True, **given)


def _from_gaps(gaps: F8) -> F8:
    """Times from 0 on; the first gap is left out."""
    return np.cumsum(np.concatenate([[0.0], gaps[1:]]))


@dataclass(frozen=True, slots=True)
class Saturated:
    """No times: for saturated runs, which reveal requests as there is room."""

    def times(self, requests: int, seed: int, replicate: int) -> F8 | None:
        return None


@dataclass(frozen=True, slots=True)
class AtOnce:
    """All requests at time 0."""

    def times(self, requests: int, seed: int, replicate: int) -> F8 | None:
        return np.zeros(requests)


@dataclass(frozen=True, slots=True)
class Poisson:
    """Poisson arrivals: exponential gaps."""

    requests_per_s: float

    def __post_init__(self) -> None:
        _hold(self, "requests_per_s")

    def times(self, requests: int, seed: int, replicate: int) -> F8 | None:
        return _from_gaps(_exponential("poisson", requests, seed, replicate) / self.requests_per_s)


@dataclass(frozen=True, slots=True)
class Constant:
    """Arrivals with equal gaps."""

    requests_per_s: float

    def __post_init__(self) -> None:
        _hold(self, "requests_per_s")

    def times(self, requests: int, seed: int, replicate: int) -> F8 | None:
        return np.arange(requests) / self.requests_per_s


@dataclass(frozen=True, slots=True)
class Gamma:
    """Gamma gaps with this coefficient of variation, 0.001 to 1000 (1 is Poisson; above, bursts; below, steadier).

    The coefficient is the standard deviation of the gaps over their mean, ``1 / requests_per_s`` seconds.
    """

    requests_per_s: float
    cv: float

    def __post_init__(self) -> None:
        _hold(self, "requests_per_s", "cv")
        check_range("gamma", "a number from 0.001 to 1000", low=1e-3, high=1e3, cv=self.cv)

    def times(self, requests: int, seed: int, replicate: int) -> F8 | None:
        from scipy.special import gammaincinv

        shape = 1 / self.cv**2
        gaps = gammaincinv(shape, _uniform("gamma", requests, seed, replicate)) / shape
        return _from_gaps(gaps / self.requests_per_s)


@dataclass(frozen=True, slots=True)
class OnOff:
    """Poisson arrivals at one rate for a while, then at another (0: silence), each phase of exponential length.

    Args:
        on_requests_per_s, off_requests_per_s: rates of the phases.
        on_s, off_s: mean lengths of the phases; the first is on.
    """

    on_requests_per_s: float
    on_s: float
    off_s: float
    off_requests_per_s: float = 0.0

    def __post_init__(self) -> None:
        _hold(self, "on_requests_per_s", "on_s", "off_s")
        check_range("onoff", "a finite number >= 0", low=0, finite=True, off_requests_per_s=self.off_requests_per_s)

    def times(self, requests: int, seed: int, replicate: int) -> F8 | None:
        events = _from_gaps(_exponential("onoff", requests, seed, replicate))
        phases = 16
        while True:  # twice as many phases until they hold all requests; a phase's length does not depend on how many
            lengths = _exponential("onoff-phase", phases, seed, replicate)
            lengths[0::2] *= self.on_s
            lengths[1::2] *= self.off_s
            rates = np.where(np.arange(phases) % 2 == 0, self.on_requests_per_s, self.off_requests_per_s)
            expected = np.concatenate([[0.0], np.cumsum(lengths * rates)])
            if expected[-1] > events[-1]:
                return _inverse(events, expected, np.concatenate([[0.0], np.cumsum(lengths)]))
            phases *= 2


@dataclass(frozen=True, slots=True)
class Diurnal:
    """Poisson arrivals whose rate swings as a sine over a period.

    ``rate(t) = requests_per_s * (1 + (peak_to_mean - 1) * cos(2 pi (t - peak_s) / period_s))``, t in seconds from the first
    request.

    Args:
        requests_per_s: mean rate.
        peak_to_mean: in [1, 2]; 2 falls to nothing at the trough.
        period_s: seconds from peak to peak.
        peak_s: time of the first peak.
    """

    requests_per_s: float
    peak_to_mean: float = 1.8
    period_s: float = 86_400.0
    peak_s: float = 0.0

    def __post_init__(self) -> None:
        _hold(self, "requests_per_s", "period_s")
        check_range("diurnal", "a number in [1, 2]", low=1, high=2, peak_to_mean=self.peak_to_mean)
        check_range("diurnal", "a finite number", finite=True, peak_s=self.peak_s)

    def times(self, requests: int, seed: int, replicate: int) -> F8 | None:
        events = _from_gaps(_exponential("diurnal", requests, seed, replicate))
        periods = math.ceil(events[-1] / (self.requests_per_s * self.period_s)) + 1
        grid = np.linspace(0.0, periods * self.period_s, periods * 2048 + 1)
        turn = 2 * np.pi / self.period_s
        swing = (self.peak_to_mean - 1) / turn * (np.sin(turn * (grid - self.peak_s)) + np.sin(turn * self.peak_s))
        return _inverse(events, self.requests_per_s * (grid + swing), grid)


@dataclass(frozen=True, slots=True, eq=False)
class LikeTrace:
    """The gaps of a recorded trace, scaled to a rate, over and over, from a keyed gap on (replicate 0: from the first).

    Args:
        gaps: float64[M], seconds between a trace's requests, not all 0.
        requests_per_s: rate to scale to; None keeps the trace's own.
    """

    gaps: F8
    requests_per_s: float | None = None

    def __post_init__(self) -> None:
        if self.gaps.size == 0 or float(self.gaps.sum()) <= 0:
            raise InputError("like-trace", "gaps", "none", "a trace with at least two different times")
        if self.requests_per_s is not None:
            _hold(self, "requests_per_s")

    def times(self, requests: int, seed: int, replicate: int) -> F8 | None:
        start = int(streams.uniform(seed, "arrivals-like-trace", replicate) * self.gaps.size) if replicate else 0
        places = (start + np.arange(max(requests - 1, 0))) % self.gaps.size
        scale = 1.0 if self.requests_per_s is None else 1 / (self.requests_per_s * float(self.gaps.mean()))
        return np.concatenate([[0.0], np.cumsum(self.gaps[places] * scale)])


def mean_rate(process: Arrivals) -> float:
    """Requests a second of a process over a long time; 0 for one without times or `requests_per_s`."""
    if isinstance(process, OnOff):
        expected = process.on_requests_per_s * process.on_s + process.off_requests_per_s * process.off_s
        return expected / (process.on_s + process.off_s)
    if isinstance(process, LikeTrace) and process.requests_per_s is None:
        return 1 / float(process.gaps.mean())
    return float(getattr(process, "requests_per_s", 0.0))


def _inverse(events: F8, expected: F8, grid: F8) -> F8:
    """Times at which the expected count reaches each event; where it stands still, the last such time."""
    right = np.minimum(np.searchsorted(expected, events, side="right"), expected.size - 1)
    below, above = expected[right - 1], expected[right]
    share = np.where(above > below, (events - below) / np.where(above > below, above - below, 1.0), 0.0)
    times = grid[right - 1] + share * (grid[right] - grid[right - 1])
    return times - times[0]
