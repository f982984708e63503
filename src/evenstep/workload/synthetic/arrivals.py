"""Arrival processes of synthetic workloads: each gives the times of N requests for a key, or None (`Saturated`).

The first request arrives at 0. Rates are requests a second. Draws are keyed by seed and replicate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from evenstep import streams
from evenstep.errors import InputError, check_range
from evenstep.request import F8, I8

#: Most periods of a diurnal process; their places are counted by int64.
_MOST_PERIODS = float(1 << 40)


class Arrivals(Protocol):
    """An arrival process: `times` returns the seconds, float64[N] ascending from 0, at which N `requests` arrive.

    For a workload without times, `times` returns None. The same seed and replicate give the same times.
    """

    def times(self, requests: int, seed: int, replicate: int) -> F8 | None: ...


def _uniform(stream: str, count: int, seed: int, replicate: int) -> F8:
    """float64[count], uniform numbers in [0, 1), keyed by stream, seed and replicate."""
    return streams.uniform(seed, f"arrivals-{stream}", np.arange(count, dtype=np.int64), draw=replicate)


def _exponential(stream: str, count: int, seed: int, replicate: int) -> F8:
    """float64[count], exponential numbers of mean 1, keyed by stream, seed and replicate."""
    return -np.log1p(-_uniform(stream, count, seed, replicate))


def _hold(process: object, *fields: str) -> None:
    """Raise an `InputError` unless these fields of a process are finite numbers above 0."""
    given = {field: getattr(process, field) for field in fields}
    check_range(type(process).__name__.lower(), "a finite number > 0", above=0, finite=True, **given)


def _from_gaps(gaps: F8) -> F8:
    """float64[N], times from N gaps: the first time is 0, so the first gap has no effect."""
    return np.cumsum(np.concatenate([[0.0], gaps[1:]]))


@dataclass(frozen=True, slots=True)
class Saturated:
    """No times, for saturated runs, where a request becomes visible as soon as there is room."""

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

    def times(self, requests: int, seed: int, replicate: int) -> F8:
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
    """Gamma gaps with this coefficient of variation, 0.001 to 1000 (1 is Poisson, more is burstier, less is steadier).

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
    """Poisson arrivals whose rate alternates between an on and an off phase, each of exponential length.

    Args:
        on_requests_per_s, off_requests_per_s: rates of the phases; 0 = silence, which only off may have.
        on_s, off_s: mean lengths of the phases in seconds; the first is on.
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
                ends = np.concatenate([[0.0], np.cumsum(lengths)])
                return _inverse(events, expected.take, ends.take, phases)
            phases *= 2


@dataclass(frozen=True, slots=True)
class Diurnal:
    """Poisson arrivals whose rate swings as a sine over a period.

    ``rate(t) = requests_per_s * (1 + (peak_to_mean - 1) * cos(2 pi (t - peak_s) / period_s))``, t in s from the start.

    Args:
        requests_per_s: mean rate.
        peak_to_mean: in [1, 2]; 2 falls to nothing at the trough.
        period_s: seconds from peak to peak.
        peak_s: seconds from the start to one of the peaks, maybe below 0; the others are whole periods away.
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
        each = self.requests_per_s * self.period_s  # requests a period
        if not events[-1] < each * _MOST_PERIODS:
            raise InputError("diurnal", "period_s", self.period_s, "a period that is not so far below the mean gap")
        periods = math.ceil(events[-1] / each) + 1
        last, end_s, turn = periods * 2048, periods * self.period_s, 2 * np.pi / self.period_s

        def grid(place: I8) -> F8:
            return np.where(place == last, end_s, place * (end_s / last))

        def expected(place: I8) -> F8:
            at = grid(place)
            swing = (self.peak_to_mean - 1) / turn * (np.sin(turn * (at - self.peak_s)) + np.sin(turn * self.peak_s))
            return self.requests_per_s * (at + swing)

        return _inverse(events, expected, grid, last)


@dataclass(frozen=True, slots=True, eq=False)
class LikeTrace:
    """The gaps of a recorded trace, repeated in order; replicate 0 begins at the first gap, others at a gap drawn by key.

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


def _inverse(events: F8, expected: Callable[[I8], F8], grid: Callable[[I8], F8], last: int) -> F8:
    """float64[N], times (the first at 0) at which a cumulative count reaches each event; on a flat part, at its end.

    `expected` and `grid` give the count from 0 on and its time at places 0 to `last`, ascending. Only places near events are
    asked for, so there may be more than memory could hold.
    """
    low, right = np.zeros(events.size, np.int64), np.full(events.size, last)
    while (low < right).any():  # to the first place whose count is above the event, or to the last
        middle = (low + right) // 2
        is_above = expected(middle) > events
        low, right = np.where(is_above, low, np.minimum(middle + 1, right)), np.where(is_above, middle, right)
    below, above = expected(right - 1), expected(right)
    share = np.where(above > below, (events - below) / np.where(above > below, above - below, 1.0), 0.0)
    times = grid(right - 1) + share * (grid(right) - grid(right - 1))
    return times - times[0]
