"""A_min as the proof of Lemma 4.6 has it: what it does by hand, and that it alone has the printed completions."""

from dataclasses import replace

import numpy as np
import pytest

from evenstep.experiments.papers.interval._a_min_of_proof import AMinOfProof
from evenstep.experiments.papers.interval.interval_instances import engine_run
from evenstep.experiments.papers.interval.interval_ratio import Case, _at_first, _completed, _later, even
from evenstep.scheduling.checks import check
from evenstep.scheduling.policies.a_min import AMin
from evenstep.scheduling.policies.h_sf import HindsightShortestFirst
from evenstep.theory import intervals

COUNT = 20_000


def gap(case, shares):
    """The largest gap of a share to the one printed, over outputs and periods."""
    every = _at_first(case, [shares[case.lower, 1:]]) + _later(case, [shares])
    return max(abs(own[0] - printed) for own, printed in every)


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["grown", "any"])
def test_the_control_keeps_the_promises_of_all_policies(victim):
    assert [one for one in check(AMinOfProof(victim=victim)) if not one.passed] == []


def test_freed_memory_goes_to_the_queue_and_growth_is_evicted():
    """Two of three fit. Where the long one runs first, the short one that waits takes what the other short one leaves."""
    output = np.array([1, 3, 1])
    low, high = np.full(3, 1), np.full(3, 3)

    def evicted(policy, seed):
        return engine_run(policy, output, (low, high), 4, seed).requests.evictions.tolist()

    seen = {tuple(evicted(AMinOfProof(), seed)) for seed in range(12)}
    assert seen == {(0, 0, 0), (0, 1, 0)}
    assert all(evicted(AMin(), seed) == [0, 0, 0] for seed in range(12))


@pytest.mark.parametrize("case", [even(0, 1, 4), even(5, 3, 6)])
def test_the_control_has_the_printed_completions_and_ratio(case):
    case = replace(case, times=200)
    latency, shares = case.as_proved("grown", COUNT, 0)
    assert gap(case, shares) < 0.02
    best = case.latencies(HindsightShortestFirst(), COUNT, 0)[0]
    assert latency / best == pytest.approx(intervals.a_min_mixed(case.mix, case.prompt, case.lower), rel=0.02)


@pytest.mark.parametrize("case", [even(0, 1, 4), even(5, 3, 6)])
def test_neither_algorithm_2_nor_its_victims_have_the_printed_completions(case):
    case = replace(case, times=200)
    assert gap(case, case.as_proved("any", COUNT, 0)[1]) > 0.05
    assert gap(case, case.completions(2_000, 0)) > 0.05


@pytest.mark.parametrize("victim", ["grown", "any"])
def test_requests_of_one_output_survive_as_lemma_4_4_says(victim):
    """All requests start together. Then the share (s + l) / (s + j) reaches j under either choice of victims."""
    case = Case(10, 4, np.eye(8)[7], times=200)
    latency, shares = case.as_proved(victim, COUNT, 0)
    assert shares[4, 8] == pytest.approx(14 / 18, abs=0.02)
    assert latency == pytest.approx(case.hindsight(COUNT), rel=0.05)


def test_completions_that_the_control_counts_are_those_of_the_record():
    """Requests that were never evicted end in the first period; every request ends in one, none after its output."""
    case = even(2, 2, 10)
    shares = case.as_proved("grown", COUNT, 0)[1]
    kept = case.latencies(AMinOfProof(), COUNT, 0)[1]
    assert shares[case.lower, 1:] == pytest.approx(kept, abs=1e-12)
    assert shares.sum(axis=0)[case.outputs] == pytest.approx(1) and (shares >= 0).all()
    assert np.tril(shares, -1).sum() == 0 and shares[: case.lower].sum() == 0


def test_a_gap_of_more_than_a_hundredth_is_no_completion_as_printed():
    printed = [([0.5, 0.5], 0.5), ([0.1, 0.1], 0.1)]
    assert _completed("", [printed]).holds is True
    assert _completed("", [[*printed, ([0.109, 0.109], 0.1)]]).holds is True
    assert _completed("", [[*printed, ([0.111, 0.111], 0.1)]]).holds is False
    assert _completed("", [[*printed, ([0.10, 0.12], 0.1)]]).holds is None
