"""BalanceRoute's overhead of a decision at its reduced size."""

from __future__ import annotations

import pytest
from tests.experiments.papers.quick import quick

from evenstep.experiments.papers.balance_route.br_overhead import STAGES


@pytest.mark.slow
def test_every_stage_has_a_time_for_every_decision():
    found = quick("br-overhead")
    data = found.findings.data
    assert tuple(data["stage"][: len(STAGES)]) == STAGES
    assert len(data["seconds"]) % len(STAGES) == 0
    assert (data["seconds"] >= 0).all()
    assert data["seconds"].max() > 0
