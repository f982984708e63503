"""Makes replicates of a workload, and scales a workload to another rate or load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from evenstep import streams
from evenstep.errors import InputError, check_range
from evenstep.request import I8, Trace

#: Rates to which times can be scaled, requests a second. Beyond them seconds have too few digits for the steps of a run.
_LEAST_RATE, _MOST_RATE = 1e-6, 1e9


@runtime_checkable
class Drawn(Protocol):
    """A workload whose traces are drawn at random (synthetic, or ServeGen's clients); reports call it `name`.

    `draw(seed, replicate)` returns the same trace for the same pair, and an independent one for another replicate.
    """

    @property
    def name(self) -> str: ...

    def draw(self, seed: int, replicate: int = 0) -> Trace: ...


Source: TypeAlias = "Trace | Drawn"


def replicate(source: Source, number: int, seed: int) -> Trace:
    """Replicate `number` of a workload: a recorded trace is rotated, a synthetic workload is drawn under (seed, number).

    Rotation draws a session to start at, by key, and moves the sessions before it to the end. A request without a session
    counts as one. The content of sessions, their order and the gaps between their starts stay; the mean gap follows the last
    recorded session. If a session has several requests, times are then multiplied so that the trace is as long as recorded.
    No start is drawn again until all were used. A trace of one session is returned as it is.

    Args:
        number: 0, 1, ...; replicate 0 of a recorded trace is the trace itself.
        seed: the comparison's seed: key of the start, or of the draw.

    Returns:
        The trace, its rows renumbered from 0 and its first arrival at 0 s.

    Raises:
        InputError: a negative number or seed; or a number above 0 for a drawn trace (`Trace.synthetic`): give its generator.
    """
    check_range("replicate", "a whole number >= 0", low=0, number=number)
    if not (isinstance(seed, Integral) and seed >= 0):  # a key may have all 64 bits
        raise InputError("replicate", "seed", seed, "a whole number >= 0")
    if not isinstance(source, Trace):
        return source.draw(seed, number)
    if number == 0:
        return source
    if source.synthetic:
        hint = "Give the workload file of the trace, to draw it again."
        raise InputError(source.name or "trace", "replicate", number, "0", hint)
    return _rotated(source, number, seed)


def _rotated(trace: Trace, number: int, seed: int) -> Trace:
    """Replicate `number`, 1 or more, of a recorded trace, rotated as `replicate` says; a trace of one unit is kept."""
    unit, units = units_of(trace)
    if units < 2:
        return trace
    offset = _offset(units, number, seed)
    rank = (unit - offset) % units
    if trace.arrival_s is None:
        return trace.take(np.argsort(rank, kind="stable").astype(np.int64))
    first = np.zeros(units)
    first[unit[::-1]] = trace.arrival_s[::-1]  # time of each unit's first row, which is written last
    gaps = np.diff(first)  # between the starts of units; the mean gap stands where the last unit meets the first
    begins = np.cumsum(np.concatenate([[0.0], gaps[offset:], [gaps.mean()], gaps[: offset - 1]]))
    times = begins[rank] + (trace.arrival_s - first[unit])
    if units < len(trace):
        times *= np.ptp(trace.arrival_s) / (np.ptp(times) or 1.0)
    order = np.lexsort((np.arange(len(trace)), rank, times)).astype(np.int64)
    turned = trace.take(order)
    return replace(turned, arrival_s=np.maximum.accumulate(times[order]))


def _offset(units: int, number: int, seed: int) -> int:
    """The unit at which replicate `number` begins: drawn from 1 to units - 1, or the next that no earlier replicate has."""
    taken = {0}
    offset = 0
    for earlier in range(1, number + 1):
        offset = 1 + int(streams.uniform(seed, "replicate-offset", earlier) * (units - 1))
        while offset in taken and len(taken) < units:
            offset = offset % (units - 1) + 1
        taken.add(offset)
    return offset


def units_of(trace: Trace) -> tuple[I8, int]:
    """int64[N], each row's unit (its session, or else the row alone), numbered by first rows; and the number of units."""
    session = trace.column("session")
    label = np.where(session < 0, -1 - np.arange(len(trace)), session)
    _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
    place = np.empty(first.size, np.int64)
    place[np.argsort(first, kind="stable")] = np.arange(first.size)
    return place[inverse.reshape(-1)], int(first.size)


def scaled_to_rate(source: Trace, requests_per_s: float, seed: int = 0, replicate: int = 0) -> Trace:
    """The trace with its times multiplied so that its mean rate (`rate`) is `requests_per_s`, and a note that says so.

    A trace without times gets Poisson ones, keyed by seed and replicate. Think times stay as they are.

    Raises:
        InputError: a rate outside 1e-6 to 1e9, or a trace whose rows all share one time.
    """
    check_rate("--rate", requests_per_s, requests_per_s)
    if source.arrival_s is None:
        from evenstep.workload.synthetic.arrivals import Poisson

        times = Poisson(requests_per_s).times(len(source), seed, replicate)
        note = f"The file has no times: Poisson arrivals at {requests_per_s:g} requests a second, seed {seed}."
        return replace(source, arrival_s=times).with_notes(note)
    now = rate(source)
    if not np.isfinite(now):
        hint = "Without a column of times, rows arrive at the rate."
        raise InputError(source.name or "trace", "arrival_s", "one time only", "times to scale", hint)
    note = f"Times were scaled from {now:.4g} to {requests_per_s:.4g} requests a second."
    return replace(source, arrival_s=source.arrival_s * (now / requests_per_s)).with_notes(note)


def scaled_to_load(source: Trace, load: float, *, seed: int = 0, replicate: int = 0, **cluster: Any) -> Trace:
    """The trace with its times scaled so that arrivals a second are `load` times the cluster's `capacity`, for instance 0.9.

    `cluster` is `workers`, `slots`, `overhead_s` and `per_token_s` of `capacity`. A trace without times gets Poisson ones,
    keyed by seed and replicate.

    Raises:
        InputError: a bad cluster (`capacity`), a load that is not above 0, or what `scaled_to_rate` raises.
    """
    most = capacity(source, **cluster)
    check_rate("--load", load, load * most)
    return scaled_to_rate(source, load * most, seed, replicate)


def check_rate(flag: str, value: float, requests_per_s: float) -> None:
    """Check `value`, given by a flag such as ``--load``, and the rate `requests_per_s` to which it would scale a trace.

    Raises:
        InputError: `value` is no finite number above 0, or the rate is outside 1e-6 to 1e9 requests a second.
    """
    field = flag.removeprefix("--")
    check_range(flag, "a finite number > 0", above=0, finite=True, **{field: value})
    if not _LEAST_RATE <= requests_per_s <= _MOST_RATE:
        expected = f"what gives {_LEAST_RATE:g} to {_MOST_RATE:g} requests a second"
        raise InputError(flag, field, value, expected, f"It gives {requests_per_s:.3g}.")


def capacity(source: Trace, *, workers: int, slots: int, overhead_s: float, per_token_s: float) -> float:
    """Requests a second that a perfectly balanced, always full cluster completes under a drift of +1.

    ``G B / (C + t Lbar) / mean(o)`` with ``Lbar = B sum(o s + o (o - 1) / 2) / sum(o)``: G workers, B slots a worker, C
    seconds of fixed time a step, t seconds a KV token of the heaviest worker, s prompt and o output tokens.

    Raises:
        InputError: a cluster without workers or slots, a negative time, or a step that takes 0 s.
    """
    check_range("--load", "a finite number >= 1", low=1, finite=True, workers=workers, slots=slots)
    check_range("--load", "a finite number >= 0", low=0, finite=True, overhead_s=overhead_s, per_token_s=per_token_s)
    step_s = overhead_s + per_token_s * mean_load(source, slots)
    if step_s <= 0:
        raise InputError("--load", "overhead_s and per_token_s", 0, "a step of more than 0 s")
    return workers * slots / step_s / float(source.output_tokens.astype(np.float64).mean())


def mean_load(source: Trace, slots: float) -> float:
    """Mean KV tokens of a worker that always runs `slots` requests of the trace, under a drift of +1: Lbar of `capacity`."""
    output = source.output_tokens.astype(np.float64)
    return slots * float((output * source.prompt_tokens + output * (output - 1) / 2).sum()) / float(output.sum())


@dataclass(frozen=True, slots=True)
class Rescaled:
    """A drawn workload whose traces are scaled to a rate, or to a load on a cluster, after each draw."""

    drawn: Drawn
    scale: Callable[..., Trace]  # `scaled_to_rate` or `scaled_to_load`, bound to a rate, or a load and a cluster

    @property
    def name(self) -> str:
        return self.drawn.name

    def draw(self, seed: int, replicate: int = 0) -> Trace:
        return self.scale(self.drawn.draw(seed, replicate), seed=seed, replicate=replicate)


def rescaled(
    source: Source, *, requests_per_s: float | None = None, load: float | None = None, seed: int = 0, **cluster: Any
) -> Source:
    """The workload at another rate, or at a load on a cluster; the same object when neither is given.

    A recorded trace is scaled at once (`scaled_to_rate`, `scaled_to_load`), a drawn workload after each draw (`Rescaled`).

    Args:
        seed: key of the times that a recorded trace without times gets.
        cluster: the keyword arguments of `capacity`; only `load` needs them.

    Raises:
        InputError: both rate and load are given; or a recorded trace cannot be scaled so (`scaled_to_load`). A drawn
            workload raises that at each draw.
    """
    if requests_per_s is not None and load is not None:
        hint = f"The rate is {requests_per_s:g}; leave one of them out."
        raise InputError("workload", "load", load, "a rate or a load, not both", hint)
    if load is not None:
        scale = partial(scaled_to_load, load=load, **cluster)
    elif requests_per_s is not None:
        scale = partial(scaled_to_rate, requests_per_s=requests_per_s)
    else:
        return source
    return scale(source, seed=seed) if isinstance(source, Trace) else Rescaled(source, scale)


def rate(source: Trace) -> float:
    """Requests a second: N - 1 over the seconds from first to last time; nan without times, or if that span is 0."""
    if source.arrival_s is None or len(source) < 2:
        return float("nan")
    span = float(source.arrival_s[-1] - source.arrival_s[0])
    return (len(source) - 1) / span if span > 0 else float("nan")
