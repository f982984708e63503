"""Runs the contenders of a comparison on the same replicates, and computes the comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evenstep.errors import InputError, nearest
from evenstep.experiments.contenders import Contender
from evenstep.experiments.jobs import Plan, Shared, replicates, run_all
from evenstep.experiments.progress import Progress
from evenstep.measure.records import Run
from evenstep.wording import counted

if TYPE_CHECKING:
    from evenstep.measure.comparison import Comparison


def run_comparison(
    plan: Plan,
    asked: list[Contender],
    *,
    baseline: str | None = None,
    processes: int | None = 1,
    progress: Progress | None = None,
    on_contender: Callable[[list[Run]], None] = lambda runs: None,
) -> tuple[Comparison, list[list[Run]]]:
    """Run every contender on every replicate, and compare each with the baseline, replicate by replicate.

    Returns the comparison, and its runs: ``runs[c][r]`` is contender c, in the order asked, on replicate r. A note of the
    comparison says if there were fewer replicates than `plan.seeds`.

    Args:
        plan, asked: the data that the runs share, and the contenders.
        baseline: name of one of them; None = the first.
        processes: number of processes. None = all cores once that saves time, but one if any policy is an object, because it
            may remember earlier runs.
        progress: receives messages; None = silent.
        on_contender: called with a contender's runs when all its replicates have run, in the order asked.

    Raises:
        InputError: an unknown baseline, or equal replicates without `plan.fewer`; or from the first run that fails.
        PolicyError: a policy broke its contract.
    """
    from evenstep.measure.comparison import compare_runs

    first = place_of(baseline, [one.name for one in asked])
    if processes is None and not all(isinstance(one.policy, Mapping) for one in asked):
        processes = 1  # an object may have memory, which another process would lose
    traces = replicates(plan.replicate, plan.seeds, plan.fewer)
    shared = Shared(replace(plan, seeds=len(traces)), asked, traces)
    runs = collected(shared, processes, progress, on_contender)
    comparison = compare_runs(runs, baseline=first)
    if len(traces) < plan.seeds:
        many = counted(len(traces), "replicate, so no intervals", "replicates")
        fewer = f"{many} instead of {plan.seeds}: the trace has no more rotations that differ."
        comparison = replace(comparison, notes=(*comparison.notes, fewer))
    return comparison, runs


def collected(
    shared: Any,
    processes: int | None,
    progress: Progress | None,
    on_contender: Callable[[list[Any]], None] = lambda runs: None,
) -> list[list[Any]]:
    """Make all runs and wait for them; ``found[c][r]`` is the result of contender c on replicate r.

    Args:
        shared, processes: the data of the runs, and the number of processes (`jobs.run_all`, whose errors are raised).
        progress: receives messages; None = silent.
        on_contender: called with a contender's runs once all its replicates have run. Calls come in the order of the
            contenders, so a contender that ends early waits for those before it.
    """
    watch = progress if progress is not None else Progress()
    names, seeds, told = shared.names, len(shared.traces), 0
    found: list[dict[int, Any]] = [{} for _ in names]

    def in_order(contender: int) -> list[Any]:
        return [found[contender][index] for index in range(seeds)]

    watch.begin(len(names) * seeds)
    try:
        for ended in run_all(shared, processes, watch):
            found[ended.job.contender][ended.job.index] = ended.result
            watch.advance(names[ended.job.contender])
            while told < len(names) and len(found[told]) == seeds:
                watch.hide()
                on_contender(in_order(told))
                watch.show()
                told += 1
    finally:
        watch.end()
    return [in_order(contender) for contender in range(len(names))]


def place_of(baseline: str | None, names: Sequence[str]) -> int:
    """The index of the baseline in `names`, from 0; 0 if it is None. `InputError` if it is not there."""
    if baseline is not None and baseline not in names:
        raise InputError("compare", "baseline", baseline, "one of the policies compared", nearest(str(baseline), names))
    return names.index(baseline) if baseline is not None else 0
