"""BF-IO Fig. 7: mean power of a worker over time, FCFS against BF-IO(20)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from evenstep.cost.power import Power
from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.bf_io import _bf_io as bf
from evenstep.measure.records import Run
from evenstep.request import F8

PAPER = {bf.FCFS: ("330", "380"), bf.BF20: ("395", "400")}
#: Stretches that a run is cut into, and the share of them outside the range reported, at each end.
STRETCHES, TAIL = 200, 0.05


@ex.experiment("power over time", "BF-IO Fig. 7")
def experiment(setting: ex.Setting) -> ex.Findings:
    requests = setting.pick(18_000, 1_200)
    cluster = bf.fleet(*setting.pick((), (4, 24, 32)))
    policies = {p: bf.POLICIES[p] for p in (bf.FCFS, bf.BF20)}
    runs, stands_in = bf.run_on(setting, cluster, requests, policies, records=True)
    series = {(p, name): [_watts(run, name) for run in own] for p, own in runs.items() for name in bf.ACCOUNTINGS}
    first = {key: own[0] for key, own in series.items()}
    ranges = [one for (p, name), own in series.items() for one in _range(p, name, [watts for _, watts in own])]
    more = "BF-IO(20) draws more power than FCFS (busy and idle apart) and needs less energy (bfio-table1)"
    power = Power()
    return ex.Findings(
        rows=[*ranges, *ex.rows_of(runs, "power_busy_idle_w", "mean power of the whole run, busy and idle apart", "W")],
        claims=[
            ex.compared(more, *ex.pair(runs, bf.BF20, bf.FCFS, "power_busy_idle_w"), +1, "difference {} W"),
            _flat(ranges),
        ],
        constants=bf.constants(cluster, requests)
        + ex.constants(f"""
            N_params | {power.model_params:g} | the paper does not name the model it serves
            peak FLOP/s | {power.peak_flops:g} | an A100, as in App. D
            stretches | {STRETCHES} | points of a line; each is the mean power of its steps
            range | {100 * TAIL:g} % to {100 - 100 * TAIL:g} % of the stretches with full slots | the paper reads a range
              off its picture
        """),
        remark=f"a worker above {power.mfu_sat / power.mfu_per_tokens_per_s:,.0f} tokens/s, as here at full size, is past "
        "the saturation of eq. 11, so that its power only falls while it waits, and the step average of eq. D45 hides that "
        "wait; the paper does not say which it drew",
        stands_in=stands_in,
        data=ex.curves(
            {(p, bf.ACCOUNTINGS[name]): own for (p, name), own in first.items()}, ("case", "accounting"), ("time_s", "watts")
        ),
        draw=lambda figure: _draw(figure, first),
        size=(9.5, 3.8),
    )


def _watts(run: Run, name: str) -> tuple[F8, F8]:
    """(start in seconds, mean watts a worker) of each stretch of the steady window; `name` is a column of joules."""
    steps, window = bf.steady(run)
    edges = np.unique(np.linspace(window.start, window.stop, STRETCHES + 1).astype(np.int64))[:-1]
    joules, seconds = (np.add.reduceat(of[: window.stop], edges) for of in (getattr(steps, name), steps.duration_s))
    return steps.start_s[edges], joules / (run.conditions.workers * seconds)


def _range(policy: str, name: str, watts: Sequence[F8]) -> Iterator[ex.Row]:
    for end, q, paper in zip(("lower", "upper"), (TAIL, 1 - TAIL), PAPER[policy], strict=True):
        quantity, own = f"{end} end of the range, {bf.ACCOUNTINGS[name]}", [float(np.quantile(w, q)) for w in watts]
        yield ex.row(policy, quantity, "W", own, paper)


def _flat(rows: Sequence[ex.Row]) -> ex.Claim:
    said = f"lower end of the range, {bf.ACCOUNTINGS['energy_step_average_j']}"
    low = next(one.ours for one in rows if one.case == bf.FCFS and one.quantity == said)
    says = "FCFS draws less than 399.5 W under the step average, as eqs. 11 and D45 print it"
    return ex.limited(says, low, 399.5, -1, "its lowest stretches draw {} W")


def _draw(figure: ex.Figure, series: Mapping[tuple[str, str], tuple[F8, F8]]) -> None:
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (name, title) in zip(panels, bf.ACCOUNTINGS.items(), strict=True):
        ex.lines(axes, {policy: series[policy, name] for policy in PAPER}, lw=1.0)
        ex.labelled(axes, "time, s", title=title)
    panels[0].set_ylabel("mean power of a worker, W")
    panels[0].legend(frameon=False, loc="lower right")
