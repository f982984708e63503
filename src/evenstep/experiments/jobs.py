"""The runs behind a comparison: every policy on every replicate, in this process or in several, with the same bits.

A run is a pure function of (plan, contender, replicate), so where it is made does not matter. Where processes cannot be
forked, more than one needs the usual ``if __name__ == "__main__"`` guard in a script.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from evenstep import compiled
from evenstep.cost.view import StepTime
from evenstep.errors import InputError
from evenstep.experiments.contenders import Contender
from evenstep.experiments.executors import Executor, Here, Processes, can_fork, cores, is_worthwhile, work_off
from evenstep.experiments.plain_first import PlainFirst, begin
from evenstep.experiments.progress import cold_kernels
from evenstep.experiments.warming import Warming
from evenstep.measure.metrics import Slo
from evenstep.measure.records import Run
from evenstep.request import COLUMNS, Trace
from evenstep.sim.cluster.host import loop_of
from evenstep.sim.cluster.simulation import Cluster, simulate
from evenstep.workload.replicate import Source, replicate


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a run needs besides its contender and its replicate.

    Args:
        source: a trace, or something that draws traces.
        cluster, step_time: as in `simulate`.
        seeds: replicates of each contender, >= 1.
        fewer: make do with the replicates that differ where there are not `seeds` of them, as in a trace of one session.
        seed: key of replicates and of policies' draws.
        power: power law for the energy metrics, or None for the default one.
        slo: objective for goodput, or None.
        records: keep the record tables of the first replicate.
        all_records: keep those of every replicate.
        samples: samples of every worker's load to keep, first replicate only.
        decisions, door: as in `simulate`.
    """

    source: Source
    cluster: Cluster
    step_time: StepTime
    seeds: int = 3
    fewer: bool = False
    seed: int = 0
    power: Any = None
    slo: Slo | None = None
    records: bool = False
    all_records: bool = False
    samples: int = 0
    decisions: bool = False
    door: Literal["auto", "plain", "compiled"] = "auto"

    def replicate(self, index: int) -> Trace:
        """The trace of one replicate: the same for every contender."""
        return replicate(self.source, index, self.seed)

    def run(self, contender: Contender, index: int, trace: Trace) -> Run:
        """One run."""
        policy, predictor = contender.build()
        return simulate(
            trace,
            policy,
            cluster=self.cluster,
            step_time=self.step_time,
            predictor=predictor,
            seed=self.seed + index,
            records=self.all_records or (self.records and index == 0),
            workers=self.samples if index == 0 else 0,
            decisions=self.decisions,
            power=self.power,
            slo=self.slo,
            door=self.door,
            name=contender.name,
        )


@dataclass(frozen=True, slots=True)
class Done:
    """A finished run and where it belongs."""

    contender: int
    index: int
    run: Run


def replicates(plan: Plan) -> list[Trace]:
    """All replicates, seen to differ: equal ones would make an interval of width zero, which is a lie.

    Returns:
        `plan.seeds` traces; with `plan.fewer` those before the first that is a copy of another.

    Raises:
        InputError: two replicates are the same, and the plan does not make do with fewer.
    """
    traces = [plan.replicate(index) for index in range(plan.seeds)]
    seen: dict[str, int] = {}
    for index, trace in enumerate(traces):
        key = fingerprint(trace)
        if key in seen and plan.fewer:
            return traces[:index]
        if key in seen:
            raise InputError(
                trace.name or "trace",
                "seeds",
                plan.seeds,
                f"replicates that differ; replicates {seen[key]} and {index} are the same requests in the same order",
                "Use one seed (--seeds 1) or a longer trace.",
            )
        seen[key] = index
    return traces


def fingerprint(trace: Trace) -> str:
    """SHA-256 of a trace's columns, and of its prefix blocks if it has any."""
    found = hashlib.sha256()
    for name in COLUMNS:
        column = getattr(trace, name)
        found.update(name.encode() if column is None else column.tobytes())
    blocks = trace.prefix_blocks
    if blocks is not None:
        found.update(f"blocks {blocks.block_tokens} {blocks.scope}".encode())
        found.update(blocks.offsets.tobytes())
        found.update(blocks.ids.tobytes())
    return found.hexdigest()


