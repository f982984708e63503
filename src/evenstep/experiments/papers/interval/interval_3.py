"""Interval scheduling Fig. 7: average latency with an interval of its own around each output."""

from __future__ import annotations

from evenstep.experiments.papers.interval._interval import LITERAL, MEMORY, STANDS_IN, Sweep, around
from evenstep.experiments.reproduce import Experiment, Setting, clearly
from evenstep.measure.comparison import paired_difference
from evenstep.report.findings import Claim, Findings, with_interval

SHARES = (0.1, 0.95, 0.99)


def run(setting: Setting) -> Findings:
    sweep = Sweep(setting, {f"x = {x:g}": around(x) for x in SHARES}).run()
    first, *others = sweep.intervals
    most = sweep.counts[-1]
    claims = [sweep.near_claim(name) for name in sweep.intervals]
    for name in others:
        worse = paired_difference(
            sweep.values[name, "A_max", most, MEMORY], sweep.values[first, "A_max", most, MEMORY]
        )
        claims.append(
            Claim(
                f"A_max is worse with {name} than with {first}",
                clearly(worse, 1),
                f"{with_interval(worse)} s",
            )
        )
        better = paired_difference(
            sweep.values[name, LITERAL, most, MEMORY], sweep.values[name, "A_max", most, MEMORY]
        )
        claims.append(
            Claim(
                f"A_min is better than A_max with {name}", clearly(better, -1), f"{with_interval(better)} s"
            )
        )
    return Findings(
        rows=sweep.rows(),
        claims=claims,
        constants=sweep.constants(),
        remark="an interval in proportion to the truth keeps the order of the lengths, so that both policies know who is "
               "shortest at any x; what x changes is how much memory they set aside. The paper's sentence that a larger x "
               "is more precise contradicts its others",
        stands_in=STANDS_IN,
        data=sweep.data(),
        draw=sweep.draw,
        size=(11.0, 4.2),
    )  # fmt: skip


experiment = Experiment(
    "latency with intervals around the truth", "Interval scheduling sec. 6, Fig. 7", run, most_traces=0
)
