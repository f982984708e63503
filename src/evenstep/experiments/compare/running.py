"""Runs the contenders of a comparison on the same replicates, and computes what is compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evenstep.errors import InputError, nearest
from evenstep.experiments.contenders import Contender
from evenstep.experiments.executors import cores
from evenstep.experiments.jobs import Plan, replicates, run_all
from evenstep.experiments.plain_first import begin
from evenstep.experiments.progress import Progress, Silent, cold_kernels, compile_notice
from evenstep.measure.records import Run
from evenstep.request import Trace

if TYPE_CHECKING:
    from evenstep.measure.comparison import Comparison


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A comparison and the runs it was computed from.

    Args:
        comparison: figures and paired differences.
        runs: for each contender in the order asked, its runs by replicate.
        traces: the replicates.
    """

    comparison: Comparison
    runs: list[list[Run]]
    traces: list[Trace]


def run_comparison(
    plan: Plan,
    asked: list[Contender],
    *,
    baseline: str | None = None,
    processes: int | None = 1,
    progress: Progress | None = None,
    on_contender: Callable[[Contender, list[Run]], None] | None = None,
) -> Outcome:
    """Run all of it.

    Args:
        plan: what the runs share.
        asked: the contenders.
        baseline: name of one of them; None = the first.
        processes: see `jobs.run_all`.
        progress: told what happens.
        on_contender: called when all replicates of a contender have run, in the order asked.

    Raises:
        InputError, PolicyError: see `compare`.
    """
    from evenstep.measure.comparison import compare_runs
    from evenstep.sim.cluster.host import loop_of

    if plan.seeds < 1:
        raise InputError("compare", "seeds", plan.seeds, "an integer >= 1")
    first = _place_of(baseline, [one.name for one in asked])
    if processes is None and not all(isinstance(one.policy, Mapping) for one in asked):
        processes = 1  # an object may remember what it saw, which would be lost in another process
    watch = progress if progress is not None else Silent()
    traces = replicates(plan)
    told_of_seeds = _fewer(len(traces), plan.seeds)
    plan = replace(plan, seeds=len(traces))
    policies = [one.build()[0] for one in asked]
    loops = [loop_of(policy, plan.cluster, plan.step_time) for policy in policies]
    notice = compile_notice()
    if notice:
        watch.say(notice)
    beside = cores() - 1 if processes is None else processes - 1
    warming, begins_plain = begin(cold_kernels(policies, loops), beside, [one.policy for one in asked])
    watch.begin(len(asked) * plan.seeds)
    found: list[dict[int, Run]] = [{} for _ in asked]
    told = 0
    try:
        with warming:
            for done in run_all(plan, asked, traces, processes, warming, begins_plain):
                found[done.contender][done.index] = done.run
                watch.advance(asked[done.contender].name)
                while told < len(asked) and len(found[told]) == plan.seeds:
                    if on_contender is not None:
                        watch.hide()
                        on_contender(asked[told], [found[told][r] for r in range(plan.seeds)])
                        watch.show()
                    told += 1
    finally:
        watch.end()
    runs = [[by_index[r] for r in range(plan.seeds)] for by_index in found]
    comparison = compare_runs(runs, baseline=first)
    return Outcome(replace(comparison, notes=(*comparison.notes, *told_of_seeds)), runs, traces)


def _fewer(found: int, wanted: int) -> tuple[str, ...]:
    """A note where the trace has not as many replicates that differ as were wanted."""
    if found == wanted:
        return ()
    many = "1 replicate, so no intervals" if found == 1 else f"{found} replicates"
    return (f"{many} instead of {wanted}: the trace has no more rotations that differ.",)


def _place_of(baseline: str | None, names: list[str]) -> int:
    """The place of the baseline among the policies; the first where left out."""
    if baseline is not None and baseline not in names:
        hint = nearest(baseline, names)
        raise InputError("compare", "baseline", baseline, "one of the policies compared", hint)
    return names.index(baseline) if baseline is not None else 0
