"""Reproduction of a paper's table or figure: the definition of an experiment, its settings, and its run.

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
from evenstep.workload.replicate import Drawn, Source

#: Runs by policy, one a replicate.
Runs = Mapping[str, Sequence[Run]]
#: Default number of replicates, in full and in quick size.
SEEDS, QUICK_SEEDS = 5, 2
#: Constants of the default workloads: not said where a trace takes their place.
OF_WORKLOADS = frozenset({"workload", "heavy", "near cap", "requests"})


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings of an experiment's run.

    Args:
        quick: at a reduced size, as a test that it runs; its figures are no evidence.
        seeds: replicates; None = 5, or 2 when quick.
        traces: trace files in place of the default workload; `Experiment.most_traces` at most.
        seed: key of replicates and of the policies' draws.
        processes: processes to run in; None = all cores, if it takes long.
        progress: called with messages; silent when left out.

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
    """The value a file of ``experiments/papers`` binds to `experiment`.

    Args:
        title, source: its subject, and paper and place in it.
        run: runs it under a setting and returns its findings.
        most_traces: trace files it can take in place of its workload; 0 = it makes its own instance.
    """

    title: str
    source: str
    run: Callable[[Setting], Findings]
    most_traces: int = 1


def reproduce(name: str, setting: Setting | None = None) -> Reproduction:
    """Run one experiment, named as ``evenstep reproduce list`` shows it, or a file of yours that binds `experiment`.

    At the full size without a `setting`. The result's `command` and `versions` are empty. With trace files, constants of the
    default workload (`OF_WORKLOADS`) are left out.

    Raises:
        InputError: an unknown name (the nearest are offered), a file that binds something else, or more trace files than it
            takes.
    """
    how = setting or Setting()
    experiment: Any = names.find("experiments", name)
    if not isinstance(experiment, Experiment):
        raise InputError(name, "experiment", repr(experiment), "an Experiment", "See evenstep.experiments.reproduce.")
    if len(how.traces) > experiment.most_traces:
        most = experiment.most_traces
        expected = f"at most {most} for {name}" if most else f"no trace: {name} makes its own instance"
        raise InputError("reproduce", "--trace", ", ".join(how.traces), expected)
    found = experiment.run(how)
    if how.traces:
        found = replace(found, constants=[c for c in found.constants if c.name not in OF_WORKLOADS])
    return Reproduction(name, experiment.title, experiment.source, found, how.quick, how.replicates)


def workload(setting: Setting, default: Drawn, missing: str, cluster: Cluster, step_time: StepTime) -> tuple[Source, str]:
    """The first trace file of the user's, or the default; and a phrase that says what stands in for the paper's data.

    Args:
        setting: holds the trace files; when quick, only 2,000 rows of one are read.
        default: a generator, returned as it is if the user gave no file.
        missing: the paper's data, in words.
        cluster, step_time: where it will run, to scale a workload file to the load that it asks for.
    """
    if not setting.traces:
        return default, f"the synthetic workload '{default.name}' for {missing}"
    limit = 2_000 if setting.quick else None
    source = scaled(Reading(setting.traces[0], limit, seed=setting.seed).workload(), cluster, step_time, seed=setting.seed)
    count = f", {len(source):,} requests" if isinstance(source, Trace) else ""
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
    power: Any = None,
) -> dict[str, list[Run]]:
    """Every policy on every replicate, on the same requests with the same dice: runs by label, then by replicate.

    Args:
        setting: replicates, key, processes.
        source: the workload.
        policies: label to spec, as ``evenstep compare --policy`` takes it.
        cluster, step_time: the fleet.
        records: keep the record tables of every replicate.
        samples: samples of every worker's load to keep, first replicate.
        power: power law; None = the default one.
    """
    asked = [replace(contender(spec), name=label) for label, spec in policies.items()]
    plan = Plan(
        source=source,
        cluster=cluster,
        step_time=step_time,
        seeds=setting.replicates,
        seed=setting.seed,
        power=power,
        all_records=records,
        samples=samples,
    )
    outcome = run_comparison(plan, asked, processes=setting.processes, progress=setting.progress)
    return dict(zip(policies, outcome.runs, strict=True))
