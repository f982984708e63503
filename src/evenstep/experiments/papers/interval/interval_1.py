"""Interval scheduling Fig. 5: average latency when nothing is known of an output but [1, 1000]."""

from __future__ import annotations

from evenstep.experiments.papers.interval._interval import STANDS_IN, Sweep, beyond, rough
from evenstep.experiments.reproduce import Experiment, Setting, clearly
from evenstep.report.findings import Claim, Findings, with_interval

INTERVALS = "[1, 1000]"


def run(setting: Setting) -> Findings:
    sweep = Sweep(setting, {INTERVALS: rough}).run()
    wide = sweep.over_hindsight(INTERVALS, "A_max")
    return Findings(
        rows=sweep.rows(),
        claims=[
            sweep.near_claim(INTERVALS),
            Claim("A_max is far above H-SF (more than twice)", clearly(beyond(wide, 2), 1), with_interval(wide)),
        ],
        constants=sweep.constants(),
        remark="A_min pays for what it learns: every eviction starts a request again from nothing, and its latency is well "
               "above hindsight's, though far below that of A_max; both readings of its algorithm are shown",
        stands_in=STANDS_IN,
        data=sweep.data(),
        draw=sweep.draw,
        size=(6.2, 4.2),
    )  # fmt: skip


experiment = Experiment(
    "latency with intervals [1, 1000]", "Interval scheduling sec. 6, Fig. 5", run, most_traces=0
)
