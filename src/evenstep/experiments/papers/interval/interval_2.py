"""Interval scheduling Fig. 6: average latency with ten buckets of output lengths."""

from __future__ import annotations

from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.interval._interval import Sweep, buckets, latency_under, rough

BUCKETS, ROUGH = "buckets of 100", "[1, 1000]"


def _claims(sweep: Sweep) -> list[ex.Claim]:
    change = ex.ratio(sweep.at_most(BUCKETS, "A_max"), sweep.at_most(ROUGH, "A_max"))
    says = "A_max's latency is nearly halved against [1, 1000] (40 to 60 % of it)"
    near = sweep.near_claim(BUCKETS, says="A_min with buckets closely approaches H-SF (within 5 %)")
    return [ex.Claim(says, ex.within(change, 0.4, 0.6), ex.mean_text(change)), near]


experiment = latency_under(
    "latency with buckets of lengths",
    6,
    {BUCKETS: buckets, ROUGH: rough},
    _claims,
    "how much buckets save A_max depends on lengths and memory: for most outputs, in the first bucket, its "
    "bound falls from 1,000 to 100",
)
