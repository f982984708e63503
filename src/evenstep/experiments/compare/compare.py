"""Comparing policies: the same requests, the same dice, paired differences against a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from evenstep.cost.linear import Linear
from evenstep.cost.view import StepTime
from evenstep.errors import InputError
from evenstep.experiments.compare.compared import Compared
from evenstep.experiments.compare.running import run_comparison
from evenstep.experiments.contenders import Asked, contenders
from evenstep.experiments.executors import can_fork
from evenstep.experiments.jobs import Plan
from evenstep.experiments.notation import slo_of
from evenstep.experiments.progress import Progress
from evenstep.measure.metrics import Slo
from evenstep.names import parse
from evenstep.request import Trace
from evenstep.sim.cluster.simulation import Cluster
from evenstep.workload.replicate import Source, rescaled

if TYPE_CHECKING:
    from evenstep.experiments.settings import CompareSettings, SimulateSettings
    from evenstep.workload.synthetic.yaml_file import Workload


def compare(
    source: Trace | str | Path | Any,
    policies: Asked | Sequence[Asked],
    *,
    cluster: Cluster | None = None,
    step_time: StepTime | None = None,
    seeds: int | None = None,
    baseline: str | None = None,
    seed: int = 0,
    load: float | None = None,
    rate: float | None = None,
    limit: int | None = None,
    power: Any = None,
    slo: Slo | str | None = None,
    processes: int | None = None,
    progress: Progress | None = None,
) -> Compared:
    """Run every policy on the same replicates of a workload and compare them pair by pair.

    Args:
        source: a trace, a synthetic workload, or a path (also ``sample:azure-conv``).
        policies: specs such as ``"bf-io:horizon=20,predictor=oracle"``, mappings, policies, or (policy, predictor);
            one of them, or a list.
        cluster: the fleet; 16 workers of 72 slots, saturated, when left out.
        step_time: what a step costs; `Linear()` when left out.
        seeds: replicates; 3, or as many as differ, when left out. A recorded trace is rotated, the first one not; a
            synthetic one is drawn anew.
        baseline: name of the policy others are compared with; the first when left out.
        seed: key of replicates and policies' draws.
        load: rescale arrival times to this share of the fleet's capacity.
        rate: rescale arrival times to this many requests a second.
        limit: use only the first rows of a trace, or draw only so many requests.
        power: power law for the energy metrics.
        slo: objective for goodput, e.g. ``"ttft=2s,tpot=50ms"``.
        processes: processes to run in. Default: all cores where it pays; this one where forking is unsafe (more
            need a ``__main__`` guard there) or a policy is an object.
        progress: told what happens; silent when left out.

    Returns: the comparison, see `Compared`; ``found["jsq"].mean("idle_time_share")`` is one of its figures.

    Raises:
        InputError: a bad source, policy or number, or fewer replicates that differ than `seeds`.
        PolicyError: a policy broke its contract.
    """
    fleet = cluster if cluster is not None else Cluster()
    law = step_time if step_time is not None else Linear()
    plan = Plan(
        source=opened(source, fleet, law, rate=rate, load=load, limit=limit, seed=seed),
        cluster=fleet,
        step_time=law,
        seeds=3 if seeds is None else seeds,
        fewer=seeds is None,
        seed=seed,
        power=power,
        slo=slo_of(slo) if isinstance(slo, str) else slo,
    )
    asked = contenders(_listed(policies))
    many = processes if processes is not None or can_fork() else 1
    outcome = run_comparison(plan, asked, baseline=baseline, processes=many, progress=progress)
    return Compared.of(outcome.comparison, plan, asked)


def _listed(policies: Asked | Sequence[Asked]) -> Sequence[Asked]:
    """The policies asked for, as a list, also where it is one policy by itself.

    Raises:
        InputError: neither.
    """
    if isinstance(policies, str | Mapping) or callable(getattr(policies, "route", None)):
        return [cast("Asked", policies)]
    if isinstance(policies, Iterable):
        return [*cast("Iterable[Asked]", policies)]
    raise InputError("compare", "policies", type(policies).__name__, "a policy, or a list of them")


def opened(
    source: Any,
    cluster: Cluster,
    step_time: StepTime,
    *,
    rate: float | None = None,
    load: float | None = None,
    limit: int | None = None,
    skip_bad_rows: bool = False,
    format_name: str | None = None,
    seed: int = 0,
) -> Source:
    """The workload that a path stands for, at a rate or load; what is no path is only rescaled.

    Args:
        source: a trace, something that draws traces, or a path.
        cluster, step_time: the fleet, for `load`.
        rate, load: see `compare`; they win over what a workload file says. A fleet with fewer slots on some workers can
            do its share of slots of what one with the most on all of them can.
        limit: first rows of a trace, or requests to draw.
        skip_bad_rows: leave out rows that cannot be read.
        format_name: the trace's format and its options, e.g. ``mooncake:ticks=keep``; None = recognise it.
        seed: key of all that a reader draws, and of Poisson arrivals.

    Raises:
        InputError: a file that cannot be read, or a load under a law that is not linear.
    """
    asked = workload_of(
        source,
        limit=limit,
        skip_bad_rows=skip_bad_rows,
        format_name=format_name,
        seed=seed,
        prefix_blocks=cluster.prefix_cache_blocks > 0,
    )
    return scaled(asked, cluster, step_time, rate=rate, load=load, seed=seed)


def opened_as(settings: CompareSettings | SimulateSettings, cluster: Cluster, step_time: StepTime) -> Source:
    """The workload that settings name, as they rescale and read it.

    Raises:
        InputError: as `opened`.
    """
    return opened(
        settings.source,
        cluster,
        step_time,
        rate=settings.rate,
        load=settings.load,
        limit=settings.limit,
        skip_bad_rows=settings.skip_bad_rows,
        format_name=settings.format_name,
        seed=settings.seed,
    )


def workload_of(
    source: Any,
    *,
    limit: int | None = None,
    skip_bad_rows: bool = False,
    format_name: str | None = None,
    seed: int = 0,
    prefix_blocks: bool = False,
) -> Workload:
    """The workload that a path stands for, before it is brought to a rate or load.

    Args:
        source, limit, skip_bad_rows, format_name, seed: as in `opened`.
        prefix_blocks: read the block ids of prompts too.

    Raises:
        InputError: a file that cannot be read.
    """
    from evenstep.workload.sources import open_source
    from evenstep.workload.synthetic.yaml_file import Workload

    if isinstance(source, str | Path):
        options: dict[str, Any] = {**parse(format_name)} if format_name is not None else {}
        name = options.pop("name", None)
        # blocks are most of a file: they are read where they are used
        options |= {"prefix_blocks": prefix_blocks}
        return open_source(source, name, skip_bad_rows=skip_bad_rows, limit=limit, seed=seed, **options)
    if limit is not None and not isinstance(source, Trace):
        raise InputError("compare", "limit", limit, "none for a workload that is drawn; it has its own number of requests")
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
    """The workload at a rate or load, or at the one its file asks for; the arguments are those of `opened`.

    Raises:
        InputError: a load under a law that is not linear.
    """
    if rate is None and load is None:
        rate, load = found.requests_per_s, found.load
    if load is not None and not isinstance(step_time, Linear):
        hint = "Give a rate, in requests a second."
        raise InputError("compare", "load", load, "a linear step-time law to scale to a load", hint)
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
