"""BalanceRoute Figs. 3, 6, 8 and 10-13: KV load of each worker over one segment, for every method, size and sweep point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.balance_route import _balance_route as br
from evenstep.experiments.papers.balance_route import br_sweep, br_table1, br_table2
from evenstep.measure.records import Run

#: Samples of every worker in a panel, and kept of a run.
SEGMENT, SAMPLES = 300, 3000


@dataclass(frozen=True, slots=True)
class _Gallery:
    """One line of panels.

    Args:
        title: the paper's figure.
        kind: workload.
        workers: G.
        methods: label to spec.
        paper: the paper's mean spread by label, tokens.
    """

    title: str
    kind: str
    workers: int
    methods: Mapping[str, str]
    paper: Mapping[str, float]


def galleries(setting: ex.Setting) -> list[_Gallery]:
    """The paper's figures in order, each a line of panels with its workload, size, methods and printed spreads.

    When quick, two small ones.
    """
    if setting.quick:
        few = {m: br.METHODS[m] for m in (br.JSQ, br.BR0, br.ORACLE)}
        return [_Gallery("Fig. 10", br.HEAVY, 4, few, {}), _sweep(4, br_sweep.CROSS[:2], "Fig. 12")]
    one = br_table1.PAPER
    found = [
        _Gallery("Figs. 3, 6", br.HEAVY, 8, br.METHODS, {m: v[0] for m, v in one[br.HEAVY].items()}),
        _Gallery("Fig. 8", br.NEAR_CAP, 8, br.METHODS, {m: v[0] for m, v in one[br.NEAR_CAP].items()}),
    ]
    for g, figure in ((4, "Fig. 10"), (16, "Fig. 11")):
        paper = {m: v[0] for m, v in br_table2.PAPER[g].items()}
        found.append(_Gallery(figure, br.HEAVY, g, br_table2.METHODS, paper))
    return [*found, *[_sweep(g, br_sweep.CROSS, f"Fig. {n}") for g, n in ((8, 12), (16, 13))]]


def _sweep(g: int, cross: Sequence[tuple[int, float]], figure: str) -> _Gallery:
    methods = {f"beta {b}, gamma {y:g}": br_sweep.spec(b, y, "single") for b, y in cross}
    paper = {f"beta {b}, gamma {y:g}": v[0] for (b, y), v in br_sweep.PAPER.get(g, {}).items()}
    return _Gallery(figure, br.HEAVY, g, methods, paper)


def run(setting: ex.Setting) -> ex.Findings:
    every = galleries(setting)
    found, stands_in = ex.parted(
        {k: br.run_on(setting, g.kind, g.workers, g.methods, samples=SAMPLES) for k, g in enumerate(every)}
    )
    drawn = list(zip(every, found.values(), strict=True))
    across = max(len(g.methods) for g, _ in drawn)
    return ex.Findings(
        rows=[
            ex.Row(
                f"{g.title}, {g.kind}, G = {g.workers}: {m}",
                "mean spread",
                "tokens",
                g.paper.get(m),
                ex.mean(own, br.SPREAD),
            )
            for g, runs in drawn
            for m, own in runs.items()
        ],
        claims=[claim for g, runs in drawn for claim in _claims(g, runs)],
        constants=[
            *br.constants(setting, sorted({g.workers for g, _ in drawn})),
            *ex.constants(f"""
                segment | {SEGMENT} samples from the middle of the first replicate | its length is lost from the text
                sweep | single-reward reading of eq. 2 | the flatter of the two (br-sweep)
            """),
        ],
        remark=(
            "spreads scale with batch limit and prompt lengths, which are lost from the paper's text: the order of "
            "the panels is to be compared, not their scale, and its sweep at 16 workers stems from a deployment "
            "with relatively fewer prefill nodes"
        ),
        stands_in=stands_in,
        data=_data(drawn),
        draw=lambda figure: _draw(figure, drawn, across),
        size=(2.1 * across, 1.9 * len(drawn) + 0.7),
    )


def _claims(gallery: _Gallery, runs: ex.Runs) -> list[ex.Claim]:
    if br.ORACLE not in runs:
        return []
    where = f"{gallery.title}, {gallery.kind}, G = {gallery.workers}"
    return [
        ex.compared(
            f"{where}: {one} keeps workers closer together than {other}",
            *ex.pair(runs, one, other, br.SPREAD),
            -1,
            "difference {} tokens",
        )
        for one, other in ((br.BR0, br.JSQ), (br.ORACLE, br.BR0))
    ]


def _segment(run: Run) -> tuple[Any, Any]:
    """Time and loads of the samples drawn."""
    table = run.workers
    assert table is not None
    first = max(0, (table.step.size - SEGMENT) // 2)
    return table.start_s[first : first + SEGMENT], table.load[first : first + SEGMENT]


def _data(drawn: Sequence[tuple[_Gallery, ex.Runs]]) -> dict[str, Any]:
    panels = {f"{g.title}, G = {g.workers}: {m}": _segment(own[0]) for g, runs in drawn for m, own in runs.items()}
    return ex.joined([ex.by_worker(load, panel=panel, time_s=time_s) for panel, (time_s, load) in panels.items()])


def _draw(figure: Any, drawn: Sequence[tuple[_Gallery, ex.Runs]], across: int) -> None:
    grid = figure.subplots(len(drawn), across, squeeze=False)
    for line, (gallery, runs) in zip(grid, drawn, strict=True):
        top = max(float(_segment(own[0])[1].max()) for own in runs.values()) / 1e3
        for axes in line[len(runs) :]:
            axes.set_axis_off()
        for axes, (method, own) in zip(line, runs.items(), strict=False):
            time_s, load = _segment(own[0])
            ex.worker_lines(axes, time_s - time_s[0], load)
            axes.set_ylim(0, 1.05 * top)
            axes.set_title(f"{method}\n{ex.mean(own, br.SPREAD).value / 1e3:,.1f}k", fontsize=7)
            axes.tick_params(labelsize=6)
        line[0].set_ylabel(f"{gallery.title}\n{gallery.kind}, G = {gallery.workers}\n10^3 tokens", fontsize=7)
    for axes in grid[-1][: len(drawn[-1][1])]:
        axes.set_xlabel("s", fontsize=7)


experiment = ex.Experiment(
    "KV load of each worker over one segment, mean spread above it", "BalanceRoute Figs. 3, 6, 8, 10-13", run
)