@dataclass(frozen=True, slots=True)
class RunJob:
    """One run of a comparison: a contender on a replicate (`executors.Job`)."""

    contender: int
    index: int
    label: str

    def carry_out(self, shared: Shared) -> Run:
        """Make the run."""
        return shared.plan.run(shared.asked[self.contender], self.index, shared.traces[self.index])


@dataclass(frozen=True, slots=True)
class Shared:
    """What all runs of a comparison need."""

    plan: Plan
    asked: list[Contender]
    traces: list[Trace]


def run_all(
    plan: Plan,
    asked: list[Contender],
    traces: list[Trace],
    processes: int | None = None,
    warming: Warming | None = None,
    begins_plain: bool = False,
) -> Iterator[Done]:
    """Every contender on every replicate; results come as they are ready.

    In one process runs are made contender by contender. In several, each contender's first replicate tells what its
    others cost, and the longest start first, so that no process is left with a long run at the end.

    Args:
        plan: what the runs share.
        asked: the contenders.
        traces: `replicates(plan)`.
        processes: how many processes; None = start here, and use all cores as soon as that pays.
        warming: has a contender's kernels compiled before its runs; the time it takes does not count as a run's.
        begins_plain: make runs in plain Python until their kernels are compiled, with the same bits.

    Raises:
        InputError, PolicyError: from the first run that fails.
    """
    jobs = [RunJob(c, r, f"{one.name}, replicate {r}") for c, one in enumerate(asked) for r in range(plan.seeds)]
    allowed = min(processes if processes is not None else cores(), len(jobs))
    shared = Shared(plan, asked, traces)
    cost: dict[int, float] = {}
    started: list[Executor] = []
    kernels = warming or Warming([[] for _ in asked], 0)
    here = Here(shared, lambda job: kernels.ready(job.contender))
    plain = PlainFirst(here, shared, kernels) if begins_plain else None

    def away(spent: float, done: int, left: int) -> Executor | None:
        if plain is not None:
            if plain.is_plain:
                return None
            done -= plain.made
        if allowed > 1 and (processes is not None or is_worthwhile(spent, done, left)):
            if can_fork():
                _load_kernels(plan, asked, kernels)
            started.append(Processes(min(allowed, left), shared))
        return started[0] if started else None

    try:
        for ended in work_off(jobs, plain or here, away, choose=lambda left: _longest(left, cost) if started else 0):
            if ended.error is not None:
                raise ended.error
            if ended.seconds > 0.0:
                cost[ended.job.contender] = ended.seconds
            yield Done(ended.job.contender, ended.job.index, ended.result)
    finally:
        for executor in (*started, plain or here):
            executor.close()


def run_first(plan: Plan, asked: Contender, trace: Trace) -> Run:
    """The first replicate of one contender, in plain Python where its kernels are not compiled in time.

    Args:
        plan: of one replicate.
        asked: the contender.
        trace: `plan.replicate(0)`.

    Raises:
        InputError, PolicyError: see `simulate`.
    """
    policy = asked.build()[0]
    cold = cold_kernels([policy], [loop_of(policy, plan.cluster, plan.step_time)]) if plan.door == "auto" else [[]]
    warming, begins_plain = begin(cold, cores() - 1, [asked.policy])
    with warming:
        (done,) = run_all(plan, [asked], [trace], 1, warming, begins_plain)
    return done.run


def _longest(waiting: Sequence[RunJob], cost: dict[int, float]) -> int:
    """The place of the next job: the first of a contender of unknown cost, else one of the costliest contender."""
    first = {job.contender: place for place, job in reversed([*enumerate(waiting)])}
    unknown = [place for contender, place in first.items() if contender not in cost]
    if unknown:
        return min(unknown)
    return max(first.values(), key=lambda place: cost[waiting[place].contender])


def _load_kernels(plan: Plan, asked: list[Contender], warming: Warming) -> None:
    """Load every loop and kernel here, so that children that are forked need not."""
    for contender, one in enumerate(asked):
        warming.ready(contender)
        policy = one.build()[0]
        importlib.import_module(loop_of(policy, plan.cluster, plan.step_time))
        compiled.kernel_of(policy)
