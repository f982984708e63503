"""The fork-join network at its reduced size."""

from dataclasses import replace

import numpy as np
import pytest
from tests.experiments.papers.quick import ours, quick
from tests.sim.network.networks import example

from evenstep.experiments.papers.throughput._networks import ABOVE
from evenstep.experiments.papers.throughput.fork_join import BELOW, Agents, claims, network
from evenstep.measure.comparison import Interval

CASES = tuple(f"sarathi, load {load:g}" for load in (BELOW, ABOVE))


def growth(agent: int) -> str:
    return f"growth of the calls in agent {agent}, over the arrivals there"


def test_the_bundled_file_is_the_experiment_s_network():
    assert replace(example("fork-join"), name="", description="") == network()


@pytest.mark.slow
def test_only_the_first_agent_grows_and_only_above_the_load():
    found = quick("fork-join", seeds=3)
    below, above = CASES
    assert all(abs(ours(found, below, growth(agent))) < 0.5 for agent in range(4))
    assert ours(found, above, growth(0)) == pytest.approx(100 * (1 - 1 / ABOVE), abs=2)
    assert all(abs(ours(found, above, growth(agent))) < 0.5 for agent in (1, 2, 3))
    assert ours(found, below, "tasks that are not done at the end") < 1000


@pytest.mark.parametrize(
    ("last", "first", "verdicts"),
    [(0.0, 0.05, [True, True]), (0.01, 0.05, [False, True]), (0.0, 0.01, [True, False]), (0.005, 0.024, [None, None])],
)
def test_an_agent_that_grows_below_the_load_fails_and_so_does_one_that_keeps_up_above(last, first, verdicts):
    def agents(*grows):
        each = tuple(Interval(one, one - 0.002, one + 0.002) for one in grows)
        return Agents(each, Interval(700.0, 690.0, 710.0), np.zeros(1), ())

    found = {("sarathi", BELOW): agents(0.0, 0.0, 0.0, last), ("sarathi", ABOVE): agents(first, 0.0, 0.0, 0.0)}
    assert [claim.holds for claim in claims("sarathi", found)] == verdicts
