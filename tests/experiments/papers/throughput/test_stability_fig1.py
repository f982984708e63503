"""Largest stable rates at their reduced size, and the closed forms beside them."""

import pytest
from tests.experiments.papers.quick import ours, quick

from evenstep.experiments.papers.throughput.stability_fig1 import FRONTIER
from evenstep.experiments.vocabulary import near
from evenstep.measure.comparison import Interval


@pytest.mark.slow
def test_the_frontiers_lie_where_the_closed_forms_put_them():
    found = quick("stability-fig1")
    wanted = {row.case: float(row.paper or 0) for row in found.findings.rows if row.quantity == FRONTIER}
    assert {"sarathi", "orca", "K_d = 64", "faster-transformer, groups of 8"} <= set(wanted)
    for case, closed in wanted.items():
        if "M =" in case:  # the formula takes memory as full; at full size it is 16 to 21 % too high
            assert 0.75 * closed < ours(found, case, FRONTIER) < 0.9 * closed
            assert ours(found, case, "error of the closed form") == pytest.approx(20, abs=7)
            continue
        share = 0.06 if "vanilla" in case else 0.03
        assert ours(found, case, FRONTIER) == pytest.approx(closed, rel=share), case
    assert ours(found, "vanilla-vllm, 32/32", FRONTIER) < 0.75 * ours(found, "sarathi, 32/32", FRONTIER)


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        (Interval(25.4, 25.3, 25.5), True),
        (Interval(25.8, 15.8, 35.8), None),
        (Interval(25.4, 25.3, 25.8), None),
        (Interval(26.0, 25.8, 26.2), False),
        (Interval(25.0, 24.9, 25.1), False),
        (Interval(25.4, None, None), None),
    ],
)
def test_within_a_percent_is_said_of_the_whole_interval(ours, verdict):
    assert near(ours, 25.4, 0.01) is verdict
