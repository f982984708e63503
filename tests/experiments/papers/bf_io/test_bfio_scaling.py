"""BF-IO's scaling of the gain at its reduced size."""

from __future__ import annotations

import pytest
from tests.experiments.papers.quick import quick

from evenstep.experiments.papers.bf_io import _bf_io as bf
from evenstep.measure.comparison import Interval


@pytest.mark.slow
def test_gains_are_measured_along_b_and_along_g_with_either_pool():
    found = quick("bfio-scaling")
    sweeps = {row.case for row in found.findings.rows if row.quantity.startswith("exponent")}
    assert sweeps == {"B", "G, pool grows", "G, pool fixed"}
    assert all(row.ours.value > 1 for row in found.findings.rows if row.unit == "times")
    assert all(claim.says.startswith("outside the theorems' settings") for claim in found.findings.claims)


def test_an_exponent_above_zero_is_not_enough_and_a_wide_interval_tells_nothing():
    assert bf.reaches(Interval(0.45, 0.38, 0.52), 0.5) is True
    assert bf.reaches(Interval(0.45, 0.1, 0.8), 0.5) is None and bf.reaches(Interval(0.45, None, None), 0.5) is None
    assert bf.reaches(Interval(0.9, 0.6, 1.2), 0.5) is True and bf.reaches(Interval(0.3, 0.2, 0.4), 0.5) is False
    assert bf.reaches(Interval(0.5, 0.39, 0.61), 0.5) is None
