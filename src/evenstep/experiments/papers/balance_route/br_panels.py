"""BalanceRoute Figs. 3, 6, 8 and 10-13: KV load of each worker over one segment, for every method, size and sweep point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.balance_route import _balance_route as br
from evenstep.experiments.papers.balance_route import br_sweep, br_table1, br_table2
from evenstep.measure.records import Run

#: Most samples of every worker in a panel, and kept of a run.
SEGMENT, SAMPLES = 300, 3000


@dataclass(frozen=True, slots=True)
class _Gallery:
    """One line of panels: the paper's figure, workload, G, specs by label, and the paper's mean spread by label, tokens."""

    title: str
    kind: str
    workers: int
    methods: Mapping[str, str]
    paper: Mapping[str, float]

    @property
    def where(self) -> str:
        return f"{self.title}, {self.kind}, G = {self.workers}"


def galleries(setting: ex.Setting) -> list[_Gallery]:
    """The lines of panels, in the order of the paper's figures (3 and 6 share one); two small ones when quick.

    On a trace of the user's, the figures of both workloads share one line, and no line has numbers of the paper.
    """
    kinds = br.kinds(setting)
    if setting.quick:
        few = {m: br.METHODS[m] for m in (br.JSQ, br.BR0, br.ORACLE)}
        return [_Gallery("Fig. 10", kinds[0], 4, few, {}), _sweep(kinds[0], 4, br_sweep.CROSS[:2], "Fig. 12")]
    one, two = br_table1.PAPER, br_table2.PAPER
    titles = {br.HEAVY: "Figs. 3, 6", br.NEAR_CAP: "Fig. 8", br.TRACE: "Figs. 3, 6, 8"}
    every = [
        *(_Gallery(titles[kind], kind, 8, br.METHODS, _spreads(one.get(kind, {}))) for kind in kinds),
        _Gallery("Fig. 10", kinds[0], 4, br_table2.METHODS, _spreads(two[4])),
        _Gallery("Fig. 11", kinds[0], 16, br_table2.METHODS, _spreads(two[16])),
        _sweep(kinds[0], 8, br_sweep.CROSS, "Fig. 12"),
        _sweep(kinds[0], 16, br_sweep.CROSS, "Fig. 13"),
    ]
    return [replace(one, paper={}) for one in every] if setting.traces else every


def _sweep(kind: str, g: int, cross: Sequence[tuple[int, float]], figure: str) -> _Gallery:
    """The line of panels of BR-H at G = `g`, one panel for each (beta, gamma) of `cross`."""
    methods = {br_sweep.named(*point): br_sweep.spec(*point, "single") for point in cross}
    return _Gallery(figure, kind, g, methods, _spreads(br_sweep.printed(g)))


def _spreads(paper: Mapping[str, tuple[float, float, float]]) -> dict[str, float]:
    """The first of each method's numbers, its spread in tokens."""
    return {method: numbers[0] for method, numbers in paper.items()}


@ex.experiment("KV load of each worker over one segment, mean spread above it", "BalanceRoute Figs. 3, 6, 8, 10-13")
def experiment(setting: ex.Setting) -> ex.Findings:
    every = galleries(setting)
    found, stands_in = ex.parted(
        {k: br.run_on(setting, g.kind, g.workers, g.methods, samples=SAMPLES) for k, g in enumerate(every)}
    )
    drawn = list(zip(every, found.values(), strict=True))
    across = max(len(g.methods) for g in every)
    panels = {f"{g.title}, G = {g.workers}: {m}": _segment(own[0]) for g, runs in drawn for m, own in runs.items()}
    return ex.Findings(
        **ex.told(*(_told(*one) for one in drawn)),
        constants=br.constants(setting, sorted({g.workers for g in every}))
        + ex.constants(f"""
            segment | {SEGMENT} samples from the middle of the first replicate | its length is lost from the text
            sweep | single-reward reading of eq. 2 | the flatter of the two (br-sweep)
        """),
        remark="spreads scale with batch limit and prompt lengths, which are lost from the paper's text: the order of the "
        "panels is to be compared, not their scale, and its sweep at 16 workers stems from a deployment with relatively "
        "fewer prefill nodes",
        stands_in=stands_in,
        data=ex.joined([ex.by_worker(load, panel=panel, time_s=time_s) for panel, (time_s, load) in panels.items()]),
        draw=lambda figure: _draw(figure, drawn, across),
        size=(2.1 * across, 1.9 * len(drawn) + 0.7),
    )


def _told(gallery: _Gallery, runs: ex.Runs) -> ex.Told:
    for m, own in runs.items():
        yield ex.Row(f"{gallery.where}: {m}", "mean spread", "tokens", gallery.paper.get(m), ex.mean(own, br.SPREAD))
    for pair in ((br.BR0, br.JSQ), (br.ORACLE, br.BR0)) if br.ORACLE in runs else ():
        says = "{}: {} keeps workers closer together than {}".format(gallery.where, *pair)
        yield ex.compared(says, *ex.pair(runs, *pair, br.SPREAD), -1, "difference {} tokens")


def _segment(run: Run) -> tuple[Any, Any]:
    """Times (s) and loads (samples by workers) of up to `SEGMENT` samples in the middle of a run."""
    table = run.workers
    assert table is not None
    first = max(0, (table.step.size - SEGMENT) // 2)
    return table.start_s[first : first + SEGMENT], table.load[first : first + SEGMENT]


def _draw(figure: ex.Figure, drawn: Sequence[tuple[_Gallery, ex.Runs]], across: int) -> None:
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
