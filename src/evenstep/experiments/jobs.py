"""The runs of a comparison: every policy on every replicate, each a pure function of (plan, contender, replicate)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Literal

from evenstep.cost.view import StepTime
from evenstep.errors import InputError, check_range
from evenstep.experiments.contenders import Contender
from evenstep.experiments.crew import Crew, Kernels, Places
from evenstep.experiments.executors import Ended
from evenstep.experiments.progress import Progress
from evenstep.measure.metrics import Slo
from evenstep.measure.records import Run
from evenstep.request import COLUMNS, Trace
from evenstep.sim.cluster.host import loop_of
from evenstep.sim.cluster.simulation import Cluster, simulate
from evenstep.workload.replicate import Source, replicate

#: Requests of a rehearsal (`Shared._rehearse`).
FEW = 50


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a run needs besides its contender and its replicate."""

    source: Source  # a trace or a generator of traces, already at its rate or load
    cluster: Cluster  # the fleet
    step_time: StepTime  # the law of a step's seconds
    seeds: int = 3  # replicates of each contender, >= 1; `InputError` if above 1 with a drift that has profiles
    #: end before the first replicate that equals an earlier one; False = such a replicate is an `InputError`
    fewer: bool = False
    seed: int = 0  # key of replicates; replicate i runs under the seed ``seed + i``
    power: Any = None  # power law for the energy metrics; None = the default one
    slo: Slo | None = None  # objective for goodput; None = no goodput metrics
    records: bool = False  # keep the request and step tables of the first replicate
    all_records: bool = False  # keep them of every replicate
    most_steps: int = 0  # most steps in a step table, of longer runs chosen evenly; 0 = all
    samples: int = 0  # most samples of every worker's load to keep, first replicate only
    decisions: bool = False  # keep a table with a row for each decision, in every replicate
    #: call a policy by its Python method (``plain``) or its compiled rule; ``auto`` takes the rule if there is one
    door: Literal["auto", "plain", "compiled"] = "auto"

    def __post_init__(self) -> None:
        if self.cluster.drift.profiles is not None and self.seeds > 1:
            hint = "Profiles belong to the rows of one trace, and replicates have other rows."
            raise InputError("compare", "seeds", self.seeds, "1 where the drift has profiles", hint)

    def replicate(self, index: int) -> Trace:
        """The requests of replicate `index`, the same for all contenders; for a recorded trace, 0 is `source` itself."""
        return replicate(self.source, index, self.seed)

    def run(self, contender: Contender, index: int, trace: Trace) -> Run:
        """Simulate one contender, built by `Contender.build`, on `trace`, the requests of replicate `index`.

        The seed is ``seed + index``. `samples` are kept for replicate 0 only; so are `records`, unless the plan has
        `all_records`. `InputError` for a policy that cannot be built or a trace that does not fit, `PolicyError` for a
        policy that breaks its contract.
        """
        policy, predictor = contender.build()
        run = simulate(
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
        return run.thinned(self.most_steps) if self.most_steps else run


def replicates(make: Callable[[int], Trace], seeds: int, fewer: bool) -> list[Trace]:
    """The traces ``make(0)`` to ``make(seeds - 1)``; all must differ, because equal ones would make an interval too narrow.

    With `fewer`, the list ends before the first trace that equals an earlier one. `InputError` for `seeds` below 1, or two
    equal traces without `fewer`.
    """
    check_range("compare", "an integer >= 1", low=1, seeds=seeds)
    traces: list[Trace] = []
    seen: dict[str, int] = {}
    for index in range(seeds):
        trace = make(index)
        first = seen.setdefault(fingerprint(trace), index)
        if first != index and fewer:
            return traces
        if first != index:
            expected = f"replicates that differ; replicates {first} and {index} are the same requests in the same order"
            hint = "Use one seed (--seeds 1) or a longer trace."
            raise InputError(trace.name or "trace", "seeds", seeds, expected, hint)
        traces.append(trace)
    return traces


def fingerprint(trace: Trace) -> str:
    """SHA-256, in hex, of a trace's columns and of its prefix blocks, if it has any; its name does not count."""
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
    """One run of a comparison (`executors.Job`): contender number `contender` on replicate `index`, both from 0."""

    contender: int
    index: int
    label: str

    def kind(self) -> int:
        """The index of the contender: jobs of one kind cost about the same and need the same kernels."""
        return self.contender

    def carry_out(self, shared: Any) -> Any:
        """Make the run and return it, by ``shared.run_of(contender, index)``."""
        return shared.run_of(self.contender, self.index)


@dataclass(frozen=True, slots=True)
class Shared:
    """The data that all runs of a comparison of routing policies share; ``traces[r]`` has the requests of replicate r."""

    plan: Plan
    asked: Sequence[Contender]
    traces: Sequence[Trace]

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.asked]

    @property
    def kernels(self) -> Kernels:
        """The loops and rules that the contenders need; each contender is built once to find them.

        If the plan's door is not ``auto``, nothing is compiled ahead.
        """
        if self.plan.door != "auto":
            return Kernels(kind=RunJob.kind)
        policies = [one.build()[0] for one in self.asked]
        loops = [loop_of(one, self.plan.cluster, self.plan.step_time) for one in policies]
        return Kernels(self.asked, loops, kind=RunJob.kind, rehearse=self._rehearse)

    def _rehearse(self, contender: int) -> Run:
        """Run a contender on the first `FEW` requests of replicate 0, to load all it needs; profiles are cut to these."""
        plan, drift = self.plan, self.plan.cluster.drift
        if drift.profiles is not None:
            drift = replace(drift, profiles=drift.profiles.head(FEW))
            plan = replace(plan, cluster=replace(plan.cluster, drift=drift))
        return plan.run(self.asked[contender], 0, self.traces[0].head(FEW))

    def run_of(self, contender: int, index: int) -> Run:
        """Simulate contender number `contender` on replicate `index`, both from 0 (`Plan.run`)."""
        return self.plan.run(self.asked[contender], index, self.traces[index])


def run_all(shared: Any, processes: int | None = None, watch: Progress | None = None) -> Iterator[Ended]:
    """Run every contender on every replicate. Yields an `Ended`, with its `RunJob` and run, as each run ends, in any order.

    Processes end when the iterator is exhausted or closed.

    Args:
        shared: the data of the runs, with `names`, `traces`, `kernels` and `run_of` as in `Shared`.
        processes: number of processes; None = begin here, and use all cores once that saves time.
        watch: receives messages; None = silent.

    Raises:
        InputError, PolicyError: from the first run that fails; runs that have not ended are given up.
    """
    replicates = range(len(shared.traces))
    jobs = [RunJob(c, r, f"{name}, replicate {r}") for c, name in enumerate(shared.names) for r in replicates]
    with closing(Crew(shared, Places(processes=processes), watch)) as crew:
        for ended in crew.carry_out(jobs, shared.kernels):
            if ended.error is not None:
                raise ended.error
            yield ended


def run_first(plan: Plan, asked: Contender, trace: Trace) -> Run:
    """Run a contender on `trace` as replicate 0, in plain Python if that ends before its kernels are compiled.

    `plan.source` and `plan.seeds` are not used. Raises the errors of the run, and blocks until it ends.
    """
    (ended,) = run_all(Shared(plan, [asked], [trace]))
    return ended.result
