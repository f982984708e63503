"""BalanceRoute Tables 6 and 7: BR-H over penalty beta and discount gamma, a cross at 8 and at 16 workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.balance_route import _balance_route as br

#: (beta, gamma), in the order of the paper's tables.
CROSS = ((1, 0.9), (24, 0.9), (48, 0.9), (96, 0.9), (48, 0.5), (48, 0.7), (48, 1.0))
#: Spread (tokens), TPOT p95 (ms) and throughput (tok/s) of Tables 6 and 7.
PAPER: dict[int, dict[tuple[int, float], tuple[float, float, float]]] = {
    8: {
        (1, 0.9): (32_304, 78.120, 986.41),
        (24, 0.9): (24_706, 77.933, 1_022.67),
        (48, 0.9): (25_608, 77.517, 1_042.61),
        (96, 0.9): (31_862, 79.460, 945.41),
        (48, 0.5): (28_327, 78.040, 1_024.04),
        (48, 0.7): (26_599, 77.611, 1_020.78),
        (48, 1.0): (29_318, 77.310, 1_026.77),
    },
    16: {
        (1, 0.9): (104_229, 71.583, 1_256.30),
        (24, 0.9): (117_879, 72.198, 1_248.51),
        (48, 0.9): (118_396, 72.610, 1_255.77),
        (96, 0.9): (112_771, 72.260, 1_256.17),
        (48, 0.5): (116_074, 72.227, 1_247.32),
        (48, 0.7): (109_763, 71.114, 1_256.53),
        (48, 1.0): (127_207, 73.167, 1_243.79),
    },
}
READINGS = ("marginal", "single")
FLATNESS = "largest spread of the cross over its least"
_FIELDS = (br.SPREAD, br.TPOT, br.RATE, "idle_share")


@ex.experiment("BR-H over penalty and discount", "BalanceRoute Tables 6 and 7, Fig. 13")
def experiment(setting: ex.Setting) -> ex.Findings:
    sizes: Sequence[int] = setting.pick(tuple(PAPER), (4,))
    cross: Sequence[tuple[int, float]] = setting.pick(CROSS, CROSS[:3])
    jsq = {br.JSQ: br.BASELINES[br.JSQ]}
    methods = {reading: jsq | {named(b, y): spec(b, y, reading) for b, y in cross} for reading in READINGS}
    runs, stands_in = ex.parted({(g, r): br.run_on(setting, br.HEAVY, g, methods[r]) for g in sizes for r in READINGS})
    least, low = min(sizes), named(*cross[0])
    marginal, single = (ex.mean(runs[least, reading][low], br.SPREAD).value for reading in READINGS)
    alone = ex.mean(runs[least, READINGS[0]][br.JSQ], br.SPREAD).value
    flat: dict[tuple[int, str], ex.Interval] = {}
    for key, of in runs.items():
        spreads = list(zip(*(ex.values(of[named(*point)], br.SPREAD) for point in cross), strict=True))
        flat[key] = ex.ratio([max(own) for own in spreads], [min(own) for own in spreads])
    return ex.Findings(
        **ex.told(_told(runs, cross, flat)),
        constants=[c for c in br.constants(setting, sizes, (br.HEAVY,)) if c.name != "beta, gamma"]
        + ex.constants(f"""
            beta, gamma | {ex.listed(cross)} | the paper's cross
            reading of eq. 2 | marginal and single reward | the formula is lost from the text; marginal rewards each
              step, single rewards a token once
        """),
        remark=f"at beta = 1 and G = {least} the two readings of the lost formula part: spread {marginal:,.0f} tokens with "
        f"the marginal and {single:,.0f} with the single one, where JSQ has {alone:,.0f}; a flat cross speaks for the "
        "latter, and the paper's sizes differ in more than G",
        stands_in=stands_in,
        data=ex.joined([ex.long_table(of, _FIELDS, workers=g, reading=reading) for (g, reading), of in runs.items()]),
        draw=lambda figure: _draw(figure, runs, cross),
        size=(11, 3.4 * len(sizes) + 0.8),
    )


def spec(beta: int, gamma: float, reading: str) -> str:
    """The spec of BR-H with an oracle at penalty `beta` and discount `gamma`; `reading` of eq. 2 is one of `READINGS`."""
    return br.br_h(options=f",penalty={beta},discount={gamma},score={reading}")


def named(beta: int, gamma: float) -> str:
    """The label of a point (beta, gamma) in tables and panels."""
    return f"beta {beta}, gamma {gamma:g}"


def printed(g: int) -> dict[str, tuple[float, float, float]]:
    """The paper's (spread, TPOT p95, throughput) at G = `g` by label; empty for a G that it does not have."""
    return {named(*point): numbers for point, numbers in PAPER.get(g, {}).items()}


