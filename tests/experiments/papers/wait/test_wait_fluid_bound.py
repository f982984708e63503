"""Proposition 2 at a reduced size."""

import pytest
from matplotlib.figure import Figure
from tests.experiments.papers.quick import quick

from evenstep import names
from evenstep.experiments.papers.wait import wait_fluid_bound
from evenstep.experiments.reproduce import Setting


def test_a_policy_that_keeps_up_reaches_the_fluid_throughput_and_none_is_above():
    found = quick("wait-fluid-bound", seeds=4)
    shares = {row.case: row.ours for row in found.findings.rows}
    assert 0.85 < shares["sarathi, load 0.9"].value < 1.01
    assert all(share.high < 1.01 for share in shares.values())


def test_the_legend_names_only_the_loads_that_ran():
    """The reduced size has one load of three, and the legend showed all."""
    figure = Figure()
    quick("wait-fluid-bound").findings.draw(figure)
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["load 0.9"]


@pytest.mark.parametrize("name", ["a-max", "a-ell"])
def test_policies_that_plan_with_bounds_are_given_true_ones_and_keep_up(name):
    """Without bounds they reach 4.5 to 8 % of the fluid throughput, and a comparison with it tests nothing."""
    found = wait_fluid_bound.shares(name, 0.7, 2_000, Setting(seeds=2))
    assert all(0.85 < share < 1.05 for share in found)


def test_the_full_size_runs_every_policy_of_the_library_at_three_loads(monkeypatch):
    seen = []
    monkeypatch.setattr(wait_fluid_bound, "shares", lambda name, load, *_: seen.append((name, load)) or [0.9, 0.91])
    wait_fluid_bound.experiment.run(Setting(seeds=2))
    assert seen == [(name, load) for name in names.members("scheduling") for load in (0.5, 0.7, 0.9)]


def test_memory_is_what_the_proposition_needs():
    assert wait_fluid_bound.MEMORY >= 1
