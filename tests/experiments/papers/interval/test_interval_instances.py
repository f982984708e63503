"""Interval scheduling's instances at their reduced size."""

import pytest
from tests.experiments.papers.quick import quick

from evenstep.experiments.papers.interval.interval_instances import lower_bound
from evenstep.report.findings import text_lines


def test_the_paper_s_example_holds_and_the_quotient_of_its_lower_bound_does_not():
    made = quick("interval-instances")
    found = {claim.says: claim.holds for claim in made.findings.claims}
    assert "\n± is half a 95 % t-interval over 2 replicates, for Proposition 8.4 over instances." in "\n".join(
        text_lines(made)
    )
    assert all(holds for says, holds in found.items() if says.startswith("Example 8.2"))
    assert not any(holds for says, holds in found.items() if "A_max is at least" in says)


def test_one_replicate_has_intervals_over_instances_only():
    made = quick("interval-instances", seeds=1)
    assert "\nOne replicate: no intervals but those of Proposition 8.4, over instances." in "\n".join(text_lines(made))
    with_ends = {row.case for row in made.findings.rows if row.ours.low is not None}
    assert with_ends == {"A_random(M) and A_random(0.5 M)", "A_random(M)"}


def test_hindsight_takes_as_long_as_the_proof_computes():
    alpha, a, b, short, long = 0.25, 3, 6, 4, 16
    _, best = lower_bound(alpha, a / b, b, 0)
    assert best == pytest.approx(long * short * a * (a + 1) / 2 + b * short * a * short + long * short * b * (b + 1) / 2)
