"""Sweeps: policies at every point of a grid or a sample of parameters, resumable, to the same bytes wherever it ran.

A run is a pure function of its task, and its result is cached under the SHA-256 of all its inputs. So with a cache
folder a stopped sweep continues where it stopped, equal runs of several points are made once, and any process may make them.
Where processes cannot be forked, more than one needs the usual ``if __name__ == "__main__"`` guard in a script.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

from evenstep import __version__
from evenstep.config.number import check_integers
from evenstep.errors import InputError, check_known
from evenstep.experiments.crew import Places
from evenstep.experiments.executors import cores
from evenstep.experiments.jobs import Plan
from evenstep.experiments.notation import slo_of
from evenstep.experiments.progress import Progress
from evenstep.experiments.sweep.cache import Cache
from evenstep.experiments.sweep.design import SLO_METRICS, Design, design_of, metric_names
from evenstep.experiments.sweep.file import SweepFile, read_sweep
from evenstep.experiments.sweep.key import key_of
from evenstep.experiments.sweep.runs import Runs
from evenstep.experiments.sweep.task import Task, Workloads
from evenstep.experiments.sweep.until import next_count, parse_until
from evenstep.measure.comparison import interval_of
from evenstep.measure.swept import Swept, SweptRun
from evenstep.sim.cluster.host import loop_of


@dataclass(frozen=True, slots=True)
class Forecast:
    """The work that a sweep will take; its fields are those of the JSON of a dry run."""

    points: int  # number of points
    runs: int  # runs that differ, with the replicates that every point starts with
    cached: int  # those of `runs` that were in the cache before the forecast timed any
    most_runs: int  # upper limit of runs, if every point needs the most replicates; `runs` without ``until``
    seconds: float | None  # wall-clock estimate for the runs left after the timed ones; None if no run is left


def sweep(
    source: str | Path | Mapping[str, Any],
    *,
    cache: str | Path | None = None,
    until: str | None = None,
    most_seeds: int | None = None,
    executor: Literal["processes", "ray"] = "processes",
    processes: int | None = 1,
    ray_address: str | None = None,
    progress: Progress | None = None,
) -> Swept:
    """Run a sweep.

    Args:
        source: a SWEEP.yaml, or a mapping with its keys.
        cache: folder in which finished runs are stored and looked for; None = in memory only.
        until: add replicates to a point until this holds for all its policies, e.g. ``ci(idle_share) < 2%``; wins over the
            file.
        most_seeds: most replicates of a point under `until`, >= 2; wins over the file. A point that reaches them without
            meeting `until` ends there. Without an `until` it is refused.
        executor: ``processes`` of this machine, or ``ray``.
        processes: number of processes; None = begin here, and use all cores if it takes long.
        ray_address: address of the Ray cluster; None = the connected one, else RAY_ADDRESS, else a temporary one.
        progress: receives messages; silent when left out.

    Returns:
        The sweep; the same wherever it runs and however often it was interrupted.

    Raises:
        InputError: a bad sweep file, workload, policy or number; a process that was killed twice over one run.
        PolicyError: a policy broke its contract.
        Interrupted: Ctrl-C; finished runs are in the cache.
    """
    check_known("sweep", "executor", executor, ("processes", "ray"), "a known executor")
    check_integers("sweep", 1, processes=processes)
    running = Sweep(source, cache=cache, until=until, most_seeds=most_seeds, progress=progress)
    return running.run(Places(executor, processes, ray_address))


class Sweep:
    """A sweep with its cache: `run` makes it, `forecast` estimates its time.

    The constructor reads and checks everything: file, workloads, policies, and that the replicates of each point differ. Its
    arguments are those of `sweep` without `executor`, `processes` and `ray_address`, plus `slo`, an objective such as
    ``ttft=2s,tpot=50ms``, which wins over the file. Attribute `made` counts the runs that `run` made so far; all others came
    from the cache.
    """

    def __init__(
        self,
        source: str | Path | Mapping[str, Any],
        *,
        cache: str | Path | None = None,
        until: str | None = None,
        most_seeds: int | None = None,
        slo: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        found, document = read_sweep(source)
        if slo is not None:
            found = _judged(found, slo)
        if most_seeds is not None:
            if most_seeds < 2:
                raise InputError("sweep", "--most-seeds", most_seeds, "an integer >= 2")
            if until is None and found.until is None:
                raise InputError("sweep", "--most-seeds", most_seeds, "no value without --until, which adds replicates")
            found = replace(found, most_seeds=most_seeds)
        if until is not None:
            parse_until(until, metric_names(), "--until")
            found = replace(found, until=until)
        self.design: Design = design_of(found, document)
        self.cache = Cache(Path(cache) if cache is not None else None)
        self._workloads = Workloads()
        self._watch = progress if progress is not None else Progress()
        self.made = 0
        self._plans: dict[int, Plan] = {}
        self._indices: dict[int, list[int]] = {}
        self._loops: dict[int, list[str]] = {}
        self._known: dict[tuple[int, int, int], Task] = {}
        for point in range(len(self.design.points)):
            self._check(point)

    def run(self, places: Places) -> Swept:
        """Make every run that the cache lacks, end the processes started, and return the whole sweep.

        Raises the error of the first run that fails, or `Interrupted` at Ctrl-C; finished runs are in the cache.
        """
        runs = Runs(self.cache, self._workloads, places, self._watch)
        try:
            return self._run(runs)
        finally:
            self.made += runs.made
            runs.close()

    def _run(self, runs: Runs) -> Swept:
        """Make runs, with more replicates until the stopping rule holds or none may be added, and return the sweep."""
        design = self.design
        counts = [point.settings.seeds for point in design.points]
        while True:
            runs.make(self._tasks(counts))
            if design.until is None:
                return self._swept(counts, [True] * len(counts))
            met = [self._met(point, count) for point, count in enumerate(counts)]
            more = [count if met[point] else self._more(point, count) for point, count in enumerate(counts)]
            if more == counts:
                return self._swept(counts, met)
            counts = more

    def tasks(self) -> list[Task]:
        """The runs that the cache lacks, each once, point by point, with the replicates every point starts with."""
        return self._tasks([point.settings.seeds for point in self.design.points])

    def forecast(self, processes: int | None = None) -> Forecast:
        """Estimate the work still to do, shared by `processes`; None = one a core.

        First, replicate 0 of each policy is run in this process at the first, the middle and the last point, where the cache
        lacks it. These runs are cached like any other, but `made` does not count them.
        """
        design = self.design
        counts = [point.settings.seeds for point in design.points]
        every = {task.key for task in self._every(counts)}
        left = len(self.tasks())
        last = len(counts) - 1
        timed = self._tasks([int(point in (0, last // 2, last)) for point in range(len(counts))])
        Runs(self.cache, self._workloads, Places(), self._watch).make(timed, may_begin_plain=False)
        known = [found["seconds"] for key in every if (found := self.cache.get(key)) is not None]
        most = len(every)
        if design.until is not None:
            most = len(counts) * len(design.file.policies) * design.file.most_seeds
        after = left - len(timed)
        share = min(processes if processes is not None else cores(), max(after, 1))
        seconds = sum(known) / len(known) * after / share if after else None
        return Forecast(len(counts), len(every), len(every) - left, most, seconds)

    def _check(self, point: int) -> None:
        """Check a point's workload, policies and that its replicates differ; store its plan, loops and replicate indices."""
        found = self.design.points[point]
        self._plans[point] = plan = self._workloads.checked_plan(found.label, found.settled, found.settings)
        self._loops[point] = [loop_of(one.build()[0], plan.cluster, plan.step_time) for one in found.contenders]
        self._indices[point] = self._differing(point, found.settings.seeds)
        if len(self._indices[point]) < found.settings.seeds:
            expected = "replicates that differ; two of them are the same requests in the same order"
            hint = "Use fewer seeds or a longer trace."
            raise InputError(found.settings.source, "seeds", found.settings.seeds, expected, hint)

    def _differing(self, point: int, count: int) -> list[int]:
        """Indices of the first replicates that differ: `count` of them, or as many as there are.

        With ``until``, copies are skipped, and up to ``4 * count`` are tried. Without it, the first copy ends the search.
        """
        settings, plan = self.design.points[point].settings, self._plans[point]
        seen: dict[str, int] = {}
        tried = count if self.design.until is None else 4 * count
        for index in range(tried):
            if len(seen) < count:
                seen.setdefault(self._workloads.print_of(plan, settings, index), index)
            if self.design.until is None and len(seen) <= index:
                break
        return list(seen.values())

    def _task(self, point: int, policy: int, index: int) -> Task:
        """The run of a policy at a point on replicate `index`; computed once."""
        place = point, policy, index
        if place not in self._known:
            found, plan = self.design.points[point], self._plans[point]
            contender, trace = found.contenders[policy], self._workloads.print_of(plan, found.settings, index)
            label = f"point {point} ({found.label}), {contender.name}, replicate {index}"
            key, loop = key_of(plan, contender, trace, index), self._loops[point][policy]
            self._known[place] = Task(key, found.settings, contender, index, label, loop)
        return self._known[place]

    def _every(self, counts: list[int]) -> Iterator[Task]:
        """All runs, point by point; equal runs of several points are repeated."""
        for point, count in enumerate(counts):
            for policy, index in product(range(len(self.design.file.policies)), self._indices[point][:count]):
                yield self._task(point, policy, index)

    def _tasks(self, counts: list[int]) -> list[Task]:
        """The runs that are not in the cache, each once, point by point."""
        found: dict[str, Task] = {}
        for task in self._every(counts):
            if self.cache.get(task.key) is None:
                found.setdefault(task.key, task)
        return list(found.values())

    def _met(self, point: int, count: int) -> bool:
        """True if the stopping rule holds at a point for all policies, over the first `count` replicates."""
        until = self.design.until
        assert until is not None

        def holds(policy: int) -> bool:
            runs = [self._result(point, policy, index)["summary"] for index in self._indices[point][:count]]
            return until.holds(lambda metric: interval_of([run.get(metric) for run in runs]))

        return all(holds(policy) for policy in range(len(self.design.file.policies)))

    def _more(self, point: int, count: int) -> int:
        """The number of replicates a point has next, `count` if none can be added; stores their indices for `_tasks`."""
        wanted = next_count(count, self.design.file.most_seeds)
        self._indices[point] = self._differing(point, wanted)
        return len(self._indices[point])

    def _result(self, point: int, policy: int, index: int) -> dict[str, Any]:
        return self.cache.kept(self._task(point, policy, index).key)

    def _swept(self, counts: list[int], met: list[bool]) -> Swept:
        design, file = self.design, self.design.file
        runs = tuple(
            tuple(
                tuple(_run_of(self._result(p, i, index)) for index in self._indices[p][:count])
                for i in range(len(file.policies))
            )
            for p, count in enumerate(counts)
        )
        return Swept(
            parameters=tuple(file.over),
            points=tuple(point.values for point in design.points),
            policies=tuple(file.policies),
            runs=runs,
            metrics=tuple(file.metrics),
            grid=file.sample == "grid",
            fixed={**({"source": file.source} if file.source else {}), **file.fixed},
            until=design.until.text if design.until is not None else "",
            met=tuple(met),
            versions={"evenstep": __version__},
        )


def _judged(found: SweepFile, slo: str) -> SweepFile:
    """A copy of the sweep's file with the objective `slo`, and `slo_share` as a metric if no metric needs `slo`."""
    slo_of(slo)
    if "slo" in found.over:
        raise InputError("evenstep sweep", "--slo", slo, "no value when the sweep varies over.slo")
    shown = [] if any(name in SLO_METRICS for name in found.metrics) else ["slo_share"]
    return replace(found, fixed={**found.fixed, "slo": slo}, metrics=[*found.metrics, *shown])


def _run_of(found: dict[str, Any]) -> SweptRun:
    return SweptRun(**{name: value for name, value in found.items() if name != "seconds"})
