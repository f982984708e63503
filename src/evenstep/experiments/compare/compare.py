"""Compares policies: the same requests, the same random draws, paired differences against a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from evenstep.config.number import check_integers
from evenstep.cost.linear import Linear
from evenstep.cost.view import StepTime
from evenstep.errors import InputError
from evenstep.experiments.compare.compared import Compared
from evenstep.experiments.compare.running import run_comparison
from evenstep.experiments.contenders import PolicySpec, contenders
from evenstep.experiments.executors import can_fork
from evenstep.experiments.jobs import Plan
from evenstep.experiments.notation import slo_of
from evenstep.experiments.progress import Progress
from evenstep.experiments.sources import Reading, scaled
from evenstep.measure.metrics import Slo
from evenstep.request import Trace
from evenstep.sim.cluster.simulation import Cluster, check_fleet


def compare(
    source: Trace | str | Path | Any,
    policies: PolicySpec | Sequence[PolicySpec],
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
        policies: one of these or a list: specs such as ``"bf-io:horizon=20,predictor=oracle"``, mappings, or policies. A
            (policy, predictor) pair must stand in a list.
        cluster: the fleet; 16 workers of 72 slots when left out, saturated, or timed with a `load` or `rate`.
        step_time: seconds of a step; `Linear()` when left out.
        seeds: replicates; 3, or as many as differ, when left out. Replicate 0 of a recorded trace is the trace itself,
            others are rotated; a synthetic one is drawn anew.
        baseline: name of the policy others are compared with; the first when left out.
        seed: key of replicates and policies' draws.
        load: rescale arrival times to this share of the fleet's capacity; needs timed arrivals, a linear `step_time`, the
            default drift, and no `rate`.
        rate: rescale arrival times to this many requests a second; Poisson arrivals where the trace has no times.
        limit: use only the first rows of a trace, or draw only so many requests; a generator in memory refuses it.
        power: power law for the energy metrics; the default one when left out.
        slo: objective for goodput, e.g. ``"ttft=2s,tpot=50ms"``; without one there are no goodput metrics.
        processes: number of processes. Default: all cores if that saves time; 1 where forking is unsafe (more need a
            ``__main__`` guard there) or if a policy is an object.
        progress: a `Progress` of `evenstep.experiments.progress`, which receives messages; silent when left out.

    Returns: the comparison, see `Compared`; ``found["jsq"].mean("idle_time_share")`` is one of its figures.

    Raises:
        InputError: a bad source, policy or number, or fewer replicates that differ than `seeds`.
        PolicyError: a policy broke its contract.
    """
    check_fleet("compare", cluster, step_time)
    check_integers("compare", 1, seeds=seeds, limit=limit, processes=processes)
    check_integers("compare", 0, seed=seed)
    objective: Any = slo_of(slo) if isinstance(slo, str) else slo
    if objective is not None and not isinstance(objective, Slo):
        raise InputError("compare", "slo", objective, "an objective", 'For instance slo="ttft=2s,tpot=50ms".')
    told: Any = progress
    if told is not None and not isinstance(told, Progress):
        hint = "Write evenstep.experiments.progress.Bar()."
        raise InputError("compare", "progress", type(told).__name__, "a Progress", hint)
    fleet = cluster if cluster is not None else Cluster(arrivals="saturated" if load is None and rate is None else "timed")
    law = step_time if step_time is not None else Linear()
    workload = Reading(source, limit, seed=seed, prefix_blocks=fleet.prefix_cache_blocks > 0).workload()
    plan = Plan(
        source=scaled(workload, fleet, law, rate=rate, load=load, seed=seed),
        cluster=fleet,
        step_time=law,
        seeds=3 if seeds is None else seeds,
        fewer=seeds is None,
        seed=seed,
        power=power,
        slo=objective,
    )
    if fleet.arrivals != "timed" and not (load is None and rate is None):
        hint = "Write evenstep.Cluster(arrivals='timed', ...)."
        raise InputError("compare", "cluster.arrivals", fleet.arrivals, "timed, since a load or rate is given", hint)
    asked = contenders(_listed(policies))
    many = processes if processes is not None or can_fork() else 1
    comparison, _ = run_comparison(plan, asked, baseline=baseline, processes=many, progress=progress)
    return Compared.of(comparison, plan, asked)


def _listed(policies: PolicySpec | Sequence[PolicySpec]) -> Sequence[PolicySpec]:
    """The policies asked for as a list, also if only one is given; `InputError` for anything else."""
    if isinstance(policies, str | Mapping) or callable(getattr(policies, "route", None)):
        return [cast("PolicySpec", policies)]
    if isinstance(policies, Iterable):
        return [*cast("Iterable[PolicySpec]", policies)]
    raise InputError("compare", "policies", type(policies).__name__, "a policy, or a list of them")
