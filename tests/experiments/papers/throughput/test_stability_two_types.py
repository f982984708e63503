"""Two types on one engine at their reduced size."""

import pytest
from tests.experiments.papers.quick import quick
from tests.sim.network.networks import example

from evenstep.experiments.papers.throughput._networks import Sides
from evenstep.experiments.papers.throughput.stability_two_types import CHATS, LINE, claim, network, rates
from evenstep.measure.comparison import Interval


def test_the_bundled_file_is_the_experiment_s_engine():
    bundled = example("two-types")
    assert bundled.engines == network().engines
    assert {name: task.calls for name, task in bundled.tasks.items()} == {
        name: task.calls for name, task in network().tasks.items()
    }


@pytest.mark.parametrize("chats", CHATS)
def test_rates_bring_the_tokens_of_the_line(chats):
    brought = rates(1.05, chats)
    assert 241 * brought.get("chat", 0) + 544 * brought.get("document", 0) == pytest.approx(1.05 * LINE)


@pytest.mark.slow
def test_the_engine_serves_the_line_at_every_point():
    found = quick("stability-two-types", seeds=3).findings
    missed = [row.ours for row in found.rows if row.quantity.startswith("tokens run")]
    assert len(missed) == len(CHATS)
    assert all(-0.5 < one.low <= one.high < 0.5 for one in missed)
    grows = [row.ours.value for row in found.rows if row.quantity.startswith("growth")]
    assert max(map(abs, grows)) < 1.5
    assert sum(map(abs, grows)) > 0


@pytest.mark.parametrize(
    ("share", "grows", "holds"), [(1.0, 0.0, True), (0.985, 0.0, False), (1.015, 0.0, False), (1.0, 0.01, False)]
)
def test_the_claim_fails_with_either_figure_of_any_point(share, grows, holds):
    def seen(served, growth):
        return Sides(Interval(served, served - 1, served + 1), Interval(growth, growth - 0.001, growth + 0.001))

    found = {("a", 0.0): seen(LINE, 0.0), ("a", 1.0): seen(share * LINE, grows), ("b", 0.0): seen(0.0, 1.0)}
    assert claim("a", found).holds is holds
