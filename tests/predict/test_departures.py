"""Projections kept in windows of departures equal those rebuilt from the requests."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evenstep.predict import departures

H, MASK = 6, 7


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 12), st.booleans()), max_size=8),
    st.integers(0, 40),
    st.integers(0, 3),
)
def test_the_window_projects_what_the_requests_will_hold(requests, step, delta):
    """Each request: load now, steps until it leaves, and whether its departure is taken back and entered anew."""
    counts, loads = np.zeros(MASK + 1, np.int64), np.zeros(MASK + 1, np.int64)
    for load, left, again in requests:
        if left <= H:
            for sign in (1, -1, 1) if again else (1,):
                departures.enter(counts, loads, (step + left) & MASK, load + left * delta, sign)
    projected = np.zeros(H + 1)
    total = sum(load for load, _, _ in requests)
    departures.project(total, len(requests), step, delta, 0.5, counts, loads, projected)
    expected = [sum(0.5 * (w + h * delta) for w, left, _ in requests if left > h or left > H) for h in range(H + 1)]
    assert projected.tolist() == expected
