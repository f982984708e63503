"""The pace of arrivals: a trace's own, at a given rate, or at a share of what the fleet can do."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from evenstep import streams
from evenstep.cost.view import StepTime
from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.sim.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Pace:
    """How a trace's arrival times are rescaled.

    Args:
        rate: requests a second; None = as they are.
        load: share of the fleet's capacity (see `capacity`); None = as they are.

    Raises:
        InputError: both given, or one that is not above 0.
    """

    rate: float | None = None
    load: float | None = None

    def __post_init__(self) -> None:
        if self.rate is not None and self.load is not None:
            raise InputError("arrivals", "load", self.load, "either --load or --rate, not both")
        for name in ("rate", "load"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise InputError("arrivals", name, value, "a finite number > 0")

    def apply(self, trace: Trace, cluster: Cluster, step_time: StepTime, seed: int) -> Trace:
        """The trace at this pace; unchanged when no pace is asked for.

        Args:
            trace: with times, whose gaps are stretched alike; or without, which gets Poisson arrivals.
            cluster, step_time: the fleet, for `load`.
            seed: key of the Poisson gaps.

        Raises:
            InputError: all requests arrive at once, so there is no rate to change.
        """
        rate = self.rate
        if self.load is not None:
            rate = self.load * capacity(trace, cluster, step_time)
        return trace if rate is None else at_rate(trace, rate, seed)


def capacity(trace: Trace, cluster: Cluster, step_time: StepTime) -> float:
    """Requests a second the fleet completes with every slot busy and every load even.

    ``G*B / (C + t_l*Lbar) / mean(o)`` with ``Lbar = B * sum(o*s + o(o-1)/2) / sum(o)``; for several groups C is that
    of the largest.
    """
    prompt, output = trace.prompt_tokens.astype(np.float64), trace.output_tokens.astype(np.float64)
    slots = sum(cluster.slots_of)
    each = slots / cluster.workers
    load = each * float(np.sum(output * prompt + output * (output - 1) / 2)) / float(np.sum(output))
    even = np.full(cluster.workers, load)
    running = np.full(cluster.workers, round(each), np.int64)
    local = float(np.max(step_time.local_seconds(even, running, even / each)))
    return slots / (step_time.overhead_seconds(max(cluster.group_sizes)) + local) / float(np.mean(output))


def at_rate(trace: Trace, rate: float, seed: int) -> Trace:
    """The trace at a mean rate of arrivals, requests a second (see `Pace.apply`)."""
    rows = len(trace)
    if trace.arrival_s is None:
        gaps = -np.log1p(-streams.uniform(seed, "poisson arrivals", trace.request_id)) / rate
        note = f"no times in the trace: Poisson arrivals at {rate:g} requests a second"
        return replace(trace, arrival_s=np.cumsum(gaps) - gaps[:1]).with_notes(note)
    span = float(trace.arrival_s[-1] - trace.arrival_s[0])
    if span <= 0:
        raise InputError(
            trace.name or "trace", "arrival_s", "one moment", "times that differ, to rescale them"
        )
    factor = (rows - 1) / span / rate
    note = f"arrival times x {factor:.6g}: {rate:.6g} requests a second"
    return replace(trace, arrival_s=(trace.arrival_s - trace.arrival_s[0]) * factor).with_notes(note)
