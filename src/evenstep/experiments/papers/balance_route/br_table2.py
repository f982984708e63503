"""BalanceRoute Table 2 (and 4, 5): six methods at 4, 8 and 16 workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.balance_route import _balance_route as br

METHODS = {m: br.METHODS[m] for m in (*br.BASELINES, br.BR0, br.ORACLE)}
PAPER: dict[int, dict[str, tuple[float, float, float]]] = {
    4: {
        br.RANDOM: (80_118, 66.30, 364.7),
        br.ROBIN: (68_108, 65.27, 365.7),
        br.P2C: (64_012, 65.40, 366.4),
        br.JSQ: (75_326, 66.45, 365.4),
        br.BR0: (9_711, 63.19, 407.1),
        br.ORACLE: (6_576, 62.52, 415.3),
    },
    8: {
        br.RANDOM: (438_225, 85.15, 810.5),
        br.ROBIN: (254_798, 83.16, 846.7),
        br.P2C: (262_940, 84.01, 836.3),
        br.JSQ: (215_110, 83.20, 842.8),
        br.BR0: (51_927, 79.32, 942.5),
        br.ORACLE: (23_577, 78.04, 1_028.9),
    },
    16: {
        br.RANDOM: (638_062, 77.80, 923.6),
        br.ROBIN: (616_089, 77.91, 925.3),
        br.P2C: (688_283, 77.46, 927.3),
        br.JSQ: (675_607, 77.40, 926.6),
        br.BR0: (215_170, 74.92, 1_117.8),
        br.ORACLE: (117_067, 72.04, 1_247.4),
    },
}
_FIELDS = (br.SPREAD, br.TPOT, br.RATE, "idle_share", "full_slot_tokens_per_s")


@ex.experiment("six methods at 4, 8 and 16 workers", "BalanceRoute Tables 2, 4 and 5")
def experiment(setting: ex.Setting) -> ex.Findings:
    sizes: Sequence[int] = setting.pick(tuple(PAPER), (4, 8))
    runs, stands_in = ex.parted({g: br.run_on(setting, br.HEAVY, g, METHODS) for g in sizes})
    return ex.Findings(
        **ex.told(_told(runs)),
        constants=br.constants(setting, sizes, (br.HEAVY,)),
        remark="the paper's three sizes differ in more than G (at 16 workers one prefill node serves twice the decode "
        "workers, and its tables' TPOT falls), ours only in G, so our spreads grow more slowly with it",
        stands_in=stands_in,
        data=ex.joined([ex.long_table(of, _FIELDS, workers=g) for g, of in runs.items()]),
        draw=lambda figure: _draw(figure, runs),
        size=(11, 4.0),
    )


def _told(runs: Mapping[int, ex.Runs]) -> ex.Told:
    for g, of in runs.items():
        yield from br.rows(of, f"G = {g}", PAPER[g], br.JSQ)
    for g, of in runs.items():
        for m in (br.BR0, br.ORACLE):
            yield ex.Row(f"G = {g}", f"throughput of {m} over the best baseline", "%", _paper_gain(g, m), _gain(of, m))
    for m in (br.BR0, br.ORACLE):
        few, many = (_gain(runs[g], m) for g in (min(runs), max(runs)))
        seen = ", ".join(f"{ex.mean_text(_gain(of, m))} % at G = {g}" for g, of in runs.items())
        yield ex.Claim(f"the gain in throughput of {m} over the best baseline grows with G", ex.below(few, many), seen)
    for g, of in runs.items():
        best = min(br.BASELINES, key=lambda m: ex.mean(of[m], br.SPREAD).value)
        ours, theirs = (ex.mean_text(ex.mean(of[m], br.SPREAD)) for m in (br.ORACLE, best))
        says, seen = f"G = {g}: BR-H oracle's spread is below every baseline's", f"{ours} against {theirs} tokens of {best}"
        yield ex.compared(says, *ex.pair(of, br.ORACLE, best, br.SPREAD), -1, seen)


def _gain(runs: ex.Runs, method: str) -> ex.Interval:
    """The gain in throughput over the best baseline, per cent: mean over replicates with its interval."""
    best = max(br.BASELINES, key=lambda m: ex.mean(runs[m], br.RATE).value)
    return ex.ratio(*ex.pair(runs, method, best, br.RATE)).map(lambda ratio: 100 * (ratio - 1))


def _paper_gain(g: int, method: str) -> float:
    best = max(PAPER[g][m][2] for m in br.BASELINES)
    return round(100 * (PAPER[g][method][2] / best - 1), 1)


def _draw(figure: ex.Figure, runs: Mapping[int, ex.Runs]) -> None:
    spreads, gains = figure.subplots(1, 2)
    x = list(runs)
    for colour, method in zip(ex.COLOURS, METHODS, strict=False):
        ex.band_line(spreads, x, [ex.mean(of[method], br.SPREAD, 1e-3) for of in runs.values()], method, colour)
        spreads.plot(x, [PAPER[g][method][0] / 1e3 for g in x], ls=":", color=colour, lw=1)
        if method in (br.BR0, br.ORACLE):
            ex.band_line(gains, x, [_gain(of, method) for of in runs.values()], method, colour)
            gains.plot(x, [_paper_gain(g, method) for g in x], ls=":", color=colour, lw=1)
    highest = max(PAPER[g][m][0] / 1e3 for g in x for m in METHODS)
    spreads.set(yscale="log", ylim=(None, 6 * highest), ylabel="spread, 10^3 tokens")
    gains.set(ylabel="throughput over the best baseline, %", ylim=(0, None))
    for axes in (spreads, gains):
        axes.set_xscale("log", base=2)
        axes.set_xticks(x, [str(g) for g in x])
        ex.labelled(axes, "workers G (dotted: paper)", legend=True, fontsize=8, ncols=2, loc="upper left")
