"""BF-IO Table 1: imbalance, throughput, TPOT and energy of four strategies."""

from __future__ import annotations

from collections.abc import Mapping

from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.bf_io import _bf_io as bf
from evenstep.report.numbers import relative

IMBALANCE = {bf.FCFS: 27.9, bf.JSQ: 28.2, bf.BF0: 2.92, bf.BF20: 1.65}
THROUGHPUT = {bf.FCFS: 8.00, bf.JSQ: 7.99, bf.BF0: 9.03, bf.BF20: 9.13}
TPOT = {bf.FCFS: 1.42, bf.JSQ: 1.42, bf.BF0: 1.26, bf.BF20: 1.25}
ENERGY = {bf.FCFS: 396.0, bf.JSQ: 396.0, bf.BF0: 386.0, bf.BF20: 383.0}
_FIELDS = (
    bf.IMBALANCE,
    "idle_share",
    "window_tokens_per_s",
    "full_slot_tokens_per_s",
    "tpot_mean_s",
    "energy_busy_idle_j",
    "energy_step_average_j",
    "makespan_s",
    "oldest_wait_s",
)


@ex.experiment("BF-IO against FCFS and JSQ on a saturated fleet", "BF-IO Table 1")
def experiment(setting: ex.Setting) -> ex.Findings:
    requests = setting.pick(24_000, 2_000)
    cluster = bf.fleet(*setting.pick((), (4, 24, 32)))
    runs, stands_in = bf.run_on(setting, cluster, requests)
    saved = {kind: _share(runs, bf.BF20, kind) for kind in bf.ACCOUNTINGS}
    return ex.Findings(
        rows=[
            *ex.rows_of(runs, bf.IMBALANCE, "average imbalance", "10^4 tokens", 1e-4, IMBALANCE),
            *ex.rows_of(runs, "window_tokens_per_s", "throughput", "10^4 tok/s", 1e-4, THROUGHPUT),
            *ex.rows_of(runs, "full_slot_tokens_per_s", "throughput at the policy-free mean load", "10^4 tok/s", 1e-4),
            *ex.rows_of(runs, "tpot_mean_s", "TPOT, mean", "10^-2 s", 1e2, TPOT),
            *ex.rows_of(runs, "energy_busy_idle_j", "energy, busy and idle apart", "kJ", 1e-3, ENERGY),
            *ex.rows_of(runs, "energy_step_average_j", "energy, step average", "kJ", 1e-3),
            *[
                ex.Row(p, f"energy over FCFS, {said}", "%", round(100 * ENERGY[p] / 396, 1), _share(runs, p, kind))
                for kind, said in bf.ACCOUNTINGS.items()
                for p in bf.POLICIES
            ],
        ],
        claims=_claims(runs, saved),
        constants=bf.constants(cluster, requests),
        remark="throughput and TPOT hang on C and t_l, which the paper does not give, so only their ratios are evidence; "
        "total energy hangs on the unknown length of the run, and its saving on the accounting: "
        f"{100 - saved['energy_busy_idle_j'].value:.1f} % with busy and idle parts of a step priced apart, "
        f"{100 - saved['energy_step_average_j'].value:.1f} % with the step average",
        stands_in=stands_in,
        data=ex.long_table(runs, _FIELDS),
        draw=lambda figure: _draw(figure, runs),
        size=(11, 3.6),
    )


def _share(runs: ex.Runs, policy: str, name: str) -> ex.Interval:
    """Energy of a policy in per cent of that of FCFS: mean over replicates with its interval."""
    return ex.mean_interval([100 * a / b for a, b in zip(*ex.pair(runs, policy, bf.FCFS, name), strict=True)])


def _claims(runs: ex.Runs, saved: Mapping[str, ex.Interval]) -> list[ex.Claim]:
    fcfs, bf0, bf20, jsq = (ex.values(runs[p], bf.IMBALANCE) for p in (bf.FCFS, bf.BF0, bf.BF20, bf.JSQ))
    ours, base = ex.pair(runs, bf.BF20, bf.FCFS, "window_tokens_per_s")
    times = f"{ex.mean_text(ex.ratio(fcfs, bf20))} times"
    less = relative(ex.Interval(ex.paired_difference(bf20, bf0).value, None, None), ex.mean_interval(bf0).value, 0)
    more = f"{100 * (ex.ratio(ours, base).value - 1):+.1f} %"
    told = {
        "energy_busy_idle_j": "BF-IO(20) saves energy, busy and idle priced apart (paper: 3.3 %)",
        "energy_step_average_j": "BF-IO(20) saves energy, step average as eqs. 10, 11 and D45 print it (paper: 3.3 %)",
    }
    return [
        ex.limited("BF-IO(20) cuts the imbalance of FCFS (paper: 17 times)", ex.ratio(bf20, fcfs), 1, -1, times),
        ex.compared("looking ahead 20 steps cuts BF-IO(0)'s imbalance (paper: by 44 %)", bf20, bf0, -1, less),
        ex.compared("JSQ is worse than FCFS (paper: 28.2 against 27.9)", jsq, fcfs, +1, "difference {} tokens"),
        ex.limited("BF-IO(20) has the higher throughput (paper: by 14 %)", ex.ratio(base, ours), 1, -1, more),
        *(ex.limited(says, saved[kind], 100, -1, f"{100 - saved[kind].value:.2f} % saved") for kind, says in told.items()),
    ]


def _draw(figure: ex.Figure, runs: ex.Runs) -> None:
    shown = (
        (bf.IMBALANCE, 1e-4, "average imbalance, 10^4 tokens", IMBALANCE),
        ("window_tokens_per_s", 1e-4, "throughput, 10^4 tok/s", THROUGHPUT),
        ("tpot_mean_s", 1e2, "TPOT, 10^-2 s", TPOT),
    )
    *panels, last = figure.subplots(1, 4)
    for axes, (name, factor, title, paper) in zip(panels, shown, strict=True):
        ex.bars(axes, list(runs), [ex.mean(r, name, factor) for r in runs.values()], [paper[p] for p in runs])
        axes.set_title(title)
    shares = [_share(runs, p, "energy_busy_idle_j") for p in runs]
    ex.bars(last, list(runs), shares, [100 * ENERGY[p] / ENERGY[bf.FCFS] for p in runs])
    last.set(ylim=(80, 110), title="energy, % of FCFS (from 80)")
    panels[0].legend(frameon=False, loc="upper right")  # above the short bars of BF-IO
