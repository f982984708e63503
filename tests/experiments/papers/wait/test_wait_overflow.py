"""Eq. 12 at a reduced size."""

import pytest
from tests.experiments.papers.quick import ours, quick


@pytest.mark.slow
def test_queues_need_more_than_a_full_batch_and_less_than_eq_12():
    found = quick("wait-overflow", seeds=60)
    full = ours(found, "M^pi", "memory of a full batch")
    really = next(row.ours for row in found.findings.rows if row.case == "10% of runs overflow")
    assert full < really.low < really.high
    for delta in ("0.1", "0.01"):
        share = next(r.ours for r in found.findings.rows if (r.case, r.quantity) == (f"delta {delta}", "runs that overflow"))
        assert share.value <= float(delta)
        assert 1.1 < ours(found, f"delta {delta}", "memory of eq. 12") / really.value < 1.4
