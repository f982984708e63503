"""Reproduction of a paper's table or figure: the definition of an experiment, its settings, and its run.

An experiment is a file of ``experiments/papers`` that binds `experiment`; ``bfio-table1`` is ``bfio_table1.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evenstep import names
from evenstep.cost.view import StepTime
from evenstep.errors import InputError
from evenstep.experiments.compare.running import run_comparison
from evenstep.experiments.contenders import contender
from evenstep.experiments.jobs import Plan
from evenstep.experiments.progress import Progress
from evenstep.experiments.sources import Reading, scaled
from evenstep.measure.comparison import Interval, mean_interval, paired_difference
from evenstep.measure.records import Run
from evenstep.report.findings import Findings, Reproduction, Row
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
        quick: at a reduced size, as a test that it runs.
        seeds: replicates; None = 5, or 2 when quick.
        traces: trace files in place of the default workload.
        seed: key of replicates and of the policies' draws.
        processes: processes to run in; None = all cores, if it takes long.
        progress: called with messages.

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
        if self.seeds is not None and self.seeds < 1:
            raise InputError("reproduce", "seeds", self.seeds, "an integer >= 1")

    @property
    def replicates(self) -> int:
        """How many replicates."""
        return self.seeds if self.seeds is not None else QUICK_SEEDS if self.quick else SEEDS

    def pick(self, full: Any, quick: Any) -> Any:
        """The value for this size."""
        return quick if self.quick else full


@dataclass(frozen=True, slots=True)
class Experiment:
    """The value a file of ``experiments/papers`` binds to `experiment`.

    Args:
        title: its subject.
        source: paper and place in it.
        run: runs it.
        most_traces: trace files it can take in place of its workload; 0 = it makes its own instance.
    """

    title: str
    source: str
    run: Callable[[Setting], Findings]
    most_traces: int = 1


def reproduce(name: str, setting: Setting | None = None) -> Reproduction:
    """Run one experiment.

    Args:
        name: as ``evenstep reproduce list`` shows it, or a file of yours that binds `experiment`.
        setting: how; the full size when left out.

    Raises:
        InputError: an unknown name (the nearest are offered), or more trace files than it takes.
    """
    how = setting or Setting()
    experiment: Experiment = names.find("experiments", name)
    if len(how.traces) > experiment.most_traces:
        most = experiment.most_traces
        expected = f"at most {most} for {name}" if most else f"none: {name} makes its own instance"
        raise InputError("reproduce", "--trace", ", ".join(how.traces), expected)
    found = experiment.run(how)
    if how.traces:
        found = replace(found, constants=[c for c in found.constants if c.name not in OF_WORKLOADS])
    return Reproduction(name, experiment.title, experiment.source, found, how.quick, how.replicates)


def workload(setting: Setting, default: Drawn, missing: str, cluster: Cluster, step_time: StepTime) -> tuple[Source, str]:
    """The trace the user gave, or the default; and the sentence on the substitution.

    Args:
        setting: holds the trace files.
        default: drawn if the user gave none.
        missing: the paper's data.
        cluster, step_time: where it will run.

    Raises:
        InputError: a file that cannot be read.
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
    """Every policy on every replicate, on the same requests with the same dice.

    Args:
        setting: replicates, key, processes.
        source: the workload.
        policies: label to spec, as ``evenstep compare --policy`` takes it.
        cluster, step_time: the fleet.
        records: keep the record tables of every replicate.
        samples: samples of every worker's load to keep, first replicate.
        power: power law.

    Returns:
        label to runs by replicate.
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


def values(runs: Sequence[Any], name: str, factor: float = 1.0) -> list[float]:
    """A field of the `summary` of runs of any kind, one number a replicate; nan where a replicate has none."""
    return [float("nan") if (v := run.summary[name]) is None else factor * float(v) for run in runs]


def mean(runs: Sequence[Run], name: str, factor: float = 1.0) -> Interval:
    """A field's mean over replicates with its interval."""
    return mean_interval(values(runs, name, factor))


def ratio(above: Sequence[float], below: Sequence[float]) -> Interval:
    """Mean of the replicates' own ratios with its interval: paired, so common luck cancels."""
    return mean_interval([a / b for a, b in zip(above, below, strict=True)])


