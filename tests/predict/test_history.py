"""The window of lengths: what it answers, what it forgets, and when it notices a change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.predict.asked import both_stages, ints

from evenstep.errors import InputError
from evenstep.predict import history_kernel
from evenstep.predict.history import LONGEST, History, distance

lengths_of = st.lists(st.integers(1, 60), max_size=40)


@settings(max_examples=60, deadline=None)
@given(
    lengths_of, st.lists(st.integers(0, 70), min_size=1, max_size=6), st.integers(1, 25), st.integers(1, 12)
)
def test_both_stages_and_the_curve_are_those_of_the_latest_lengths(lengths, ages, horizon, window):
    history = History(window, 0.0)
    history.learn(ints(*lengths))
    kept = lengths[-window:]
    assert history.lengths.tolist() == kept
    answer, silent = history.leaving(ints(*ages), horizon)
    stays, also_silent = history.curve(ints(*ages), horizon)
    expected = [both_stages(kept, age, horizon) for age in ages]
    assert silent == also_silent == expected.count(None)
    for i, both in enumerate(expected):
        p, mu = both or (0.0, float(horizon))
        assert answer.leaves[i] == p
        assert answer.steps_left[i] == pytest.approx(max(1.0, p * mu + (1 - p) * horizon), rel=1e-14)
        assert stays[i, 0] == 1.0
        assert stays[i, horizon] == pytest.approx(1.0 - p, abs=1e-15)
        assert answer.steps_left[i] == pytest.approx(max(1.0, stays[i, :horizon].sum()), rel=1e-12)


@settings(max_examples=30, deadline=None)
@given(lengths_of, st.integers(1, 12))
def test_the_compiled_window_is_the_plain_one_bit_by_bit(lengths, window):
    def made(learn, leaving):
        ring, state = np.zeros(window, np.int64), np.zeros(2, np.int64)
        counts, trees = np.zeros(64, np.int64), np.zeros((2, 64), np.int64)
        learn(ring, state, counts, trees, ints(*lengths), 0)
        ages = np.arange(0, 70, 7)
        steps, leaves = np.zeros(ages.size), np.zeros(ages.size)
        silent = leaving(state, counts, trees, ages, 9, 2, steps, leaves)
        return [a.tobytes() for a in (ring, state, counts, trees, steps, leaves)], silent

    plain = [getattr(f, "py_func", f) for f in (history_kernel.learn, history_kernel.leaving)]
    assert made(history_kernel.learn, history_kernel.leaving) == made(*plain)


def test_lengths_beyond_the_first_table_are_taken_in_and_counted_like_any():
    history = History(10, 0.0)
    history.learn(ints(5, 40_000, 7, 10**9))
    assert history.lengths.tolist() == [5, 40_000, 7, LONGEST]
    answer, silent = history.leaving(ints(6, 39_990, 50_000, LONGEST), 20)
    assert answer.leaves.tolist() == [1 / 3, 1 / 2, 0.0, 0.0]
    assert silent == 1  # nothing is known of an age no length passes


@pytest.mark.parametrize("lengths", [(3, 0), (-7,)])
def test_a_length_below_one_is_a_bad_one(lengths):
    with pytest.raises(
        InputError, match=rf"finished: output_tokens is {lengths[-1]}; expected an integer >= 1"
    ):
        History(10, 0.0).learn(ints(*lengths))


def test_an_age_below_zero_is_a_bad_one():
    history = History(10, 0.0)
    with pytest.raises(InputError, match=r"active: age is -2; expected an integer >= 0"):
        history.leaving(ints(4, -2), 5)
    with pytest.raises(InputError, match="age is -2"):
        history.curve(ints(-2), 5)


def test_when_outputs_change_the_old_ones_are_forgotten_and_it_is_counted():
    rng = np.random.default_rng(3)
    history = History(2000, 2.0)
    history.learn(rng.integers(1, 100, 2000))
    assert (history.drifts, history.forgotten, len(history)) == (0, 0, 2000)
    for _ in range(10):
        history.learn(rng.integers(300, 400, 100))
    assert history.drifts >= 1
    assert history.forgotten >= 2000 - 1000
    assert np.mean(history.lengths >= 300) > 0.9
    answer, _ = history.leaving(ints(310), 40)
    assert answer.leaves[0] == pytest.approx(40 / 90, abs=0.1)


def test_outputs_that_do_not_change_are_kept():
    rng = np.random.default_rng(5)
    history = History(1000, 2.0)
    for _ in range(100):
        history.learn(np.clip(rng.gamma(1.5, 180, 100), 1, 2000).astype(np.int64))
    assert history.drifts <= 1
    never = History(1000, 0.0)
    never.learn(np.repeat([1, 500], 1000))
    assert never.drifts == 0


def test_the_distance_is_the_largest_gap_of_the_two_distribution_functions():
    assert distance(ints(1, 2, 3, 4), ints(3, 4, 5, 6)) == 0.5
    assert distance(ints(1, 1), ints(1, 1, 1)) == 0.0
    assert distance(ints(1), ints(2)) == 1.0
