"""Throughput-optimal Fig. 4 at its reduced size."""

from __future__ import annotations

import pytest
from tests.experiments.papers.quick import ours, quick


@pytest.mark.slow
def test_mean_times_are_nearly_a_line_over_the_load():
    found = quick("batch-fit-fig4")
    assert ours(found, "8B, RTX 4090", "R^2, mean at each load") > 0.97
    assert ours(found, "8B, RTX 4090", "a") > ours(found, "8B, RTX PRO 6000", "a")
