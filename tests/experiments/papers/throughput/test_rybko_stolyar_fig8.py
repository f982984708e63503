"""The Rybko-Stolyar network at its reduced size."""

from dataclasses import replace

import numpy as np
import pytest
from tests.experiments.papers.quick import ours, quick
from tests.sim.network.networks import example

from evenstep.experiments.papers.throughput.rybko_stolyar_fig8 import FLUID, LAST, ORDERS, Path, claims, network

FIRST, SECOND = ORDERS


def test_the_bundled_file_is_the_paper_s_network():
    assert replace(example("rybko-stolyar"), name="", description="") == network()


def test_work_grows_along_the_fluid_path_under_one_order_only():
    found = quick("rybko-stolyar-fig8")
    assert pytest.approx(0.8619, abs=1e-4) == FLUID
    assert ours(found, FIRST, "load of the virtual station") == pytest.approx(1.6105, abs=1e-3)
    grown = ours(found, FIRST, "growth of the tasks (fluid model beside it)")
    assert grown == pytest.approx(FLUID, rel=0.05)
    assert ours(found, FIRST, "tokens in both agents at the end") > 6
    assert abs(ours(found, SECOND, "growth of the calls over the arrivals")) < 0.2
    for agent in (1, 2):
        assert 50 < ours(found, SECOND, f"mean requests in agent {agent}, last {LAST:,} slots") < 95


def test_the_last_slots_are_those_that_the_paper_shows():
    times = np.linspace(50, 100_000, 2000)
    one = Path(times, np.zeros((2000, 2), np.int64), np.zeros((2000, 2), np.int64), 0.0, 0.0)
    assert one.last(one.requests).shape == (70, 2)


@pytest.mark.parametrize(
    ("growth", "tokens", "drift", "held", "verdicts"),
    [
        (FLUID, 2e6, 0.0, 90, [True, True, True, True, True]),
        (0.8 * FLUID, 2e6, 0.0, 90, [False, True, True, True, True]),
        (FLUID, 8e5, 0.0, 90, [True, False, True, True, True]),
        (FLUID, 2e6, 0.01, 90, [True, True, False, True, True]),
        (FLUID, 2e6, 0.0, 103, [True, True, True, False, True]),
        (FLUID, 2e6, 0.0, 11_000, [True, True, True, False, False]),
    ],
)
def test_each_claim_fails_on_its_own_figure(growth, tokens, drift, held, verdicts):
    def path(of_growth, of_drift, at_end, seed):
        level = np.full((100, 2), at_end, np.int64) + seed
        return Path(np.linspace(1000, 100_000, 100), level, level, of_growth, of_drift)

    paths = {
        FIRST: [path(growth + 1e-3 * k, 0.3, tokens / 2, k) for k in range(3)],
        SECOND: [path(0.0, drift + 1e-5 * k, held, k) for k in range(3)],
    }
    assert [claim.holds for claim in claims(paths)] == verdicts
