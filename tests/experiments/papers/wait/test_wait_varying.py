"""The experiment wait-varying at its reduced size."""

import numpy as np
import pytest
from tests.experiments.papers.quick import apart, quick

from evenstep.experiments.papers.wait.wait_varying import FAMILIES, PROFILES


@pytest.mark.slow
def test_thresholds_that_follow_the_rate_serve_it_with_less_latency_than_those_of_its_mean():
    found = quick("wait-varying", seeds=4)
    for family in FAMILIES:
        assert apart(found, f"{family.name} for the mean, surge", "mean latency").low > 0
        for profile in PROFILES:
            for what in ("iterations", "energy"):
                assert apart(found, f"Sarathi on the types of {family.name}, {profile}", what).low > 0


def test_profiles_have_the_peak_and_the_mean_their_thresholds_are_for():
    assert max(PROFILES["sine"]) == pytest.approx(0.85, abs=0.01)
    assert np.mean(PROFILES["sine"]) == pytest.approx(0.5)
    for family in FAMILIES:
        for loads in PROFILES.values():
            policies = family.policies(loads)
            mean, peak = (policies[f"for the {name}"].thresholds for name in ("mean", "peak"))
            assert peak[0] > mean[0] and policies["solved anew"].solve_s > 0


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_arrivals_have_the_rate_of_their_phase(family):
    trace = family.trace((0.3, 0.6), 50.0, seed=0, replicate=0)
    counts = np.histogram(trace.column("arrival_s"), [0.0, 50.0, 100.0])[0]
    wanted = [50.0 * sum(family.types(load).arrivals_per_s) for load in (0.3, 0.6)]
    assert counts == pytest.approx(wanted, rel=0.06)
    assert counts.sum() == len(trace)
