"""Interval scheduling's experiment 3 at its reduced size."""

import pytest
from tests.experiments.papers.quick import ours, quick

from evenstep.experiments.papers.interval._interval import MEMORIES, POLICIES, Sweep, around
from evenstep.experiments.papers.interval.interval_3 import SHARES, _claims
from evenstep.experiments.reproduce import Setting

TIGHT = "n = 400, M = 4,096"  # where memory binds: at the paper's M so few requests hardly wait


@pytest.mark.slow
def test_wide_intervals_cost_both_and_nothing_to_hindsight():
    found = quick("interval-3")
    assert {row.case.split(", ")[0] for row in found.findings.rows} == {"A_max", "A_min", "H-SF"}
    of = {
        (p, x): ours(found, f"{p}, x = {x}, {TIGHT}", "average latency")
        for p in ("A_max", "A_min", "H-SF")
        for x in ("0.1", "0.95", "0.99")
    }
    assert of["H-SF", "0.1"] == of["H-SF", "0.95"] == of["H-SF", "0.99"]
    for policy in ("A_max", "A_min"):
        assert of["H-SF", "0.1"] < of[policy, "0.1"] < 0.8 * of[policy, "0.95"]
    assert of["A_max", "0.95"] < 0.9 * of["A_min", "0.95"]
    worse = {claim.says: claim.holds for claim in found.findings.claims}
    assert worse["A_max is worse with x = 0.99 than with x = 0.1"] is not True


def test_verdicts_follow_the_signs_of_paired_differences():
    """A_max is worse by a second where intervals are wide, and A_min by another."""
    sweep = Sweep(Setting(quick=True), {f"x = {x:g}": around(x) for x in SHARES})
    for name in sweep.intervals:
        wide = 0.0 if name == "x = 0.1" else 1.0
        for label in POLICIES:
            of_label = {"A_max": 10.0 + wide, "H-SF": 10.0}.get(label, 10.0 + 2 * wide)
            for memory in MEMORIES:
                sweep.values[name, label, sweep.counts[-1], memory] = [of_label, of_label + 0.01]
    told = {claim.says: claim.holds for claim in _claims(sweep)}
    for name in ("x = 0.95", "x = 0.99"):
        assert told[f"A_max is worse with {name} than with x = 0.1"] is True
        assert told[f"A_min is better than A_max with {name}"] is False
        assert told[f"A_min with {name} is nearly identical to H-SF (within 5%)"] is False
    assert told["A_min with x = 0.1 is nearly identical to H-SF (within 5%)"] is True
