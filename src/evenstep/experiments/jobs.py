"""The runs behind a comparison: every policy on every replicate, in this process or in several, the same bits.

A run is a pure function of (plan, contender, replicate), so where it is made does not matter. Runs start in this
process; when they turn out to take long, the rest goes to a pool of processes. More than one process needs the usual
``if __name__ == "__main__"`` guard in a script.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from evenstep.cost.view import StepTime
from evenstep.errors import InputError
from evenstep.experiments.contenders import Contender
from evenstep.measure.metrics import Slo
from evenstep.measure.records import Run
from evenstep.request import COLUMNS, Trace
from evenstep.sim.cluster import Cluster, simulate
from evenstep.workload.replicate import Source, replicate

#: Seconds of work done here before other processes are started, and that must be left for it to be worth it.
WORTHWHILE_S = 3.0


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
            power=self.power,
            slo=self.slo,
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


def run_all(
    plan: Plan,
    asked: list[Contender],
    traces: list[Trace],
    processes: int | None = None,
    before: Callable[[int], None] | None = None,
) -> Iterator[Done]:
    """Every contender on every replicate, contender by contender; results come as they are ready.

    Args:
        plan: what the runs share.
        asked: the contenders.
        traces: `replicates(plan)`.
        processes: how many processes; None = start here, and use all cores if it takes long.
        before: called with a contender's index before each of its runs in this process, for instance to compile its
            kernel; the time it takes does not count as a run's.

    Raises:
        InputError, PolicyError: from the first run that fails.
    """
    jobs = [(c, r) for c in range(len(asked)) for r in range(plan.seeds)]
    allowed = min(processes if processes is not None else cores(), len(jobs))
    spent = 0.0
    while jobs:
        done = len(asked) * plan.seeds - len(jobs)
        if allowed > 1 and (processes is not None or _worthwhile(spent, done, len(jobs))):
            yield from _in_processes(plan, asked, jobs, allowed)
            return
        contender, index = jobs.pop(0)
        if before is not None:
            before(contender)
        started = time.perf_counter()
        run = plan.run(asked[contender], index, traces[index])
        spent += time.perf_counter() - started
        yield Done(contender, index, run)


def cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _worthwhile(spent: float, done: int, left: int) -> bool:
    return spent > WORTHWHILE_S and spent / max(done, 1) * left > WORTHWHILE_S


_plan: Plan | None = None
_asked: list[Contender] = []
_traces: dict[int, Trace] = {}


def _begin(plan: Plan, asked: list[Contender]) -> None:
    """Give a fresh process what its runs share."""
    global _plan, _asked
    _plan, _asked = plan, asked


def _one(contender: int, index: int) -> Run:
    assert _plan is not None
    if index not in _traces:
        _traces[index] = _plan.replicate(index)
    return _plan.run(_asked[contender], index, _traces[index])


def _in_processes(
    plan: Plan, asked: list[Contender], jobs: list[tuple[int, int]], count: int
) -> Iterator[Done]:
    context = get_context("spawn")
    with ProcessPoolExecutor(min(count, len(jobs)), context, _begin, (plan, asked)) as pool:
        places: dict[Future[Run], tuple[int, int]] = {pool.submit(_one, *job): job for job in jobs}
        try:
            for future in as_completed(places):
                yield Done(*places[future], future.result())
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
