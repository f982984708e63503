"""BF-IO Fig. 4 at its reduced size."""

from __future__ import annotations

import pytest
from tests.experiments.papers.quick import ours, quick


def test_every_window_is_run_with_and_without_discount_and_two_replicates_settle_no_u():
    found = quick("bfio-fig4")
    imbalance = {case: ours(found, case, "average imbalance") for case in {row.case for row in found.findings.rows}}
    assert imbalance == pytest.approx(
        {"H = 0": 0.335, "H = 10": 0.225, "H = 80": 0.384, "H = 10, discount 0.9": 0.252, "H = 80, discount 0.9": 0.210},
        abs=1e-3,
    )
    undiscounted, discounted = found.findings.claims
    assert undiscounted.holds is None and "least at H = 10;" in undiscounted.seen
    assert discounted.holds is False and "least at H = 80;" in discounted.seen
