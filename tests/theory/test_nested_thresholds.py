"""Thresholds of Nested WAIT: roots, bounds, and what a simulated queue does."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstep.errors import InputError
from evenstep.theory.fluid import Types
from evenstep.theory.nested_thresholds import (
    doubts,
    enough_memory,
    go_on,
    queue_at_most,
    segment_work,
    solve,
    theta,
    with_slack,
)


def theta_at_least(above, own, share):
    """8 (n_i - n_{i-1} p) / n_{i-1}: eq. 18, Hoeffding's bound."""
    return 8 * (own - above * share) / above


TYPES = Types((300.0, 200.0, 100.0), (20, 20, 20), (10, 20, 40), 0.01, 1e-6)


def test_the_root_the_slips_were_found_by():
    assert theta(10, 2, 0.1) == pytest.approx(1.509, abs=5e-4)
    assert theta_at_least(10, 2, 0.1) == pytest.approx(0.8)


@given(st.integers(2, 60), st.floats(0.02, 0.9), st.data())
def test_theta_is_the_root_and_above_its_lower_bound(above, share, data):
    least = math.floor(share * above) + 1
    if least >= above:
        return
    own = data.draw(st.integers(least, above - 1))
    if own - share * above < 1e-3:
        return
    root = theta(above, own, share)
    assert above * math.log1p(share * math.expm1(root)) == pytest.approx(own * root, rel=1e-9, abs=1e-9)
    assert root >= theta_at_least(above, own, share) * (1 - 1e-9)


def test_roots_that_can_be_worked_out():
    """(3/4 + z/4)^10 = z^5 is (3/4 + z/4)^2 = z, whose roots are 1 and 9."""
    assert theta(10, 5, 0.25) == pytest.approx(math.log(9))
    assert theta(10, 5, 0.0) == math.inf
    assert theta(1000, 999, 1e-3) == pytest.approx(1000 * math.log(1000))


def test_eq_12_by_hand():
    """theta_2 = ln 9; with (m - 1) S / delta = 81 the queue of segment 2 is 5 + 2, and that of segment 3 one feed of 5."""
    two = Types((300.0, 100.0), (20, 20), (10, 30), 0.01, 0.0)
    assert segment_work(two).tolist() == [20 + 10 * 25.5, 20 * 40.5]
    full = 10 * 275 + 5 * 810
    assert enough_memory(two, np.array([10, 5]), 8.1, 0.1) == pytest.approx(full + 30 * (5 + 2))
    three = Types((12.0, 3.0, 1.0), (20, 20, 20), (10, 30, 40), 0.01, 0.0)
    full += 5 * 10 * 55.5
    assert enough_memory(three, np.array([10, 5, 5]), 4.05, 0.1) == pytest.approx(full + 30 * (5 + 2) + 50 * 5)


def test_kingmans_bound_by_hand():
    assert queue_at_most(10, 5, 0.25) == pytest.approx(5 + 10 * 0.1875 / (2 * 2.5))


def test_thresholds_by_hand():
    """T = 1 s: 10 arrivals, 11; 11 / 4 = 2.75, or with a slack of 2 standard deviations 2.75 + 2 sqrt(11 * 3 / 16) = 5.62."""
    types = Types((7.5, 2.5), (20, 20), (10, 30), 1.0, 0.0)
    assert with_slack(types, 0.0, iterations=1.0, delta=0.1).thresholds.tolist() == [11, 3]
    assert with_slack(types, 2.0, iterations=1.0, delta=0.1).thresholds.tolist() == [11, 6]


def test_a_segment_that_takes_less_than_reaches_it_has_no_root():
    assert theta(5, 5, 0.5) == math.inf
    with pytest.raises(InputError, match="n_i"):
        theta(10, 5, 0.5)


def test_the_work_of_the_segments_adds_up_to_that_of_the_longest_type():
    assert segment_work(TYPES).sum() == pytest.approx(TYPES.work[-1])
    assert go_on(TYPES.arrivals_per_s).tolist() == pytest.approx([0.5, 1 / 3])


def test_a_simulated_segment_stays_below_its_bounds():
    above, own, share, iterations, delta = 12, 5, 0.3, 20_000, 0.05
    rng = np.random.default_rng(3)
    allowed = own + math.log(iterations / delta) / theta(above, own, share)
    over, means = 0, []
    for _ in range(40):
        feed = rng.binomial(above, share, iterations) - own
        walk = np.concatenate([[0], np.cumsum(feed)])
        queue = walk - np.minimum.accumulate(walk)
        over += int((queue + own).max() > allowed)
        means.append((queue + own).mean())
    assert over / 40 <= delta + 0.1
    assert np.mean(means) <= queue_at_most(above, own, share)


