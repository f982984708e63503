"""The experiment wait-rates at its reduced size."""

import numpy as np
import pytest
from tests.experiments.papers.quick import ours, quick

from evenstep.experiments.papers.wait.wait_rates import FAMILIES


@pytest.mark.slow
def test_thresholds_that_follow_the_rate_serve_it_with_less_latency_than_those_of_the_first():
    found = quick("wait-rates")
    for family in FAMILIES:
        solved = ours(found, f"{family.name} solved anew", "mean latency")
        assert solved < ours(found, f"{family.name} for the first rate", "mean latency")


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_arrivals_have_the_rate_of_their_phase(family):
    trace = family.trace((0.3, 0.6), 50.0, seed=0, replicate=0)
    counts = np.histogram(trace.column("arrival_s"), [0.0, 50.0, 100.0])[0]
    wanted = [50.0 * sum(family.types(load).arrivals_per_s) for load in (0.3, 0.6)]
    assert counts == pytest.approx(wanted, rel=0.06)
    assert counts.sum() == len(trace)
