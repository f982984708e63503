"""The instance of Propositions 4 and 5."""

import math

import numpy as np
import pytest
from tests.experiments.papers.quick import quick

from evenstep.experiments.papers.wait.wait_fcfs_gap import CONSTANT, OVERFLOWS, POLICIES, poisson, trials
from evenstep.measure.comparison import share_interval


def test_the_probability_is_that_of_the_arrivals_that_do_not_fit():
    fits = {(0, 0), (1, 0), (0, 1), (1, 1), (2, 0)}
    chance = sum(math.exp(-2) / math.factorial(a) / math.factorial(b) for a, b in fits)
    assert 1 - chance == pytest.approx(OVERFLOWS) == pytest.approx(0.391, abs=5e-4)


def test_numbers_are_poisson():
    drawn = np.array(poisson(0, 20_000, 0))
    assert drawn.mean() == pytest.approx(1.0, abs=0.03) and drawn.var() == pytest.approx(1.0, abs=0.05)


def test_simulated_trials_overflow_as_often_and_more_often_with_later_arrivals_at_random():
    count = 3_000
    letter, chance = (share_interval(trials(count, 1, is_random), count) for is_random in (False, True))
    assert letter.low <= OVERFLOWS <= letter.high
    assert chance.low > letter.high


def test_the_queue_grows_under_fcfs_and_not_as_fast_as_claimed():
    rows = quick("wait-fcfs-gap", seeds=6).findings.rows
    growth = {r.case: r.ours for r in rows if r.quantity.startswith("growth")}
    assert 0.1 < growth["FCFS"].low < growth["FCFS"].high < 0.2
    assert growth["WAIT"].high < 0.05


def test_the_gap_stays_for_policies_that_do_not_know_types_and_shrinks_for_wait():
    """Over four times the horizon a constant share stays 1, one over its root halves."""
    found = quick("wait-fcfs-gap", seeds=8).findings
    stays = {r.case: r.ours for r in found.rows if r.quantity.startswith("gap over")}
    assert all(stays[name].low > CONSTANT for name in POLICIES if name != "WAIT") and len(stays) == 4
    assert stays["WAIT"].high < 0.95
    assert [claim.holds for claim in found.claims if "constant share" in claim.says] == [True] * 3
