"""Reachable sums in bit masks: by hand, across words, and against the oracle."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles import f_score as oracle
from tests.routing._balance_route import peak

from evenstep.compiled import as_plain
from evenstep.routing.balance_route.f_score import FScore
from evenstep.routing.balance_route.reachable import by_bits


def best(sizes, slots, margin, kv_free=math.inf, penalty=4.0):
    """Marks of the chosen, their tokens, their score."""
    score = FScore(np.array([float(margin)]), np.ones(1), 1.0, penalty)
    size, marks = np.array(sizes, float), np.full(len(sizes), -7)
    _, high, _ = peak(score)
    found = as_plain(by_bits)(size, size.size, slots, kv_free, high, score, marks)
    return (marks.tolist(), *found)


def test_the_sum_that_fills_the_margin_is_found():
    assert best([50, 35, 25], 2, 60) == ([0, 1, 1], 60, 60)
    assert best([50, 35, 25], 1, 60) == ([1, 0, 0], 50, 50)
    assert best([50, 35, 25], 3, 110) == ([1, 1, 1], 110, 110)


def test_the_smallest_sum_above_is_taken_where_it_is_worth_more():
    """A token above the margin costs 3: 66 for 60 is worth 42, 64 is worth 48."""
    assert best([66, 33], 2, 60) == ([1, 0], 66, 42)
    assert best([66, 43], 2, 60) == ([0, 1], 43, 43)
    assert best([64, 33], 2, 60) == ([1, 0], 64, 48)
    assert best([63, 51], 2, 60) == ([0, 1], 51, 51)  # as much as 63: the one below


def test_equal_sums_are_made_of_fewer_and_then_earlier_requests():
    assert best([30, 30, 60], 2, 60) == ([0, 0, 1], 60, 60)
    assert best([30, 30, 30], 2, 60) == ([1, 1, 0], 60, 60)


def test_no_sum_is_beyond_the_memory():
    assert best([50, 35, 25], 2, 60, kv_free=59.0) == ([1, 0, 0], 50, 50)
    assert best([50, 35, 25], 3, 200, kv_free=85.0) == ([1, 1, 0], 85, 85)


def test_sums_reach_across_words_of_the_mask():
    assert best([64, 128], 2, 192) == ([1, 1], 192, 192)
    assert best([63, 1, 64], 2, 64) == ([0, 0, 1], 64, 64)
    assert best([63, 1, 127], 2, 128) == ([0, 1, 1], 128, 128)
    assert best([200, 300, 411], 3, 711) == ([0, 1, 1], 711, 711)


def test_a_carry_into_the_next_word_is_kept_by_a_shift_of_one():
    assert best([63, 1], 2, 64) == ([1, 1], 64, 64)
    assert best([127, 1], 2, 128) == ([1, 1], 128, 128)
    assert best([63, 65], 2, 128) == ([1, 1], 128, 128)


def test_the_only_sum_may_lie_just_above_the_margin_or_at_the_end_of_the_mask():
    """61 for 60 is worth 61 - 4; there is nothing beyond it to look at."""
    assert best([61], 1, 60) == ([1], 61, 57)
    assert best([63], 1, 100) == ([1], 63, 63)
    assert best([64], 1, 60) == ([1], 64, 48)


def test_nothing_is_carried_from_the_end_of_the_mask_to_its_beginning():
    """63 and 61 together are 124, beyond the mask; its lowest words hold no 60 from that."""
    assert best([63, 61], 2, 60, kv_free=63.0) == ([0, 1], 61, 57)


def test_the_sum_above_is_looked_for_above_the_margin():
    """A token above the margin costs a half: 61 for 60 is worth 59.5, and 59 is worth 59."""
    assert best([59, 61], 1, 60, penalty=1.5) == ([0, 1], 61, 59.5)


def test_where_nothing_fits_nothing_is_worth_sending():
    assert best([50, 35], 2, 60, kv_free=10.0) == ([0, 0], 0, -math.inf)


def test_a_single_token_is_a_sum():
    assert best([1], 1, 1) == ([1], 1, 1)
    assert best([1], 1, 0) == ([1], 1, -3)


def test_a_score_that_never_falls_takes_the_largest_sum():
    assert best([50, 35, 25], 2, 60, penalty=0.0) == ([1, 1, 0], 85, 85)


@given(
    st.lists(st.integers(1, 200), min_size=1, max_size=9),
    st.integers(1, 5),
    st.integers(0, 400),
    st.sampled_from([math.inf, 230.0]),
)
def test_it_finds_the_subset_of_its_oracle(sizes, slots, margin, kv_free):
    size, slots = np.array(sizes, float), min(slots, len(sizes))
    score = oracle.FScore(np.array([float(margin)]), np.ones(1), 1.0, 4.0)
    chosen, tokens, worth = oracle.best_by_bits(score, size, np.arange(size.size), slots, kv_free)
    marks, *found = best(sizes, slots, margin, kv_free)
    assert (np.flatnonzero(marks).tolist(), *found) == (chosen.tolist(), tokens, worth)
