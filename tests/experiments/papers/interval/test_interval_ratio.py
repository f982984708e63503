"""Interval scheduling's competitive ratios at their reduced size."""

import numpy as np
import pytest
from tests.experiments.papers.quick import ours, quick

from evenstep.experiments.papers.interval import interval_ratio
from evenstep.experiments.papers.interval.interval_ratio import (
    CASES,
    Case,
    _at_first,
    _completed,
    _later,
    even,
    fitted,
    geometric,
    random_case,
    two_points,
)
from evenstep.experiments.reproduce import Setting
from evenstep.scheduling.policies.a_min import AMin
from evenstep.scheduling.policies.h_sf import HindsightShortestFirst
from evenstep.theory import intervals


@pytest.mark.slow
def test_closed_forms_hold_whatever_the_size_and_the_simulated_ratio_is_not_the_closed_form():
    found = quick("interval-ratio")
    held = {claim.says: claim.holds for claim in found.findings.claims}
    assert held["Fig. 1: a fit of this form has R^2 > 0.9999"]
    assert all(holds for says, holds in held.items() if says.startswith(("Theorem 5.1", "Theorem 5.2")))
    assert held["Lemma 4.6: A_min's ratio is the closed form's (within 2%)"] is False
    assert ours(found, "Fig. 1, u = 1,000", "CR(A_min)") == pytest.approx(2.92392, abs=1e-5)
    bounded = [row for row in found.findings.rows if str(row.paper).startswith("<= ")]
    assert len(bounded) == 12 + 6 and all(row.ours.value <= float(row.paper[3:]) for row in bounded)


def test_completions_are_counted_for_every_output_and_period_and_are_not_the_proposition_s():
    """Every request ends in one period, none before l or after its output, and the first has those never evicted."""
    case = even(2, 2, 10)
    count = case.enough(3)
    shares = case.completions(count, 0)
    assert shares.sum(axis=0)[case.outputs] == pytest.approx(1)
    assert np.tril(shares, -1).sum() == 0 and shares[: case.lower].sum() == 0 and shares[case.lower + 1 :].sum() > 0.1
    kept = case.latencies(AMin(), count, 0)[1]
    assert (shares[case.lower, 1:] >= kept).all() and shares[case.lower, 1:] == pytest.approx(kept, abs=0.03)
    assert len(_at_first(case, [kept])) == 9 and len(_later(case, [shares])) == 9 * 8 // 2
    assert _completed("", [_at_first(case, [kept] * 2)]).holds is False
    assert _completed("", [_later(case, [shares] * 2)]).holds is False


def test_random_mixes_have_the_sizes_that_the_constants_name(monkeypatch):
    cases = [random_case(seed, draw) for seed in range(20) for draw in range(40)]
    assert {len(case.outputs) for case in cases} == set(range(2, 10))
    assert max(case.mix.size for case in cases) == 12
    for part in ("_lemma", "_proof", "_periods", "_random", "_search"):
        monkeypatch.setattr(interval_ratio, part, lambda setting, values: ([], []))
    monkeypatch.setattr(interval_ratio, "_figures", lambda: ([], []))
    constants = {one.name: one.value for one in interval_ratio.experiment.run(Setting()).constants}
    assert constants["Theorem 4.2"] == "24 random mixes of 2 to 9 outputs, up to 12 tokens"


def test_completions_as_the_proposition_prints_them_would_hold():
    case = even(2, 2, 10)
    printed = np.array([[1 / (2 + max(j, 1)) if 2 < i <= j else 0.0 for j in range(11)] for i in range(11)])
    kept = np.array([4 / (2 + j) for j in range(1, 11)])
    assert _completed("", [_at_first(case, [kept] * 2), _later(case, [printed] * 2)]).holds is True
    for place in (2, 5, 9):
        off = kept + np.where(np.arange(10) == place, 0.02, 0.0)
        assert _completed("", [_at_first(case, [off] * 2)]).holds is False
    printed[7, 9] = 0.0
    assert _completed("", [_later(case, [printed] * 2)]).holds is False


def test_the_fit_of_figure_1_and_the_laws_of_figure_3():
    (a, _, c), square = fitted()
    assert a == pytest.approx(0.2605, abs=1e-4) and c == pytest.approx(1.1357, abs=1e-4) and 0.9999 < square < 1
    assert geometric(0.5) == pytest.approx(1.55606, abs=1e-5)
    assert geometric(0.9, weighted=True) == pytest.approx(intervals.a_min_weighted_geometric(0.9))
    assert two_points(1, 4) == pytest.approx(intervals.a_min_two_points(1 / 4), rel=1e-3)


def test_hindsight_takes_as_long_as_the_proof_of_the_lemma_says():
    case = even(5, 3, 6)
    count = case.enough(25)
    assert case.hindsight(count) == pytest.approx(25 * 6, rel=1e-3)
    assert case.latencies(HindsightShortestFirst(), count, 0)[0] == pytest.approx(case.hindsight(count), rel=0.02)


def test_cases_have_outputs_in_their_intervals_and_as_many_as_asked():
    for case in (*CASES, *(random_case(0, draw) for draw in range(20))):
        output = case.output(1000)
        assert case.lower <= output.min() and output.max() == case.mix.size and abs(output.size - 1000) < 20
        assert case.memory == 100 * (case.prompt + case.mix.size)
    assert Case(0, 1, np.array([3.0, 1.0])).output(8).tolist() == [1] * 6 + [2] * 2
