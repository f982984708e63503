"""Interval scheduling Fig. 7: average latency with an interval of its own around each output."""

from __future__ import annotations

from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.interval._interval import LITERAL, Sweep, around, latency_under

SHARES = (0.1, 0.95, 0.99)


def _claims(sweep: Sweep) -> list[ex.Claim]:
    first, *others = sweep.intervals
    claims = [sweep.near_claim(name) for name in sweep.intervals]
    for name in others:
        wide = sweep.at_most(name, "A_max")
        near, literal = sweep.at_most(first, "A_max"), sweep.at_most(name, LITERAL)
        claims += [
            ex.compared(f"A_max is worse with {name} than with {first}", wide, near, 1, "{} s"),
            ex.compared(f"A_min is better than A_max with {name}", literal, wide, -1, "{} s"),
        ]
    return claims


experiment = latency_under(
    "latency with intervals around the truth",
    7,
    {f"x = {x:g}": around(x) for x in SHARES},
    _claims,
    "an interval in proportion to the truth keeps the order of the lengths, so that both policies know who is "
    "shortest at any x; what x changes is how much memory they set aside. The paper's sentence that a larger x "
    "is more precise contradicts its others",
    size=(11.0, 4.2),
)
