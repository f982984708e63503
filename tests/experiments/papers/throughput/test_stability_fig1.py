"""Largest stable rates at their reduced size, and the closed forms beside them."""

import math

import pytest
from tests.experiments.papers.quick import ours, quick

from evenstep.cost.token_budget import TokenBudget
from evenstep.experiments.papers.throughput._throughput import Alike
from evenstep.experiments.papers.throughput.stability_fig1 import capped, smooth


@pytest.mark.slow
def test_the_frontiers_lie_where_the_closed_forms_put_them():
    found = quick("stability-fig1")
    rate = "largest stable rate (closed form beside it)"
    wanted = {row.case: float(row.paper or 0) for row in found.findings.rows if row.quantity == rate}
    assert {"sarathi", "orca", "K_d = 64", "faster-transformer, groups of 8"} <= set(wanted)
    for case, closed in wanted.items():
        assert ours(found, case, rate) == pytest.approx(closed, rel=0.08), case
    vanilla = ours(found, "vanilla-vllm, 32/32", "largest stable rate")
    assert vanilla < 0.9 * ours(found, "sarathi, 32/32", rate)


def test_sarathi_keeps_up_just_below_its_capacity_and_not_above():
    alike = Alike("sarathi", TokenBudget(), prompt=129, output=112)
    assert alike.capacity_per_s == pytest.approx(25.35, abs=0.01)
    assert alike.stability(0.75 * alike.capacity_per_s, 2000.0, 0, 0).verdict == "stable"
    assert alike.stability(1.15 * alike.capacity_per_s, 300.0, 0, 0).verdict == "unstable"


def test_a_capped_rate_is_the_smooth_one_where_time_is_linear_and_less_around_the_knee():
    linear = Alike("sarathi", TokenBudget(c_s=0.01, a_s=1e-4, b0=0.0), prompt=129, output=112, token_budget=1 << 20)
    assert capped(linear, 64) == pytest.approx(smooth(linear, 64), rel=0.01)
    bent = Alike("sarathi", TokenBudget(), prompt=129, output=112)
    assert capped(bent, 64) < 0.95 * smooth(bent, 64)
    assert math.isclose(smooth(bent, 10_000), bent.capacity_per_s, rel_tol=0.01)
