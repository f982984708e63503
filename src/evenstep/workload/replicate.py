"""Replicates of a workload, and the same workload at another rate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from evenstep import streams
from evenstep.errors import InputError, check_range
from evenstep.request import F8, I8, Trace

#: Rates that times can be scaled to, in requests a second: beyond, seconds have too few digits for the steps of a run.
_LEAST_RATE, _MOST_RATE = 1e-6, 1e9


@runtime_checkable
class Drawn(Protocol):
    """A workload that draws a trace for a key (synthetic, or ServeGen's clients); `name` is what reports call it.

    `draw(seed, replicate)` returns the same trace for the same pair, and an independent one for another replicate.
    """

    @property
    def name(self) -> str: ...

    def draw(self, seed: int, replicate: int = 0) -> Trace: ...


Source: TypeAlias = "Trace | Drawn"


def replicate(source: Source, number: int, seed: int) -> Trace:
    """Replicate `number` of a workload.

    A recorded trace is rotated: its sessions (a request without one counts as its own) start at a keyed offset and wrap
    around. Their order, the gaps between them, their content and the set of requests stay. The gap at the wrap is the mean
    gap. The times of a trace with sessions are then scaled to its rate, since sessions moved behind the end prolong it. No
    offset repeats before all have been used. A synthetic workload is drawn again under the key (seed, number).

    Args:
        number: 0, 1, ...; 0 of a recorded trace is the trace itself.
        seed: the comparison's seed: key of the offset, or of the draw.

    Returns:
        The trace, its rows renumbered from 0 and its first arrival at 0 s.

    Raises:
        InputError: a negative number or seed; or a number above 0 of a drawn trace that is given without its generator.
    """
    check_range("replicate", "a whole number >= 0", low=0, number=number, seed=seed)
    if not isinstance(source, Trace):
        return source.draw(seed, number)
    if number == 0:
        return source
    if source.synthetic:
        raise InputError(
            source.name or "trace", "replicate", number, "0", "Give the workload file of the trace, to draw it again."
        )
    return _rotated(source, number, seed)


def how(source: Source) -> str:
    """A sentence for reports on how replicates of this workload are made."""
    if isinstance(source, Trace):
        return "replicates rotate the recorded trace by a keyed offset (the first is the trace as it is)"
    return "replicates are new draws"


def _rotated(trace: Trace, number: int, seed: int) -> Trace:
    unit, units = units_of(trace)
    if units < 2:
        return trace
    offset = _offset(units, number, seed)
    rank = (unit - offset) % units
    if trace.arrival_s is None:
        return trace.take(np.argsort(rank, kind="stable").astype(np.int64))
    first = np.zeros(units)
    first[unit[::-1]] = trace.arrival_s[::-1]  # time of each unit's first row, which is written last
    begins = _rotated_times(first, offset)
    times = begins[rank] + (trace.arrival_s - first[unit])
    if units < len(trace):
        times *= np.ptp(trace.arrival_s) / (np.ptp(times) or 1.0)
    order = np.lexsort((np.arange(len(trace)), rank, times)).astype(np.int64)
    turned = trace.take(order)
    return replace(turned, arrival_s=np.maximum.accumulate(times[order]))


def _offset(units: int, number: int, seed: int) -> int:
    """Where replicate `number` begins: drawn from 1 to units - 1, or the next offset that no earlier replicate has."""
    taken = {0}
    offset = 0
    for earlier in range(1, number + 1):
        offset = 1 + int(streams.uniform(seed, "replicate-offset", earlier) * (units - 1))
        while offset in taken and len(taken) < units:
            offset = offset % (units - 1) + 1
        taken.add(offset)
    return offset


def units_of(trace: Trace) -> tuple[I8, int]:
    """int64[N], the unit (session, or single request) of each row, and the number of units.

    Units are numbered from 0 in order of their first rows.
    """
    session = trace.column("session")
    alone = session < 0
    label = np.where(alone, -1 - np.arange(len(trace)), session)
    _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
    place = np.empty(first.size, np.int64)
    place[np.argsort(first, kind="stable")] = np.arange(first.size)
    return place[inverse.reshape(-1)], int(first.size)


def _rotated_times(first: F8, offset: int) -> F8:
    """Start of each unit by its new rank: the old gaps, and the mean gap where the last meets the first."""
    gaps = np.diff(first)
    mean = float(gaps.mean())
    turned = np.concatenate([gaps[offset:], [mean], gaps[: offset - 1]])
    return np.concatenate([[0.0], np.cumsum(turned)])


def scaled_to_rate(source: Trace, requests_per_s: float, seed: int = 0, replicate: int = 0) -> Trace:
    """The trace with its times multiplied so that `rate` is `requests_per_s`, and a note on it.

    A trace without times gets Poisson ones, keyed by seed and replicate. Think times stay as they are.

    Raises:
        InputError: as `check_rate`, and a trace whose rows all share one time.
    """
    check_rate("--rate", requests_per_s, requests_per_s)
    if source.arrival_s is None:
        from evenstep.workload.synthetic.arrivals import Poisson

        times = Poisson(requests_per_s).times(len(source), seed, replicate)
        note = f"The file has no times: Poisson arrivals at {requests_per_s:g} requests a second, seed {seed}."
        return replace(source, arrival_s=times).with_notes(note)
    now = rate(source)
    if not np.isfinite(now):
        raise InputError(source.name or "trace", "arrival_s", "one time only", "times to scale", "Use saturated arrivals.")
    note = f"Times were scaled from {now:.4g} to {requests_per_s:.4g} requests a second."
    return replace(source, arrival_s=source.arrival_s * (now / requests_per_s)).with_notes(note)


def scaled_to_load(
    source: Trace,
    load: float,
    *,
    workers: int,
    slots: int,
    overhead_s: float,
    per_token_s: float,
    seed: int = 0,
    replicate: int = 0,
) -> Trace:
    """The trace with its times scaled to a share of the cluster's capacity (see `capacity`).

    Args:
        load: arrivals a second over `capacity`, for instance 0.9.
        workers, slots, overhead_s, per_token_s: the cluster, as in `capacity`.
        seed, replicate: as in `scaled_to_rate`.

    Raises:
        InputError: as `capacity`, `check_rate` and `scaled_to_rate`.
    """
    most = capacity(source, workers=workers, slots=slots, overhead_s=overhead_s, per_token_s=per_token_s)
    check_rate("--load", load, load * most)
    return scaled_to_rate(source, load * most, seed, replicate)


def check_rate(flag: str, value: float, requests_per_s: float) -> None:
    """Check a rate to which times are to be scaled.

    Args:
        flag, value: the flag that asks for it, and its value.
        requests_per_s: the rate that follows from the value.

    Raises:
        InputError: `value` is no finite number above 0; or the rate is outside 1e-6 to 1e9 requests a second, for which
            seconds have too few digits.
    """
    if not (np.isfinite(value) and value > 0):
        raise InputError(flag, flag.removeprefix("--"), value, "a finite number > 0")
    if not _LEAST_RATE <= requests_per_s <= _MOST_RATE:
        expected = f"what gives {_LEAST_RATE:g} to {_MOST_RATE:g} requests a second"
        raise InputError(flag, flag.removeprefix("--"), value, expected, f"It gives {requests_per_s:.3g}.")


def capacity(source: Trace, *, workers: int, slots: int, overhead_s: float, per_token_s: float) -> float:
    """Requests a second of a perfectly balanced, always full cluster under +1 drift.

    ``G B / (C + t Lbar) / mean(o)`` with ``Lbar = B sum(o s + o (o - 1) / 2) / sum(o)``: G workers, B slots a worker,
    C seconds of fixed time a step, t seconds a KV token of the heaviest worker, s prompt and o output tokens.

    Raises:
        InputError: a cluster without workers or slots, a negative time, or a step that takes 0 s.
    """
    check_range("--load", "a finite number >= 1", low=1, finite=True, workers=workers, slots=slots)
    check_range("--load", "a finite number >= 0", low=0, finite=True, overhead_s=overhead_s, per_token_s=per_token_s)
    output = source.output_tokens.astype(np.float64)
    load = slots * float((output * source.prompt_tokens + output * (output - 1) / 2).sum()) / float(output.sum())
    step_s = overhead_s + per_token_s * load
    if step_s <= 0:
        raise InputError("--load", "overhead_s and per_token_s", 0, "a step of more than 0 s")
    return workers * slots / step_s / float(output.mean())


@dataclass(frozen=True, slots=True)
class Rescaled:
    """A drawn workload whose traces are brought to a rate, or to a load on a cluster, after each draw.

    Args:
        drawn: the workload.
        requests_per_s: rate to scale to; None where `load` is given.
        load: share of `capacity` to scale to; None where `requests_per_s` is given. Without either, `draw` raises
            InputError.
        cluster: for `load`: workers, slots a worker, seconds of fixed time a step, seconds a KV token.
    """

    drawn: Drawn
    requests_per_s: float | None = None
    load: float | None = None
    cluster: tuple[int, int, float, float] = (16, 72, 0.0049, 1.1e-7)

    @property
    def name(self) -> str:
        return self.drawn.name

    def draw(self, seed: int, replicate: int = 0) -> Trace:
        trace = self.drawn.draw(seed, replicate)
        return _scaled(trace, self.requests_per_s, self.load, self.cluster, seed, replicate)


def rescaled(
    source: Source,
    *,
    requests_per_s: float | None = None,
    load: float | None = None,
    workers: int = 16,
    slots: int = 72,
    overhead_s: float = 0.0049,
    per_token_s: float = 1.1e-7,
    seed: int = 0,
) -> Source:
    """The workload at another rate, or at a load on this cluster; the same object when neither is given.

    A recorded trace is scaled at once (`scaled_to_rate`, `scaled_to_load`), a drawn workload after each draw (`Rescaled`).

    Args:
        workers, slots, overhead_s, per_token_s: the cluster, as in `capacity`; only `load` needs it.
        seed: key of the times that a recorded trace without times gets.

    Raises:
        InputError: both rate and load are given; or, for a recorded trace, as `scaled_to_rate` and `scaled_to_load`.
    """
    if requests_per_s is not None and load is not None:
        hint = f"The rate is {requests_per_s:g}; leave one of them out."
        raise InputError("workload", "load", load, "a rate or a load, not both", hint)
    if requests_per_s is None and load is None:
        return source
    cluster = (workers, slots, overhead_s, per_token_s)
    if isinstance(source, Trace):
        return _scaled(source, requests_per_s, load, cluster, seed, 0)
    return Rescaled(source, requests_per_s, load, cluster)


def _scaled(
    trace: Trace,
    requests_per_s: float | None,
    load: float | None,
    cluster: tuple[int, int, float, float],
    seed: int,
    number: int,
) -> Trace:
    if requests_per_s is not None:
        return scaled_to_rate(trace, requests_per_s, seed, number)
    workers, slots, overhead_s, per_token_s = cluster
    return scaled_to_load(
        trace,
        load or 0.0,
        workers=workers,
        slots=slots,
        overhead_s=overhead_s,
        per_token_s=per_token_s,
        seed=seed,
        replicate=number,
    )


def rate(source: Trace) -> float:
    """Requests a second: N - 1 over the seconds from first to last time; nan without times, or if that span is 0."""
    if source.arrival_s is None or len(source) < 2:
        return float("nan")
    span = float(source.arrival_s[-1] - source.arrival_s[0])
    return (len(source) - 1) / span if span > 0 else float("nan")
