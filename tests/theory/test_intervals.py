"""Competitive ratios: the figures the paper prints, and each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstep.errors import InputError
from evenstep.theory import intervals

ALPHA = st.floats(0.01, 1.0)


@given(ALPHA)
def test_bounds_are_in_order_and_one_where_nothing_is_uncertain(alpha):
    low, high = intervals.a_max_ratio(alpha)
    assert 1 <= low <= high
    assert 1 <= intervals.a_min_two_points(alpha) <= 1.5
    assert intervals.a_random_ratio(alpha) >= 1
    assert intervals.a_max_ratio(1.0) == (1.0, 1.0)


@pytest.mark.parametrize(("longest", "printed"), [(100, 2.33)])
def test_the_worst_mix_is_as_the_paper_prints_and_near_its_fit(longest, printed):
    worst, mix = intervals.a_min_worst(longest)
    assert worst == pytest.approx(printed, abs=0.005)
    assert worst == pytest.approx(intervals.a_min_fit(longest), rel=0.01)
    assert intervals.a_min_ratio(mix) == pytest.approx(worst)
    assert worst <= intervals.a_min_bound(longest)


@given(st.lists(st.floats(0.01, 5), min_size=6, max_size=6))
def test_no_mix_is_worse_than_the_worst(counts):
    assert intervals.a_min_ratio(np.array(counts)) <= intervals.a_min_worst(6)[0] * (1 + 1e-9)


def test_the_bound_is_the_trace():
    form, base = intervals.a_min_forms(7)
    assert np.trace(np.linalg.solve(base, form)) == pytest.approx(intervals.a_min_bound(7))


@pytest.mark.parametrize("q", [0.3, 0.6, 0.8])
def test_the_closed_form_of_the_weighted_geometric_law_is_the_quotient(q):
    k = np.arange(1, 401)
    assert intervals.a_min_ratio(k * q ** (k - 1.0)) == pytest.approx(intervals.a_min_weighted_geometric(q))
    assert intervals.a_min_weighted_geometric(1.0) == pytest.approx(14 / 9)


@given(ALPHA, st.floats(0, 1e3), st.floats(0.01, 1e3))
def test_a_ell_is_within_its_bound_on_every_mix_of_two_lengths(alpha, short, long):
    assert intervals.a_ell_ratio(alpha, short, long) <= intervals.a_ell_bound(alpha) * (1 + 1e-9)


def test_the_bounds_of_a_min_and_a_ell_cross_where_the_switch_is():
    from evenstep.scheduling.policies.alpha_switch import THRESHOLD

    assert intervals.a_ell_bound(THRESHOLD) == pytest.approx(intervals.a_min_two_points(THRESHOLD))
    assert intervals.a_ell_bound(THRESHOLD - 0.01) < intervals.a_min_two_points(THRESHOLD - 0.01)


def test_ratios_out_of_range_are_refused():
    for call in (intervals.a_max_ratio, intervals.a_ell_bound):
        for alpha in (0.0, 1.5):
            with pytest.raises(InputError, match="alpha"):
                call(alpha)
    with pytest.raises(InputError, match="q"):
        intervals.a_min_weighted_geometric(1.5)


@given(st.floats(0.01, 0.99), st.floats(0, 1e3))
def test_the_instance_of_theorem_3_4_stays_below_the_bound_it_is_to_prove(alpha, mix):
    assert intervals.a_max_on_instance(alpha, mix) < intervals.a_max_ratio(alpha)[0]
    assert intervals.a_max_on_instance(alpha, 1.0) == pytest.approx(1 / alpha)
    assert intervals.a_max_on_instance(1.0, mix) == pytest.approx(1)


def test_bounds_by_hand():
    """alpha = 1/4: (1 + 2) / (1/2) and (1 + 4) / (1/2); (1 + 4) / 2; (3 - 1/4) / 2; 1 + (1/4) / (3/2). A ninth: 4 / (2/9), ..."""
    assert intervals.a_max_ratio(1 / 4) == (6.0, 10.0)
    assert intervals.a_max_ratio(1 / 9) == pytest.approx((18.0, 45.0))
    assert intervals.a_random_ratio(1 / 4) == 2.5 and intervals.a_random_ratio(1 / 9) == pytest.approx(5.0)
    assert intervals.a_min_two_points(1 / 4) == 1.375
    assert intervals.a_ell_bound(1 / 4) == pytest.approx(7 / 6) and intervals.a_ell_bound(3 / 4) == pytest.approx(17 / 8)
    assert intervals.a_ell_bound(1 / 2) == pytest.approx(1.5) and intervals.a_min_fit(1) == pytest.approx(1.22163, abs=1e-5)
    assert intervals.a_max_on_instance(1 / 4, 1 / 2) == pytest.approx((0.75 * 1.5) / (0.25 * 1.5))
    assert intervals.a_ell_ratio(1 / 2, 2, 3) == pytest.approx(1 + (1.5 + 4.5) / (1 + 3 + 9))
    assert intervals.a_min_bound(4) == pytest.approx(25 / 12)


def test_the_general_form_by_hand():
    """s = 1, l = 2, outputs 2 and 3, one of each: at k = 2, d = 3: (2 + 3) (3/3 + 3/4 + 2 * 1/4) * 3; at k = 3: 3 * 1/4.

    Below: 2 * 3 * (1 + 2) + 3 * 4.
    """
    mix = np.array([0.0, 1.0, 1.0])
    assert intervals.a_min_mixed(mix, 1, 2) == pytest.approx((3 * 5 * 2.25 + 3 * 0.25) / (18 + 12))
    assert intervals.a_min_mixed(np.array([9.0, 1.0, 1.0]), 1, 2) == intervals.a_min_mixed(mix, 1, 2)


@given(st.lists(st.floats(0.01, 5), min_size=2, max_size=9))
def test_without_prompts_the_general_form_is_the_quotient(counts):
    assert intervals.a_min_mixed(np.array(counts), 0, 1) == pytest.approx(intervals.a_min_ratio(np.array(counts)))


@pytest.mark.parametrize("lower", [0, 1.5, 3])
def test_a_lower_bound_outside_the_outputs_is_refused(lower):
    with pytest.raises(InputError, match="lower"):
        intervals.a_min_mixed(np.ones(2), 1, lower)


@pytest.mark.parametrize("longest", [1, 2, 9, 60])
def test_the_worst_mix_is_the_pencil_s_largest_eigenvector(longest):
    import scipy.linalg

    form, base = intervals.a_min_forms(longest)
    worst, mix = intervals.a_min_worst(longest)
    assert worst == pytest.approx(float(scipy.linalg.eigh(form, base)[0][-1]), rel=1e-12)
    assert np.abs(form @ mix - worst * base @ mix).max() < 1e-9 * np.abs(form @ mix).max()
