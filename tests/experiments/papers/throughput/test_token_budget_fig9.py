"""Token budgets at their reduced size."""

import pytest
from tests.experiments.papers.quick import ours, quick

from evenstep.experiments.papers.throughput.token_budget_fig9 import BUDGETS, LAWS


@pytest.mark.slow
def test_every_budget_is_measured_under_both_laws_and_attention_costs_time():
    found = quick("token-budget-fig9")
    metric = "end-to-end, median"
    for budget in BUDGETS:
        plain, long = (ours(found, f"b = {budget}, load 0.7, {law}", metric) for law in LAWS)
        assert plain < long
    assert len(found.findings.claims) == 2 * len(LAWS)