def rows_of(
    runs: Runs,
    name: str,
    quantity: str,
    unit: str,
    factor: float = 1.0,
    paper: Mapping[str, float | str] | None = None,
    against: str = "",
) -> list[Row]:
    """A row a policy for one field of the summary, with the paired difference to `against` (the first when empty)."""
    base = against or next(iter(runs))
    numbers = {label: values(own, name, factor) for label, own in runs.items()}
    return [
        row(label, quantity, unit, own, (paper or {}).get(label), () if label == base else numbers[base], base)
        for label, own in numbers.items()
    ]


def row(
    case: str,
    quantity: str,
    unit: str,
    ours: Sequence[float],
    paper: float | str | None = None,
    base: Sequence[float] = (),
    against: str = "",
) -> Row:
    """A mean over replicates, with the paired difference to `base`, called `against`, where there is one."""
    apart = paired_difference(ours, base) if base else None
    return Row(case, quantity, unit, paper, mean_interval(ours), apart, against if apart else "")


def long_table(runs: Runs, fields: Sequence[str], **fixed: Any) -> dict[str, list[Any]]:
    """A row a policy and replicate with these fields of the summary, for the data file.

    Args:
        runs: label to runs.
        fields: of the summary.
        fixed: columns with one value for all.
    """
    table: dict[str, list[Any]] = {name: [] for name in (*fixed, "case", "replicate", "digest", *fields)}
    for label, own in runs.items():
        for index, run in enumerate(own):
            row = {**fixed, "case": label, "replicate": index, "digest": run.digest}
            for name, column in table.items():
                column.append(row[name] if name in row else run.summary[name])
    return table


def joined(tables: Sequence[Mapping[str, Sequence[Any]]]) -> dict[str, list[Any]]:
    """Tables of the same columns, one after the other."""
    return {name: [value for table in tables for value in table[name]] for name in tables[0]}


def clearly(difference: Interval, sign: int) -> bool | None:
    """Whether a paired difference has this sign: None if its interval holds 0, or without a difference."""
    if difference.low is None or difference.high is None or not difference.is_clear:
        return None
    return (difference.value > 0) == (sign > 0)


def within(value: Interval, low: float, high: float) -> bool | None:
    """Whether a value lies in a range: None if its interval reaches over an end, or without an interval."""
    if value.low is None or value.high is None:
        return None
    return True if low <= value.low and value.high <= high else False if value.high < low or value.low > high else None


def near(value: Interval, target: float, share: float) -> bool | None:
    """Whether a value lies within a share of a target; None as in `within`."""
    return within(value, target * (1 - share), target * (1 + share))


def below(one: Interval, other: Interval) -> bool | None:
    """Whether one interval lies below another, of independent replicates: None if they overlap, or without an interval."""
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return None
    return True if one.high < other.low else False if one.low > other.high else None


def slopes(x: Sequence[float], y: Sequence[Sequence[float]]) -> list[float]:
    """Slope of log y over log x, replicate by replicate.

    Args:
        x: of the points.
        y: of each point, one a replicate.
    """
    logs, every = np.log(np.array(x, float)), np.log(np.array(y, float))
    return [float(np.polyfit(logs, every[:, r], 1)[0]) for r in range(every.shape[1])]


def all_of(verdicts: Sequence[bool | None]) -> bool | None:
    """The verdict on a claim that is made of several cases: False if one does not hold, None if one is not settled."""
    return False if False in verdicts else None if None in verdicts else True


def beyond(value: Interval, limit: float) -> Interval:
    """How far a value is above a limit."""
    low, high = (None if end is None else end - limit for end in (value.low, value.high))
    return Interval(value.value - limit, low, high)


def long_values(found: Mapping[tuple[Any, ...], Sequence[float]], names: Sequence[str], value: str) -> dict[str, list[Any]]:
    """The parts of the keys, the replicate and the value as columns, a row a replicate."""
    replicates = [r for own in found.values() for r in range(len(own))]
    return {**grouped(found, names), "replicate": replicates, value: [x for own in found.values() for x in own]}


def grouped(runs: Mapping[tuple[Any, ...], Sequence[Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    """The parts of the keys as columns, a row a replicate."""
    return {name: [key[i] for key in runs for _ in runs[key]] for i, name in enumerate(names)}
