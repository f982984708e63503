"""Judges whether an engine keeps up with arrivals, by the growth (drift) of the number of requests or tokens in it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from evenstep.errors import InputError
from evenstep.measure.comparison import Interval, mean_interval
from evenstep.measure.engine_records import EngineRun
from evenstep.request import F8, I8, Trace, offsets_of

#: Share of the time that is left out, stretches of equal length that the rest is cut into, and moments in each.
_WARM_UP, _STRETCHES, _SAMPLES = 0.5, 10, 100

Verdict = Literal["stable", "unstable", "undecided"]
Unit = Literal["requests", "tokens"]


@dataclass(frozen=True, slots=True, repr=False)
class Stability:
    """A verdict on whether a system keeps up, from the number of requests (or tokens) in it over time.

    As text it gives the reason too, and says what settles an undecided verdict.
    """

    #: ``stable`` if the interval of the drift lies below the tolerated share of the arrivals, ``unstable`` if it lies above;
    #: else ``undecided``: a longer run may tell
    verdict: Verdict
    drift: Interval  # growth of the number of requests (or tokens) in the system, a second, with its 95 % interval
    arrivals_per_s: float  # arrivals a second over the same time, in the same unit
    #: `arrivals_per_s` less the growth a second from the first to the last moment; nan if unknown
    served_per_s: float = math.nan

    def __str__(self) -> str:
        if math.isnan(self.arrivals_per_s):
            return f"{self.verdict}: all tasks arrive at once; only tasks that arrive over time can be judged"
        if self.arrivals_per_s == 0 and self.verdict == "undecided":
            return f"{self.verdict}: nothing arrived in the time that is judged; a longer run may tell"
        drift, come = self.drift, f"{self.arrivals_per_s:.3g} arrive a second"
        change = f"{drift.value:.3g} a second (95 % interval {drift.low:.3g} to {drift.high:.3g})"
        more = "; the interval is too wide to tell, and a longer run narrows it" if self.verdict == "undecided" else ""
        return f"{self.verdict}: {come}, and the number in the system changes by {change}{more}"

    def __repr__(self) -> str:
        return f"<{self}>"


def stability(run: EngineRun, *, tolerance: float = 0.01, unit: Unit = "requests") -> Stability:
    """Judge whether an engine keeps up while requests arrive.

    The time judged ends at the last arrival, or at an earlier stop of the run. Its second half is cut into ten stretches of
    equal length. The drift is the growth of the mean number of requests in the engine from one stretch to the next. Its
    interval is Student's over these nine differences, wider by sqrt(3/2), because neighbours share noise: the factor is
    exact if the number is a random walk. In a stable engine one stretch loses what another gains, so the interval is wider
    than necessary and the verdict errs toward ``undecided``.

    Args:
        run: with its iteration table and its trace.
        tolerance: share of the arrivals that a drift may have and still count as zero.
        unit: count requests, or the tokens they still have to run. Tokens do not depend on the order of service; a count of
            requests misses an overload if only the longest requests are left waiting. Recomputed tokens count as done, so
            tokens suit engines that evict no requests.

    Raises: InputError for a run without iterations, trace or arrivals after time 0, and for a tolerance outside (0, 1).
    Source: the drift of Throughput-optimal's Markov chain (sec. 2.3, Theorem 1), estimated by batch means; our verdict.
    """
    if run.iterations is None or run.trace is None:
        raise InputError("stability", "run", "without records", "a run with its iterations and its trace")
    if not 0 < tolerance < 1:
        raise InputError("stability", "tolerance", tolerance, "a number between 0 and 1")
    arrival_s = np.sort(run.trace.column("arrival_s"))
    end = min(float(arrival_s[-1]), run.totals.makespan_s) if arrival_s.size else 0.0
    if end <= 0:
        raise InputError("stability", "trace", f"{arrival_s.size} requests by {end} s", "arrivals over time")
    moments = np.append(moments_of(end), end)
    ends = moments[[0, -1]]
    if unit == "requests":
        counted = in_system(arrival_s, np.sort(run.requests.finished_s), moments)
        arrived = np.searchsorted(arrival_s, ends, side="right")
    else:
        counted, arrived = work_left(run, moments), tokens_arrived(run, ends)
    come, left, span_s = float(arrived[1] - arrived[0]), float(counted[-1] - counted[0]), float(ends[1] - ends[0])
    found = judged(counted[:-1], end, come / span_s, tolerance)
    return replace(found, served_per_s=(come - left) / span_s)


def moments_of(end_s: float) -> F8:
    """float64[1000], ascending: the times, within the second half of `end_s` seconds, at which `judged` needs counts."""
    return np.linspace(_WARM_UP * end_s, end_s, _STRETCHES * _SAMPLES, endpoint=False)


def judged(counted: F8, end_s: float, arrivals_per_s: float, tolerance: float = 0.01) -> Stability:
    """Judge stability by the number in a system: the drift over ten stretches of time, with its interval (`stability`).

    `served_per_s` of the result is nan.

    Args:
        counted: float64[1000], the number in the system at each of `moments_of(end_s)`.
        end_s: end of the time that is judged, seconds.
        arrivals_per_s: arrivals a second in the second half of that time, in the unit of `counted`.
        tolerance: share of the arrivals that a drift may have and still count as zero.
    """
    held = counted.reshape(_STRETCHES, _SAMPLES).mean(axis=1)
    found = mean_interval((np.diff(held) / ((1 - _WARM_UP) * end_s / _STRETCHES)).tolist())
    assert found.half is not None
    half, tolerated = math.sqrt(1.5) * found.half, tolerance * arrivals_per_s
    low, high = found.value - half, found.value + half
    verdict: Verdict = "unstable" if low > tolerated else "stable" if high < tolerated else "undecided"
    return Stability(verdict, Interval(found.value, low, high), arrivals_per_s)


def in_system(come_s: F8, finished_s: F8, times_s: F8) -> F8:
    """float64[T], number of requests (or calls) in a system at each of `times_s`: arrived by then, minus finished by then.

    `come_s` (arrivals) and `finished_s` are ascending, `times_s` float64[T] is in any order; all in seconds. Requests that
    never finish are left out of `finished_s`, or are nan at its end.
    """
    come, finished = (np.searchsorted(ends, times_s, side="right") for ends in (come_s, finished_s))
    return (come - finished).astype(np.float64)


def tokens_of(trace: Trace, first_token: str) -> I8:
    """int64[N], tokens that an engine runs for each request if it evicts no request: prompt plus output tokens.

    One less if `first_token` is ``prefill``: then the iteration that ends the prompt gives the first output token.
    """
    return trace.prompt_tokens + trace.output_tokens - (1 if first_token == "prefill" else 0)


def tokens_arrived(run: EngineRun, times_s: F8) -> F8:
    """float64[T], sum of `tokens_of` over the requests of the run's trace that arrived at or before each time."""
    assert run.trace is not None
    arrival_s = run.trace.column("arrival_s")
    order = np.argsort(arrival_s, kind="stable")
    tokens = tokens_of(run.trace, run.conditions.engine["first_token"])[order]
    return offsets_of(tokens)[np.searchsorted(arrival_s[order], times_s, side="right")].astype(np.float64)


def work_left(run: EngineRun, times_s: F8) -> F8:
    """float64[T], tokens that the engine still has to run at each time for the requests that have arrived.

    It is `tokens_arrived` minus all tokens run by then; an iteration runs its tokens evenly over its time. Recomputed tokens
    count as run, so the result is too low after evictions. The run must have its iterations and its trace.
    """
    assert run.iterations is not None
    steps = run.iterations
    at = np.stack([steps.start_s, steps.start_s + steps.seconds], axis=1).ravel()
    ends = np.cumsum(steps.tokens)
    done = np.stack([ends - steps.tokens, ends], axis=1).ravel()
    return tokens_arrived(run, times_s) - np.interp(times_s, at, done, left=0.0)
