"""Reachable sums in bit masks: the compiled solver against the plain one."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenstep.routing.balance_route.f_score import FScore, best_by_bits
from evenstep.routing.balance_route.reachable import by_bits


@given(
    st.lists(st.integers(1, 200), min_size=1, max_size=9),
    st.integers(1, 5),
    st.integers(0, 400),
    st.sampled_from([math.inf, 230.0]),
)
def test_the_kernel_finds_the_same_subset_across_words(sizes, slots, margin, kv_free):
    size = np.array(sizes, float)
    score = FScore(np.array([float(margin)]), np.ones(1), 1.0, 4.0)
    slots = min(slots, size.size)
    chosen, tokens, value = best_by_bits(score, size, np.arange(size.size), slots, kv_free)
    marks = np.zeros(size.size, np.int64)
    _, high = score.peak()
    found = by_bits(size, size.size, slots, kv_free, high, score.margins, score.weights, 1, 1.0, 4.0, marks)
    assert (np.flatnonzero(marks).tolist(), *found) == (chosen.tolist(), tokens, value)
