"""Largest stable rates at their reduced size, and the closed forms beside them."""

import pytest
from tests.experiments.papers.quick import ours, quick

from evenstep.experiments.frontier import TOLERANCE, largest_rates
from evenstep.experiments.papers.throughput import stability_fig1
from evenstep.experiments.papers.throughput.stability_fig1 import FRONTIER, case
from evenstep.experiments.vocabulary import Setting, near
from evenstep.measure.comparison import Interval, mean_interval
from evenstep.measure.stability import stability

SEATED = "vanilla-vllm, 32/32, 256 seats"


@pytest.mark.slow
def test_the_frontiers_lie_where_the_closed_forms_put_them():
    found = quick("stability-fig1")
    wanted = {row.case: float(row.paper or 0) for row in found.findings.rows if row.quantity == FRONTIER}
    assert {"sarathi", "orca", "K_d = 64", "faster-transformer, groups of 8"} <= set(wanted)
    for name, closed in wanted.items():
        if "M =" in name:  # the formula takes memory as full; at full size it is 16 to 21 % too high
            assert 0.75 * closed < ours(found, name, FRONTIER) < 0.9 * closed
            assert ours(found, name, "error of the closed form") == pytest.approx(20, abs=7)
            continue
        if name != SEATED:  # too noisy at this size; below
            assert ours(found, name, FRONTIER) == pytest.approx(closed, rel=0.03), name
    assert ours(found, "vanilla-vllm, 32/32", FRONTIER) < 0.75 * ours(found, "sarathi, 32/32", FRONTIER)


@pytest.mark.slow
def test_vanilla_vllm_with_seats_keeps_up_with_what_its_closed_form_says_within_3_percent():
    """A replicate of 24,000 requests is off by 1 or 2 %, one of the 6,000 above by up to 4 %."""
    one = {SEATED: case("vanilla-vllm", prompt=32, output=32, batch_limit=256)}
    found = mean_interval(largest_rates(one, 24_000, 0.02, seed=0, seeds=8, processes=1)[SEATED].each)
    assert near(found, one[SEATED].closed.requests_per_s or 0.0, 0.03)


def test_the_lines_of_fig_1_are_judged_as_the_constants_say(monkeypatch):
    """They were judged by requests, against 1 % of the arrivals."""
    asked = []
    monkeypatch.setattr(stability_fig1, "stability", lambda run, **how: asked.append(how) or stability(run, **how))
    stability_fig1._path(Setting(quick=True), "sarathi", 2)
    assert asked == [{"unit": "tokens", "tolerance": TOLERANCE}]


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
