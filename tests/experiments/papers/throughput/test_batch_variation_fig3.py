"""Throughput-optimal Fig. 3 at its reduced size."""

from __future__ import annotations

import pytest
from tests.experiments.papers.quick import ours, quick


@pytest.mark.slow
def test_every_profile_gets_a_time_and_a_variation():
    found = quick("batch-variation-fig3")
    times = [ours(found, f"{name}, budget 512", "batch time at full load") for name in ("8B, RTX 4090", "8B, RTX PRO 6000")]
    assert times[0] > times[1] > 10
    assert 0 < ours(found, "8B, RTX 4090, budget 512", "coefficient of variation") < 1
