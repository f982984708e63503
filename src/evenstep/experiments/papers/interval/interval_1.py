"""Interval scheduling Fig. 5: average latency when nothing is known of an output but [1, 1000]."""

from __future__ import annotations

from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.interval._interval import Sweep, latency_under, rough

INTERVALS = "[1, 1000]"


def _claims(sweep: Sweep) -> list[ex.Claim]:
    wide = sweep.over_hindsight(INTERVALS, "A_max")
    return [sweep.near_claim(INTERVALS), ex.limited("A_max is far above H-SF (more than twice)", wide, 2, 1)]


experiment = latency_under(
    "latency with intervals [1, 1000]",
    5,
    {INTERVALS: rough},
    _claims,
    "A_min pays for what it learns: every eviction starts a request again from nothing, and its latency is well "
    "above hindsight's, though far below that of A_max; both readings of its algorithm are shown",
    size=(6.2, 4.2),
)
