"""BF-IO Fig. 1: loads of 32 workers and the load imbalance of every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers._heavy import HEAVY_LINE, STEP_TIME, STEP_TIME_LINE, heavy
from evenstep.experiments.papers.bf_io import _bf_io as bf
from evenstep.measure import metrics
from evenstep.measure.records import Run
from evenstep.request import F8
from evenstep.sim.cluster.simulation import Cluster

#: Slots tried: the paper does not give them, and the load imbalance depends on them.
SLOTS = (10, 36, 72)
WORKERS, STEPS = 32, 436
MEAN, MEDIAN = 40.0, 41.0
POLICIES = {bf.JSQ: "jsq", bf.FCFS: "fcfs"}
_SAMPLES = 6000


@ex.experiment("loads of 32 workers and the load imbalance of every step", "BF-IO Fig. 1")
def experiment(setting: ex.Setting) -> ex.Findings:
    workers = setting.pick(WORKERS, 8)
    slots = setting.pick(SLOTS, (6, 12))
    requests = {b: setting.pick(max(3_200, 7 * workers * b), 8 * workers * b) for b in slots}

    def one(b: int) -> tuple[ex.Runs, str]:
        cluster = Cluster(workers=workers, slots=b, pool=4 * workers)
        missing = "the paper's industrial trace, which it does not name"
        source, told = ex.workload(setting, heavy(requests[b]), missing, cluster, STEP_TIME)
        return ex.run_policies(setting, source, POLICIES, cluster, STEP_TIME, records=True, samples=_SAMPLES), told

    runs, stands_in = ex.parted({b: one(b) for b in slots})
    rows = [row for b, of in runs.items() for policy, own in of.items() for row in _rows(policy, b, own)]
    few, many = (next(row.ours.value for row in rows if row.case.endswith(f"B = {b}")) for b in (slots[0], slots[-1]))
    first = runs[slots[0]][bf.JSQ][0]
    step, load = _segment(first)
    idle = 100 * (1 - load.mean(axis=1) / load.max(axis=1))
    return ex.Findings(
        rows=rows,
        claims=[_claim(rows)],
        constants=ex.constants(f"""
            G | {workers} | Fig. 1
            B | {ex.listed(slots)} | not given, and it decides: the relative spread of a sum falls like 1/sqrt(B)
            policy | JSQ and FCFS | the paper says neither; JSQ is what engines do by default
            pool | {4 * workers} | not given; saturated arrivals
            requests | {ex.listed(f"{requests[b]} at B = {b}" for b in slots)} | not given; replaced by a trace file's own
              rows
            {HEAVY_LINE}
            {STEP_TIME_LINE}
            window drawn | {STEPS} steps from the middle of the run | Fig. 1 shows 436 steps in 3 minutes
        """),
        remark=f"the paper names neither batch size nor policy, and both decide: with JSQ the mean load imbalance is "
        f"{few:.0f} % at B = {slots[0]} and {many:.0f} % at B = {slots[-1]} on the same workload",
        stands_in=stands_in,
        data={"step": np.repeat(step, load.shape[1]), **ex.by_worker(load), "idle_percent": np.repeat(idle, load.shape[1])},
        draw=lambda figure: _draw(figure, first, slots[0]),
        size=(9, 5.6),
    )


def _idle(run: Run) -> F8:
    """Load imbalance of each step of the steady window, float64, per cent: 100 * (1 - mean load / largest load)."""
    steps, window = bf.steady(run)
    size = metrics.of_group(run.conditions.group_sizes, steps.group)
    return 100 * metrics.idle_share(steps.envelope, steps.load_sum, size)[window]


def _rows(policy: str, slots: int, runs: Sequence[Run]) -> list[ex.Row]:
    idle = [_idle(run) for run in runs]
    case = f"{policy}, B = {slots}"
    return [
        ex.row(case, "load imbalance, mean over steps", "%", [float(x.mean()) for x in idle], MEAN),
        ex.row(case, "load imbalance, median over steps", "%", [float(np.median(x)) for x in idle], MEDIAN),
    ]


def _claim(rows: Sequence[ex.Row]) -> ex.Claim:
    """The claim that two fifths of the workers' time are lost: it holds if some case is clearly above `MEAN` per cent."""
    means = [one for one in rows if one.paper == MEAN]
    above = [ex.clearly(ex.beyond(one.ours, MEAN), +1) for one in means]
    seen = "; ".join(f"{one.case}: {ex.mean_text(one.ours)} %" for one in means)
    holds = True if True in above else None if None in above else False
    return ex.Claim("two fifths are lost at the barrier, by load (the paper: of the workers' time)", holds, seen)


def _segment(run: Run) -> tuple[Any, F8]:
    """Step numbers from 0, and loads (samples by workers), of the window drawn."""
    table = run.workers
    assert table is not None
    middle = table.step.size // 2
    rows = slice(max(0, middle - STEPS // 2 // table.stride), middle + STEPS // 2 // table.stride)
    return table.step[rows] - table.step[rows][0], table.load[rows]


def _draw(figure: ex.Figure, run: Run, slots: int) -> None:
    step, load = _segment(run)
    above, below = figure.subplots(2, 1, sharex=True)
    ex.worker_lines(above, step.astype(np.float64), load, points=STEPS)
    above.set(ylabel="10^3 KV tokens a worker", ylim=(0, None), title=f"{load.shape[1]} workers, B = {slots}, JSQ")
    idle = 100 * (1 - load.mean(axis=1) / load.max(axis=1))
    below.bar(step, idle, width=run.workers.stride if run.workers else 1, color=ex.COLOURS[4])
    below.axhline(float(idle.mean()), color="#222222", lw=1, ls="--", label=f"mean of this window {idle.mean():.1f} %")
    below.axhline(MEAN, color=ex.COLOURS[1], lw=1, ls=":", label=f"paper {MEAN:g} %")
    below.set(ylabel="load imbalance, %", xlabel="step", ylim=(0, 100))
    below.legend(frameon=False, ncols=2, loc="upper right")
