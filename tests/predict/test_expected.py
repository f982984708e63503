"""Expected loads are those of every request by itself, whatever the order, and lie on lines between the steps added up."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenstep.predict import expected as kernel
from evenstep.routing.view import EXPECTED_AT

REQUEST = st.tuples(st.integers(1, 5000), st.integers(0, 3), st.floats(0.5, 1.0))


def expected(requests, horizon: int) -> np.ndarray:
    ahead, growth = np.zeros(horizon + 1), np.arange(horizon + 1.0)
    for load, since, stays in requests:
        curve = stays ** np.arange(horizon + 4)
        kernel.add_expected(float(load), growth, 1.0, kernel.steps_between(horizon), curve, since, ahead)
    kernel.fill_between(ahead)
    return ahead


@given(st.lists(REQUEST, min_size=1, max_size=6), st.integers(1, 40), st.randoms())
def test_the_order_of_requests_does_not_matter_to_a_bit(requests, horizon, chance):
    shuffled = list(requests)
    chance.shuffle(shuffled)
    assert expected(requests, horizon).tobytes() == expected(shuffled, horizon).tobytes()


@given(st.lists(REQUEST, min_size=1, max_size=6), st.integers(1, 250))
def test_a_request_counts_with_its_chance_to_be_there_still(requests, horizon):
    found = expected(requests, horizon)
    exact = [sum((load + h) * stays**h for load, _, stays in requests) for h in range(horizon + 1)]
    added_up = [h for h in EXPECTED_AT if h < horizon] + [horizon]
    np.testing.assert_allclose(found[added_up], np.array(exact)[added_up], rtol=1e-9, atol=1e-4)
    np.testing.assert_allclose(found, np.interp(range(horizon + 1), added_up, found[added_up]), rtol=1e-9)
