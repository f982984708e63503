"""BalanceRoute Table 2 at its reduced size."""

from __future__ import annotations

from tests.experiments.papers.quick import ours, quick

from evenstep.experiments.papers.balance_route import _balance_route as br
from evenstep.experiments.papers.balance_route.br_table2 import PAPER, _paper_gain


def test_gains_over_the_best_baseline_are_beside_those_of_the_papers_tables():
    found = quick("br-table2")
    gains = {
        r.case: r.paper for r in found.findings.rows if r.quantity == f"throughput of {br.ORACLE} over the best baseline"
    }
    assert gains == {"G = 4": 13.3, "G = 8": 21.5}
    assert _paper_gain(16, br.ORACLE) == 34.5
    assert ours(found, br.ORACLE, "G = 8: spread") < ours(found, br.JSQ, "G = 8: spread")


def test_the_papers_tables_agree_at_eight_workers():
    from evenstep.experiments.papers.balance_route.br_table1 import PAPER as ONE

    for method, numbers in PAPER[8].items():
        assert numbers[0] == ONE[br.HEAVY][method][0]