@given(st.floats(0, 3))
def test_solved_thresholds_satisfy_eq_10_and_slack_only_adds(kappa):
    found, tight = (with_slack(TYPES, k, iterations=1e6, delta=0.01) for k in (kappa, 0.0))
    assert not doubts(TYPES, found.thresholds, found.kv_tokens)
    assert (found.thresholds >= tight.thresholds).all()
    assert found.enough_kv_tokens == enough_memory(TYPES, found.thresholds, 1e6, 0.01) >= found.kv_tokens


def test_the_best_slack_needs_the_least_memory():
    best = solve(TYPES)
    others = [with_slack(TYPES, k, iterations=1e6, delta=0.01).enough_kv_tokens for k in (0.0, 1.0, 3.0)]
    assert best.enough_kv_tokens <= min(others)
    assert best.ends.tolist() == [10, 20]


def test_thresholds_of_equality_and_memory_that_is_short_are_told():
    said = doubts(TYPES, np.array([12, 6, 2]), 100.0)
    assert said[:2] == ["n_2 / n_1 is 6 / 12; it has to be above 0.5", "n_3 / n_2 is 2 / 6; it has to be above 0.3333"]
    assert said[2].startswith("a full batch") and len(said) == 3


def test_types_that_are_not_nested_or_an_engine_that_is_overrun_are_refused():
    with pytest.raises(InputError, match="prompt_tokens"):
        solve(Types((1.0, 1.0), (10, 20), (10, 20), 0.01, 0.0))
    with pytest.raises(InputError, match="output_tokens"):
        solve(Types((1.0, 1.0), (10, 10), (20, 10), 0.01, 0.0))
    with pytest.raises(InputError, match="load"):
        solve(Types((1000.0, 1000.0), (10, 10), (10, 20), 0.01, 1e-3))


def test_doubts_by_hand():
    """A batch of 8 and 2 holds 8 * 275 + 2 * 810, and 180 of others: 4,000 KV tokens, 5 s; 8 arrive in .8 s."""
    types = Types((7.5, 2.5), (20, 20), (10, 30), 1.0, 0.001)
    late = "an iteration takes 5 s, no less than the 0.8 s in which 8 requests arrive"
    few = "n_2 / n_1 is 2 / 8; it has to be above 0.25"
    full = "a full batch holds 4000 KV tokens, the memory 3999: the gates may block"
    assert doubts(types, np.array([8, 2]), 3999.0, beside=180.0) == [late, few, full]
    assert doubts(types, np.array([8, 2]), 4000.0, beside=180.0, is_timed=False) == [few]
    assert doubts(Types((10.0,), (20,), (10,), 1.0, 0.0), np.array([10]), math.inf)[0].startswith("an iteration takes 1 s")


def test_a_refusal_names_the_load():
    """1000 * (11 * 15 + 21 * 20) KV token-iterations arrive a second, at a millisecond each."""
    with pytest.raises(InputError, match="load is '585'"):
        with_slack(Types((1000.0, 1000.0), (10, 10), (10, 20), 0.01, 1e-3), 0.0, iterations=1.0, delta=0.1)
    with pytest.raises(InputError, match="load is '585'"):
        solve(Types((1000.0, 1000.0), (10, 10), (10, 20), 0.01, 1e-3))


def test_equal_outputs_are_not_two_types():
    with pytest.raises(InputError, match="ascending"):
        solve(Types((1.0, 1.0), (10, 10), (20, 20), 0.01, 0.0))


def test_types_of_which_none_come_need_no_more_than_the_others():
    """All 7.5 requests a second end with the first output, as if the others did not exist: each further segment takes one."""
    types = Types((7.5, 0.0, 0.0), (20, 20, 20), (10, 30, 40), 1.0, 0.0)
    assert go_on(types.arrivals_per_s).tolist() == [0.0, 0.0]
    found = solve(types)
    assert found.thresholds.tolist() == [8, 1, 1] and found.enough_kv_tokens == found.kv_tokens + 30 * 1 + 50 * 1
    assert not doubts(types, found.thresholds, found.kv_tokens)


@pytest.mark.parametrize(
    "ask", [solve, lambda types: with_slack(types, 0.0, iterations=1.0, delta=0.1), lambda types: doubts(types, [2, 1], 9e9)]
)
def test_types_without_any_arrivals_are_refused(ask):
    with pytest.raises(InputError, match=r"arrivals_per_s is \[0, 0\.0\]; expected at least one number > 0"):
        ask(Types([0, 0.0], (20, 20), (10, 30), 1.0, 0.0))


@pytest.mark.parametrize(("field", "value"), [("delta", 0.0), ("delta", 2.0), ("iterations", 0.0)])
def test_a_share_that_is_no_probability_is_refused(field, value):
    with pytest.raises(InputError, match=f"{field} is {value}"):
        solve(TYPES, **{field: value})
