"""Features of requests that know nothing of the future."""

from __future__ import annotations

import numpy as np
import pytest
from tests.predict.asked import active, finished

from evenstep.predict.recent import Recent


def test_a_completion_stands_with_the_statistics_of_those_before_it():
    recent = Recent(10)
    recent.learn(finished(100, prompt=40))
    recent.learn(finished(200, prompt=60))
    features, left, weight = recent.walked(1)
    assert features[:, 0].tolist() == [40, 60]
    assert features[0, 2:].tolist() == [0, 0, 0, 0, 0]
    assert features[1, 2:].tolist() == [100, 100, 100, 0, 40]
    assert (features[:, 1] + left).tolist() == weight.tolist() == [100, 200]
    now = recent.features(active(7, 9, prompt=5))
    assert now[1].tolist() == pytest.approx([5, 9, 110, 101, 150, 50, 50])


def test_a_completion_is_walked_through_evenly_and_never_past_its_end():
    recent = Recent(3)
    recent.learn(finished(1, 2, 100, 3))  # the first has left the window
    features, left, weight = recent.walked(4)
    ages = features[:, 1]
    lengths = ages + left
    for length, parts in ((2, [0, 1]), (100, [0, 1, 2, 3]), (3, [0, 1, 2])):
        own = lengths == length
        assert (ages[own] * len(parts) // length).tolist() == parts
        assert weight[own].sum() == pytest.approx(length)
    assert np.all(left >= 1)


def test_rolling_statistics_forget():
    recent = Recent(1000)
    recent.learn(finished(*[10] * 300, *[90] * 128))
    assert recent.features(active(0))[0, 4:6].tolist() == [90.0, 0.0]
