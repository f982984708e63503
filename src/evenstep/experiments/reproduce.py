"""Reproduces a paper's table or figure: defines an experiment and its settings, and runs it.

An experiment is a file of ``experiments/papers`` that binds `experiment`; ``bfio-table1`` is ``bfio_table1.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evenstep import names
from evenstep.cost.view import StepTime
from evenstep.errors import InputError, check_range_if_given
from evenstep.experiments.compare.running import run_comparison
from evenstep.experiments.contenders import contender
from evenstep.experiments.jobs import Plan
from evenstep.experiments.progress import Progress
from evenstep.experiments.sources import Reading, scaled
from evenstep.measure.records import Run
from evenstep.report.findings import Findings, Reproduction
from evenstep.request import Trace
from evenstep.sim.cluster.simulation import Cluster
from evenstep.wording import counted
from evenstep.workload.replicate import Drawn, Source

#: Runs by policy, one a replicate.
Runs = Mapping[str, Sequence[Run]]
#: Default number of replicates, in full and in quick size.
SEEDS, QUICK_SEEDS = 5, 2
#: Constants of the default workloads: left out where a trace replaces the workload.
OF_WORKLOADS = frozenset({"workload", "heavy", "near cap", "requests"})


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings of an experiment's run.

    Args:
        quick: run at a reduced size, only to test that it runs; its figures are no evidence.
        seeds: replicates; None = 5, or 2 when quick.
        traces: trace files in place of the default workload; `Experiment.most_traces` at most.
        seed: key of replicates and of the policies' random draws.
        processes: number of processes; None = all cores, if it takes long.
        progress: receives messages; silent when left out.

    Raises:
        InputError: fewer than one replicate.
    """

    quick: bool = False
    seeds: int | None = None
    traces: tuple[str, ...] = ()
    seed: int = 0
    processes: int | None = None
    progress: Progress = field(default_factory=Progress)

    def __post_init__(self) -> None:
        check_range_if_given("reproduce", "an integer >= 1", low=1, seeds=self.seeds)

    @property
    def replicates(self) -> int:
        """The number of replicates: `seeds`, else 5, or 2 when quick."""
        return self.seeds if self.seeds is not None else QUICK_SEEDS if self.quick else SEEDS

    def pick(self, full: Any, quick: Any) -> Any:
        """`quick` at the reduced size, else `full`."""
        return quick if self.quick else full


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment: the value that a file of ``experiments/papers`` binds to `experiment`."""

    title: str  # its subject
    source: str  # the paper and the place in it
    run: Callable[[Setting], Findings]  # runs it under a setting and returns its findings
    most_traces: int = 1  # most trace files that may replace its workload; 0 = it makes its own instance


def experiment(title: str, source: str, most_traces: int = 1) -> Callable[[Callable[[Setting], Findings]], Experiment]:
    """Turn the function below it into the `Experiment` that it runs: a file writes it over ``def experiment(setting)``."""
    return lambda run: Experiment(title, source, run, most_traces)


def reproduce(name: str, setting: Setting | None = None) -> Reproduction:
    """Run one experiment, by its name in ``evenstep reproduce list``, or from a user's file that binds `experiment`.

    Without a `setting` it runs at full size. The result's `command` and `versions` are empty. With trace files, the findings
    omit constants of the default workload (`OF_WORKLOADS`).

    Raises:
        InputError: an unknown name, a file that binds another value, or more trace files than the experiment takes.
    """
    how = setting or Setting()
    asked: Any = names.find("experiments", name)
    if not isinstance(asked, Experiment):
        raise InputError(name, "experiment", repr(asked), "an Experiment", "See evenstep.experiments.reproduce.")
    if len(how.traces) > asked.most_traces:
        most = asked.most_traces
        expected = f"at most {most} for {name}" if most else f"no trace: {name} makes its own instance"
        raise InputError("reproduce", "--trace", ", ".join(how.traces), expected)
    found = asked.run(how)
    if how.traces:
        found = replace(found, constants=[c for c in found.constants if c.name not in OF_WORKLOADS])
    replicates = found.replicates or how.replicates
    return Reproduction(name, asked.title, asked.source, found, how.quick, replicates)


def workload(setting: Setting, default: Drawn, missing: str, cluster: Cluster, step_time: StepTime) -> tuple[Source, str]:
    """(the user's first trace file, else the default; a phrase on what stands in for the paper's data).

    Args:
        setting: holds the trace files; only the first is read, and only 2,000 rows of it when quick.
        default: a generator, returned as it is if the user gave no file.
        missing: the paper's data, in words, for the phrase.
        cluster, step_time: the fleet, to scale the user's workload file to the load that it asks for.

    Raises:
        InputError: a file that cannot be read or scaled.
    """
    if not setting.traces:
        return default, f"the synthetic workload '{default.name}' for {missing}"
    limit = 2_000 if setting.quick else None
    source = scaled(Reading(setting.traces[0], limit, seed=setting.seed).workload(), cluster, step_time, seed=setting.seed)
    count = f", {counted(len(source), 'request')}" if isinstance(source, Trace) else ""
    return source, f"{setting.traces[0]}{count} for {missing}"


def run_policies(
    setting: Setting,
    source: Source,
    policies: Mapping[str, str],
    cluster: Cluster,
    step_time: StepTime,
    *,
    records: bool = False,
    samples: int = 0,
) -> dict[str, list[Run]]:
    """Run every policy on every replicate, with the same requests and random draws; runs by label, then by replicate.

    Args:
        setting: gives replicates, seed and processes.
        source, cluster, step_time: the workload and the fleet.
        policies: spec by label, as ``evenstep compare --policy`` takes it.
        records: keep the record tables of every replicate.
        samples: most samples of every worker's load to keep, first replicate only.
    """
    asked = [replace(contender(spec), name=label) for label, spec in policies.items()]
    plan = Plan(
        source=source,
        cluster=cluster,
        step_time=step_time,
        seeds=setting.replicates,
        seed=setting.seed,
        all_records=records,
        samples=samples,
    )
    _, runs = run_comparison(plan, asked, processes=setting.processes, progress=setting.progress)
    return dict(zip(policies, runs, strict=True))
