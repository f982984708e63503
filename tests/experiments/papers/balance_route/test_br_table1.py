"""BalanceRoute Table 1 at its reduced size."""

from __future__ import annotations

import pytest
from tests.experiments.papers.quick import ours, quick

from evenstep.experiments.papers.balance_route import _balance_route as br
from evenstep.experiments.papers.balance_route.br_table1 import PAPER


@pytest.mark.slow
def test_all_methods_stand_beside_the_papers_numbers_on_both_workloads():
    found = quick("br-table1")
    spread = {r.case: r.paper for r in found.findings.rows if r.quantity == "heavy: average imbalance (max - min)"}
    assert spread == {m: v[0] for m, v in PAPER[br.HEAVY].items()}
    for kind in PAPER:
        said = f"{kind}: average imbalance (max - min)"
        assert ours(found, br.ORACLE, said) < ours(found, br.JSQ, said)
    assert len(found.findings.claims) == 12


@pytest.mark.slow
def test_a_trace_of_the_users_is_one_workload_without_the_papers_numbers():
    found = quick("br-table1", seeds=1, traces=("sample:burstgpt",))
    assert {r.quantity.partition(":")[0] for r in found.findings.rows} == {br.TRACE}
    assert all(r.paper is None for r in found.findings.rows)
    assert found.findings.stands_in.startswith("sample:burstgpt")
