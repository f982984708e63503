"""The roulette wheel: proportions, and what it never answers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenstep.compiled import jit
from evenstep.routing import roulette


@jit
def spin(weight, count, chance):
    return roulette.spin(weight, count, chance)


def test_a_place_is_drawn_in_proportion_to_its_weight():
    places = [spin(np.array([1.0, 0.0, 3.0]), 3, (k + 0.5) / 100) for k in range(100)]
    assert np.bincount(places, minlength=3).tolist() == [25, 0, 75]


def test_places_beyond_the_count_are_not_on_the_wheel():
    assert {spin(np.array([1.0, 1.0, 9.0]), 2, chance) for chance in (0.0, 0.5, 0.99)} == {0, 1}


@given(st.lists(st.floats(0, 1e300), min_size=1, max_size=6), st.sampled_from([0.0, 0.3, 1 - 2.0**-53]))
def test_a_place_of_weight_zero_is_never_drawn(weights, chance):
    weight = np.array([*weights, 0.0, 1e-3, 0.0])
    assert weight[spin(weight, weight.size, chance)] > 0
