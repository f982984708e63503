"""The roulette wheel: proportions, and what it never answers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenstep.routing.roulette import spin


def test_a_place_is_drawn_in_proportion_to_its_weight():
    chances = (np.arange(100) + 0.5) / 100
    places = spin(np.tile([1.0, 0.0, 3.0], (100, 1)), chances)
    assert np.bincount(places, minlength=3).tolist() == [25, 0, 75]


@given(st.lists(st.floats(0, 1e300), min_size=1, max_size=6), st.sampled_from([0.0, 0.3, 1 - 2.0**-53]))
def test_a_place_of_weight_zero_is_never_drawn(weights, chance):
    weight = np.array([*weights, 0.0, 1e-3, 0.0])
    assert weight[spin(weight, chance)] > 0
