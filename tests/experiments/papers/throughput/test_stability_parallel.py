"""Parallel engines at their reduced size."""

from dataclasses import replace

import pytest
from tests.experiments.papers.quick import quick
from tests.sim.network.networks import example

from evenstep.experiments.papers.throughput._networks import Sides
from evenstep.experiments.papers.throughput.stability_parallel import LIMIT, ROUTINGS, claim, pool
from evenstep.measure.comparison import Interval


def test_the_bundled_file_is_the_experiment_s_pool():
    bundled = example("k-parallel")
    assert bundled.engines == pool().engines
    assert bundled.tasks["chat"].calls == pool().tasks["chat"].calls


@pytest.mark.slow
def test_every_routing_policy_serves_the_sum_and_a_hot_key_does_not():
    found = quick("stability-parallel", seeds=3).findings
    missed = [row.ours for row in found.rows if row.quantity.startswith("served")]
    assert len(missed) == len(ROUTINGS)
    assert all(-0.5 < one.low <= one.high < 0.5 for one in missed)
    grows = [row.ours.value for row in found.rows if row.quantity.startswith("growth of the calls at")]
    assert max(map(abs, grows)) < 1
    hot, others = (row.ours for row in found.rows if "hot key" in row.case)
    assert hot.value == pytest.approx(100 * (1 - LIMIT / 4 / 37.5), abs=6)  # 30 hot requests and a fourth of 30 cold ones
    assert abs(others.value) < 1
    assert found.claims[-1].says.endswith("at 0.59 of the summed load")


@pytest.mark.parametrize(
    ("share", "grows", "holds"), [(1.0, 0.0, True), (0.985, 0.0, False), (1.015, 0.0, False), (1.0, 0.01, False)]
)
def test_a_claim_fails_with_either_figure_of_any_order(share, grows, holds):
    def seen(served, growth):
        return Sides(Interval(served, served - 0.01, served + 0.01), Interval(growth, growth - 0.001, growth + 0.001))

    found = {("random", "a"): seen(LIMIT, 0.0), ("random", "b"): seen(share * LIMIT, grows), ("other", "a"): seen(0.0, 1.0)}
    assert claim("random", found).holds is holds
    assert (
        claim("random", found | {("random", "b"): replace(seen(LIMIT, 0.0), grows=Interval(0.0, -1.0, 1.0))}).holds is None
    )