def _paper_flatness(g: int) -> float | None:
    """The paper's largest spread over its least at G = `g`; None for a G that it does not have."""
    spreads = [spread for spread, *_ in printed(g).values()]
    return round(max(spreads) / min(spreads), 2) if spreads else None


def _told(
    runs: Mapping[tuple[int, str], ex.Runs], cross: Sequence[tuple[int, float]], flat: Mapping[tuple[int, str], ex.Interval]
) -> ex.Told:
    """Claims at each G: spreads differ by at most 1.5 times `_paper_flatness` (None: 1.3), and every point is below JSQ."""
    for (g, reading), of in runs.items():
        yield from br.rows(of, f"G = {g}, {reading}", printed(g), "")
    for (g, reading), of in runs.items():
        where, paper = f"G = {g}, {reading} reading", _paper_flatness(g)
        yield ex.Row(where, FLATNESS, "times", paper, flat[g, reading])
        allowed = 1.5 * (paper or 1.3)
        worst = max((named(*p) for p in cross), key=lambda m, of=of: ex.mean(of[m], br.SPREAD).value)
        little = f"{where}: spreads differ little over the cross (here: at most {allowed:.2f} times)"
        yield ex.limited(little, flat[g, reading], allowed, -1, f"{{}} times, most at {worst}")
        seen = f"{worst}: {{}} tokens from JSQ's {ex.mean_text(ex.mean(of[br.JSQ], br.SPREAD))}"
        yield ex.compared(f"{where}: every point is below JSQ", *ex.pair(of, worst, br.JSQ, br.SPREAD), -1, seen)


def _draw(figure: ex.Figure, runs: Mapping[tuple[int, str], ex.Runs], cross: Sequence[tuple[int, float]]) -> None:
    sizes = sorted({g for g, _ in runs})
    panels = figure.subplots(len(sizes), 2, squeeze=False, sharey="row")
    lines = {
        "beta, at gamma 0.9": [p for p in cross if p[1] == 0.9],
        "gamma, at beta 48": sorted(p for p in cross if p[0] == 48),
    }
    for row, g in zip(panels, sizes, strict=True):
        for axes, (title, points), place in zip(row, lines.items(), (0, 1), strict=True):
            x = [float(point[place]) for point in points]
            means = {r: [ex.mean(runs[g, r][named(*point)], br.SPREAD, 1e-3) for point in points] for r in READINGS}
            ex.bands(axes, {f"{reading} reading": (x, y) for reading, y in means.items()})
            if g in PAPER:
                paper = [PAPER[g][point][0] / 1e3 for point in points]
                axes.plot(x, paper, "D:", color="#555555", markersize=4, label="paper")
            jsq = ex.mean(runs[g, READINGS[0]][br.JSQ], br.SPREAD, 1e-3).value
            axes.axhline(jsq, color="#aaaaaa", ls="--", lw=1, label="JSQ")
            ex.labelled(axes, title, title=f"G = {g}")
        row[0].set(ylabel="spread, 10^3 tokens", ylim=(0, None))
    panels[0, 0].legend(frameon=False, fontsize=8)
