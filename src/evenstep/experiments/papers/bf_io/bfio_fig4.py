"""BF-IO Fig. 4: the window H from 0 to 500."""

from __future__ import annotations

from collections.abc import Sequence

from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.bf_io import _bf_io as bf

WINDOWS = (0, 5, 10, 20, 40, 80, 160, 320, 500)
DISCOUNTS = (1.0, 0.9)


@ex.experiment("the imbalance of BF-IO over its window H", "BF-IO Fig. 4")
def experiment(setting: ex.Setting) -> ex.Findings:
    requests = setting.pick(12_000, 1_000)
    windows = setting.pick(WINDOWS, (0, 10, 80))
    cluster = bf.fleet(*setting.pick((), (4, 16, 32)))
    policies = {_name(h, d): bf.horizon(h, d) for d in DISCOUNTS for h in windows if h or d == 1}
    runs, stands_in = bf.run_on(setting, cluster, requests, policies)
    plain, tapered = (
        ex.quotients(*([ex.mean(runs[_name(h, d)], bf.IMBALANCE).value] for h in (windows[-1], _best(runs, windows, d))))[0]
        for d in DISCOUNTS
    )
    return ex.Findings(
        rows=[
            *ex.rows_of(runs, bf.IMBALANCE, "average imbalance", "10^4 tokens", 1e-4),
            *ex.rows_of(runs, "full_slot_tokens_per_s", "throughput at the policy-free mean load", "10^4 tok/s", 1e-4),
        ],
        claims=[_claim(runs, windows, discount) for discount in DISCOUNTS],
        constants=bf.constants(cluster, requests)
        + ex.constants(f"""
            H | {ex.listed(windows)} | the paper draws a curve from 0 to 500 without a table
            discount | 1 (the paper) and 0.9 | 0.9 weighs each further step less; ours, to see what makes the U
            departures of newcomers | unknown | a request counts for the whole window from its admission on
        """),
        remark="the paper's figure has no table to compare with; the rise at long windows comes from weighing a step far "
        f"ahead, on which later admissions decide, like the present one: H = {windows[-1]} has {plain:.1f} times the least "
        f"imbalance without a discount and {tapered:.1f} times with 0.9 a step",
        stands_in=stands_in,
        data=ex.long_table(runs, (bf.IMBALANCE, "idle_share", "full_slot_tokens_per_s")),
        draw=lambda figure: _draw(figure, runs, windows),
        size=(6.5, 4.2),
    )


def _name(window: int, discount: float) -> str:
    return f"H = {window}" if discount == 1 or window == 0 else f"H = {window}, discount {discount}"


def _best(runs: ex.Runs, windows: Sequence[int], discount: float) -> int:
    return min(windows, key=lambda h: ex.mean(runs[_name(h, discount)], bf.IMBALANCE).value)


def _claim(runs: ex.Runs, windows: Sequence[int], discount: float) -> ex.Claim:
    best, ends = _best(runs, windows, discount), (windows[0], windows[-1])
    least = _name(best, discount)
    above = [ex.paired_difference(*ex.pair(runs, _name(h, discount), least, bf.IMBALANCE)) for h in ends]
    holds = False if best in ends else ex.all_of([ex.clearly(one, +1) for one in above])
    by = " and ".join(f"at H = {h} by {ex.mean_text(one)}" for h, one in zip(ends, above, strict=True))
    seen = f"least at H = {best}; above it {by} tokens"
    return ex.Claim(f"imbalance over H is a U, best at a moderate window, discount {discount:g}", holds, seen)


def _draw(figure: ex.Figure, runs: ex.Runs, windows: Sequence[int]) -> None:
    axes = figure.add_subplot(1, 1, 1)
    means = {d: [ex.mean(runs[_name(h, d)], bf.IMBALANCE, 1e-4) for h in windows] for d in DISCOUNTS}
    ex.bands(axes, {f"discount {d:g}": (windows, own) for d, own in means.items()})
    axes.set_xscale("symlog", linthresh=5)
    axes.set_xticks(windows, windows)
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    ex.labelled(axes, "window H, steps", "average imbalance, 10^4 tokens", legend=True)
