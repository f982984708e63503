"""Interval scheduling's experiment 2 at its reduced size."""

import pytest
from tests.experiments.papers.quick import quick


@pytest.mark.slow
def test_every_policy_is_measured_under_every_interval():
    found = quick("interval-2")
    assert {row.case.split(", ")[0] for row in found.findings.rows} == {"A_max", "A_min", "H-SF"}
