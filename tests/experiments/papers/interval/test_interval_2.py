"""Interval scheduling's experiment 2 at its reduced size."""

import pytest
from tests.experiments.papers.quick import ours, quick

from evenstep.experiments.papers.interval.interval_2 import BUCKETS, ROUGH

TIGHT = "n = 400, M = 4,096"  # where memory binds: at the paper's M so few requests hardly wait


@pytest.mark.slow
def test_buckets_help_whoever_believes_the_bounds_and_hindsight_sees_none():
    found = quick("interval-2")
    assert {row.case.split(", ")[0] for row in found.findings.rows} == {"A_max", "A_min", "H-SF"}
    of = {
        (p, b): ours(found, f"{p}, {b}, {TIGHT}", "average latency")
        for p in ("A_max", "A_min", "H-SF")
        for b in (BUCKETS, ROUGH)
    }
    assert of["H-SF", BUCKETS] == of["H-SF", ROUGH]
    assert of["H-SF", ROUGH] < 0.9 * of["A_min", BUCKETS] < 0.6 * of["A_min", ROUGH] < 0.1 * of["A_max", ROUGH]
    assert of["A_max", BUCKETS] < 0.15 * of["A_max", ROUGH]
    assert [claim.holds for claim in found.findings.claims] == [False, None]
