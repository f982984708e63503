"""From settings to a plan: how a workload is read and scaled to a rate or load."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenstep.cost.linear import Linear
from evenstep.cost.view import StepTime
from evenstep.errors import InputError, check_range_if_given
from evenstep.experiments.jobs import Plan
from evenstep.request import Trace
from evenstep.sim.cluster.drift import Drift
from evenstep.sim.cluster.simulation import Cluster
from evenstep.workload.replicate import Source, rescaled

if TYPE_CHECKING:
    from evenstep.workload.synthetic.yaml_file import Workload


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything that decides how a workload is read; equal readings give the same requests."""

    source: Any  # a trace, a generator of traces, or a path
    limit: int | None = None  # number of first rows to read, or of requests to draw
    format_name: str | None = None  # the trace's format and its options, e.g. ``mooncake:ticks=keep``; None = recognise it
    skip_bad_rows: bool = False  # leave out rows that cannot be read
    seed: int = 0  # key of everything that a reader draws
    prefix_blocks: bool = False  # also read the block ids of prompts, if the source is a file

    @classmethod
    def of(cls, settings: Any) -> Reading:
        """The `Reading` with the same-named fields of a fleet's or engine's settings.

        Block ids are read if the settings have `prefix_cache_blocks` above 0.
        """
        kept = {name: getattr(settings, name) for name in ("source", "limit", "format_name", "skip_bad_rows", "seed")}
        return cls(**kept, prefix_blocks=getattr(settings, "prefix_cache_blocks", 0) > 0)

    def workload(self) -> Workload:
        """Open the workload: its trace or generator, with the rate or load that its file asks for, which is not yet applied.

        `InputError` for a file that cannot be read, a limit on a generator in memory, or an object of another kind.
        """
        from evenstep.workload.sources import open_source
        from evenstep.workload.synthetic.yaml_file import Workload

        source, limit = self.source, self.limit
        if not (isinstance(source, str | Path | Trace) or callable(getattr(source, "draw", None))):
            kind = "None" if source is None else type(source).__name__
            hint = "For a DataFrame or other columns in memory, use Trace.from_columns."
            raise InputError("compare", "source", kind, "a Trace, a path, or sample:NAME", hint)
        if isinstance(source, str | Path):
            common: dict[str, Any] = {"skip_bad_rows": self.skip_bad_rows, "limit": limit, "seed": self.seed}
            # blocks are most of a file, so they are read only if they are used
            return open_source(source, self.format_name, **common, prefix_blocks=self.prefix_blocks)
        if limit is not None and not isinstance(source, Trace):
            expected = "no limit for a synthetic workload; its file sets the number of requests"
            raise InputError("compare", "limit", limit, expected)
        return Workload(source.head(limit) if limit is not None else source)


def scaled(
    found: Workload,
    cluster: Cluster,
    step_time: StepTime,
    *,
    rate: float | None = None,
    load: float | None = None,
    seed: int = 0,
) -> Source:
    """A workload's trace or generator at this rate (requests a second) or load, else at those of its file, if any.

    The load is a share of the fleet's capacity. If workers differ in slots, this is the capacity of a fleet with the most
    slots on every worker, times the share of these slots that exists. `seed` is the key of Poisson arrivals. `InputError`
    for both a rate and a load, for one that is not finite and above 0, and for timed arrivals under a law of infinite mean.
    A load also needs a linear law and a drift of one token a step.
    """
    from evenstep.workload.synthetic.yaml_file import check_arriving

    check_range_if_given("compare", "a finite number > 0", above=0, finite=True, rate=rate, load=load)
    if rate is None and load is None:
        rate, load = found.requests_per_s, found.load
    if cluster.arrivals == "timed":
        check_arriving(found, at_rate=rate is not None or load is not None)
    if load is not None and not isinstance(step_time, Linear):
        hint = "Give a rate, in requests a second."
        raise InputError("compare", "load", load, "a linear step-time law to scale to a load", hint)
    if load is not None and cluster.drift != Drift():
        raise InputError("compare", "load", load, "a drift of one token a step to scale to a load", "Give a rate instead.")
    most = max(cluster.slots_of)
    return rescaled(
        found.source,
        requests_per_s=rate,
        load=load * (sum(cluster.slots_of) / (most * cluster.workers)) if load is not None else None,
        workers=cluster.workers,
        slots=most,
        overhead_s=step_time.overhead_seconds(max(cluster.group_sizes)),
        per_token_s=step_time.per_token_s if isinstance(step_time, Linear) else 0.0,
        seed=seed,
    )


def plan_of(settings: Any, found: Workload | None = None, **more: Any) -> Plan:
    """The plan that settings of a fleet describe.

    Args:
        settings: of `compare` or `simulate`, after `settings.checked`; without a field `seeds` there is one replicate.
        found: their workload; None = read it.
        more: further fields of `Plan`, such as `records`.

    Raises:
        InputError: a workload that cannot be read or scaled.
    """
    cluster, step_time = settings.cluster(), settings.step_time()
    workload = found if found is not None else Reading.of(settings).workload()
    source = scaled(workload, cluster, step_time, rate=settings.rate, load=settings.load, seed=settings.seed)
    seeds = getattr(settings, "seeds", 1)
    own = {"seeds": seeds, "seed": settings.seed, "power": settings.power(), "slo": settings.objective()}
    return Plan(source, cluster, step_time, **own, **more)
