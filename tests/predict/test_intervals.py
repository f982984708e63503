"""Bounds of output lengths, from a model and made for simulation."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.predict.asked import active, finished, ints

from evenstep.errors import InputError, PolicyError
from evenstep.predict.bounded import Bounded
from evenstep.predict.intervals import around, bucketed, constant, interval
from evenstep.predict.memorised import Memorised
from evenstep.predict.survival import Survival


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, 5000), min_size=1, max_size=30),
    st.integers(0, 40),
    st.floats(0.01, 0.5),
    st.floats(0.5, 1.0),
)
def test_bounds_are_quantiles_of_the_lengths_above_the_age(lengths, age, low, high):
    survival = Survival(running=0)
    survival.learn(finished(*lengths))
    found = interval(survival, active(age), low, high)
    above = np.sort([length for length in lengths if length > age])
    if above.size == 0:
        assert [bound.tolist() for bound in found] == [[0], [0]]
        return
    for bound, chance in zip(found, (low, high), strict=True):
        reached = np.arange(1, above.size + 1) / above.size >= chance - 1e-12
        assert bound.tolist() == [above[np.argmax(reached)]]


def test_each_request_has_the_bounds_of_its_own_prompt_and_cap():
    memorised, capped = Memorised(minimum=1), Bounded()
    for key, length in ((1, 30), (2, 10_000)):
        memorised.learn(finished(length, length + 10, key=key, first=10 * key))
    capped.learn(finished(*range(1, 101)))
    asked = active(0, 5, 0)
    asked.prompt_key[:] = 1, 2, 3
    low, high = interval(memorised, asked, 0.5, 1.0)
    assert low.tolist() == [30, 10_000, 40]  # the third as all together
    assert high.tolist() == [40, 10_010, 10_010]
    assert interval(capped, active(0, cap=60))[1].tolist() == [60]


def test_a_model_may_bring_its_own_bounds():
    class Own:
        def interval(self, asked, low, high):
            return np.full(asked.age.size, 3), np.full(asked.age.size, 9)

    assert interval(Own(), active(0, 0))[1].tolist() == [9, 9]
    with pytest.raises(InputError, match="predictor is 'object'; expected a predictor with a method `curve`"):
        interval(object(), active(0))
    with pytest.raises(InputError, match="0 < low <= high <= 1"):
        interval(Own(), active(0), 0.9, 0.1)


@pytest.mark.parametrize("kind", [tuple, list, np.array])
def test_bounds_may_be_any_pair(kind):
    """A list, and the two rows of an array, were refused: only a tuple passed."""
    own = SimpleNamespace(interval=lambda asked, low, high: kind([np.array([3, 4]), np.array([8, 9])]))
    assert [bound.tolist() for bound in interval(own, active(0, 0))] == [[3, 4], [8, 9]]
    with pytest.raises(PolicyError, match="expected low and high, one a request each"):
        interval(own, active(0))


def test_bounds_made_for_simulation():
    assert [b.tolist() for b in constant(2, 1, 50)] == [[1, 1], [50, 50]]
    assert [b.tolist() for b in bucketed(ints(1, 64, 65, 200), (64, 128, 256))] == [
        [1, 1, 65, 129],
        [64, 64, 128, 256],
    ]
    assert [b.tolist() for b in around(ints(1, 10, 99), 0.25)] == [[1, 7, 74], [2, 13, 124]]
    assert [b.tolist() for b in around(ints(7), 0.0)] == [[7], [7]]
    assert [b.tolist() for b in around(ints(100), 0.1)] == [[90], [110]]
    assert [b.tolist() for b in around(ints(100), 0.9)] == [[10], [190]]


@pytest.mark.parametrize(
    "made",
    [
        lambda: constant(1, 0, 5),
        lambda: constant(1, 6, 5),
        lambda: constant(1, 5, 2**53 + 1),
        lambda: constant(1, 5, 10**20),
        lambda: bucketed(ints(5), (8, 2**53 + 1)),
        lambda: bucketed(ints(5), (8, 10**20)),
        lambda: bucketed(ints(5), (4,)),
        lambda: bucketed(ints(5), (8, 8)),
        lambda: bucketed(ints(5), ()),
        lambda: around(ints(5), -0.1),
        lambda: around(ints(5), float("nan")),
    ],
)
def test_bounds_that_cannot_be_are_refused(made):
    with pytest.raises(InputError, match="bounds (constant|bucketed|around): "):
        made()
