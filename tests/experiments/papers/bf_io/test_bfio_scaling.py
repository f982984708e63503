"""BF-IO's scaling of the gain at its reduced size."""

from __future__ import annotations

import pytest
from tests.experiments.papers.quick import quick


@pytest.mark.slow
def test_gains_are_measured_along_b_and_along_g_with_either_pool():
    found = quick("bfio-scaling")
    sweeps = {row.case for row in found.findings.rows if row.quantity.startswith("exponent")}
    assert sweeps == {"B", "G, pool grows", "G, pool fixed"}
    assert all(row.ours.value > 1 for row in found.findings.rows if row.unit == "times")
