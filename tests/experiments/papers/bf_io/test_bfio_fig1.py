"""BF-IO Fig. 1 at its reduced size."""

from __future__ import annotations

import pytest
from tests.experiments.papers.quick import quick

from evenstep.experiments.papers.bf_io.bfio_fig1 import MEAN, MEDIAN


@pytest.mark.slow
def test_mean_and_median_idle_share_stand_beside_the_papers():
    found = quick("bfio-fig1")
    assert {row.paper for row in found.findings.rows} == {MEAN, MEDIAN}
    assert all(0 < row.ours.value < 100 for row in found.findings.rows)
    assert "B = 6" in found.findings.remark
