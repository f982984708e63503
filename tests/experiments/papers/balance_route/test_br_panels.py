"""BalanceRoute's galleries at their reduced size."""

from __future__ import annotations

from tests.experiments.papers.quick import ours, quick

from evenstep.experiments.papers.balance_route import _balance_route as br
from evenstep.experiments.papers.balance_route.br_panels import galleries
from evenstep.experiments.reproduce import Setting


def test_every_panel_has_its_mean_spread_and_its_lines_in_the_data():
    found = quick("br-panels", seeds=1)
    assert len(found.findings.rows) == len(set(found.findings.data["panel"])) == 5
    case = "Fig. 10, heavy, G = 4: "
    assert ours(found, case + br.ORACLE, "mean spread") < ours(found, case + br.JSQ, "mean spread")


def test_the_full_size_has_every_gallery_of_the_paper_with_its_numbers():
    full = galleries(Setting())
    assert [(g.kind, g.workers) for g in full] == [
        (br.HEAVY, 8),
        (br.NEAR_CAP, 8),
        (br.HEAVY, 4),
        (br.HEAVY, 16),
        (br.HEAVY, 8),
        (br.HEAVY, 16),
    ]
    assert all(set(g.paper) == set(g.methods) for g in full)


def test_a_trace_of_the_users_is_called_a_trace_and_runs_once_at_every_size():
    given = galleries(Setting(traces=("x.csv",)))
    assert [(g.kind, g.workers) for g in given] == [(br.TRACE, g) for g in (8, 4, 16, 8, 16)]
    assert given[0].title == "Figs. 3, 6, 8" and not any(one.paper for one in given)
    assert {g.kind for g in galleries(Setting(quick=True, traces=("x.csv",)))} == {br.TRACE}
