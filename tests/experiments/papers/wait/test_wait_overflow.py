"""Eq. 12 at a reduced size."""

import pytest
from tests.experiments.papers.quick import ours, quick

from evenstep.experiments.papers.wait import wait_overflow
from evenstep.experiments.reproduce import Setting, reproduce


def test_the_number_of_replicates_is_that_of_the_runs(monkeypatch):
    """It said 5, the default of other experiments."""
    monkeypatch.setattr(wait_overflow, "peak", lambda thresholds, seed, r: 1000 + r)
    assert reproduce("wait-overflow", Setting()).seeds == wait_overflow.REPLICATES
    assert reproduce("wait-overflow", Setting(quick=True)).seeds == 20
    assert reproduce("wait-overflow", Setting(quick=True, seeds=7)).seeds == 7


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
