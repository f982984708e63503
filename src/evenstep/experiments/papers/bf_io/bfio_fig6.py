"""BF-IO Fig. 6: load of every worker over some 4,000 steps, 16 workers, four strategies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.bf_io import _bf_io as bf
from evenstep.measure.records import Run, WorkerTable

GAP = {bf.FCFS: "40-50", bf.BF0: "5-10"}
BAND = {bf.FCFS: ("60", "110"), bf.JSQ: ("about 80", "above 120"), bf.BF0: ("about 80", "about 80")}
#: Share of steps below the "lowest" and above the "highest" load.
TAIL = 0.01
SAMPLES = 1000


@ex.experiment("KV load of every worker over time", "BF-IO Fig. 6")
def experiment(setting: ex.Setting) -> ex.Findings:
    requests = setting.pick(18_000, 1_200)
    cluster = bf.fleet(*setting.pick((), (4, 24, 32)))
    runs, stands_in = bf.run_on(setting, cluster, requests, records=True, samples=SAMPLES)
    tables = {policy: own[0].workers for policy, own in runs.items() if own[0].workers is not None}
    said = "heaviest minus lightest worker, mean"
    return ex.Findings(
        rows=[
            *ex.rows_of(runs, "imbalance_spread_tokens", said, "10^3 tokens", 1e-3, GAP),
            *[row for policy, own in runs.items() for row in _ends(policy, own)],
        ],
        claims=[
            _less(runs, bf.BF0, bf.FCFS, "BF-IO(0) holds the workers closer together than FCFS"),
            _less(runs, bf.BF20, bf.BF0, "BF-IO(20) holds them closer together than BF-IO(0)"),
            _less(runs, bf.FCFS, bf.JSQ, "JSQ's band is wider than that of FCFS"),
        ],
        constants=bf.constants(cluster, requests)
        + ex.constants(f"""
            lowest, highest load | exceeded outwards at {100 * TAIL:g} % of the steps | the paper reads its bands off a
              picture
        """),
        remark="the paper reads bands off a picture of one run on BurstGPT, ours are quantiles over the steps with full "
        "slots of another workload; its text names a look-ahead of 80 steps for the panel that is labelled H = 20",
        stands_in=stands_in,
        data=ex.joined([ex.by_worker(t.load, case=policy, step=t.step, time_s=t.start_s) for policy, t in tables.items()]),
        draw=lambda figure: _draw(figure, tables),
        size=(9.5, 6.0),
    )


def _ends(policy: str, runs: Sequence[Run]) -> list[ex.Row]:
    """Rows of the lowest and the highest load: only the share `TAIL` of the steps goes below, or above."""
    steady = [bf.steady(run) for run in runs]
    low = [float(np.quantile(steps.load_min[window], TAIL)) / 1e3 for steps, window in steady]
    high = [float(np.quantile(steps.envelope[window], 1 - TAIL)) / 1e3 for steps, window in steady]
    ends = zip(("lowest load", "highest load"), (low, high), BAND.get(policy, (None, None)), strict=True)
    return [ex.row(policy, quantity, "10^3 tokens", own, paper) for quantity, own, paper in ends]


def _less(runs: ex.Runs, one: str, other: str, says: str) -> ex.Claim:
    field = "imbalance_spread_tokens"
    means = ", ".join(f"{p} {ex.mean(runs[p], field).value:,.0f}" for p in (one, other))
    return ex.compared(says, *ex.pair(runs, one, other, field), -1, f"{means} tokens, difference {{}}")


def _draw(figure: ex.Figure, tables: Mapping[str, WorkerTable]) -> None:
    grid = figure.subplots(2, 2, sharex=True, sharey=True)
    for axes, (policy, table) in zip(grid.flat, tables.items(), strict=True):
        ex.worker_lines(axes, table.step.astype(np.float64), table.load)
        axes.set_title(policy)
    for at in (0, 1):
        grid[1, at].set_xlabel("step")
        grid[at, 0].set_ylabel("10^3 KV tokens a worker")
    grid[0, 0].set_ylim(bottom=0)
