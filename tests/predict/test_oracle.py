"""The oracle answers the true remaining steps."""

from __future__ import annotations

import numpy as np

from evenstep import names
from evenstep.predict.oracle import Oracle
from evenstep.predict.view import NOTHING, Active, Finished, Predictor, is_oracle


def active(*left: int) -> Active:
    known = np.arange(len(left))
    return Active(known, known, known, known, known, np.array(left, dtype=np.int64))


def test_steps_left_are_true_and_not_clipped():
    answer = Oracle().predict(active(1, 3, 90), 3)
    assert answer.steps_left.tolist() == [1.0, 3.0, 90.0]
    assert answer.leaves.tolist() == [1.0, 1.0, 0.0]  # a request with H steps left leaves at h = H


def test_nothing_due_is_nothing_answered():
    answer = Oracle().predict(active(), 5)
    assert answer.steps_left.shape == answer.leaves.shape == (0,)


def test_it_learns_nothing():
    oracle = Oracle()
    oracle.learn(Finished(np.array([1]), np.array([5]), np.array([700]), NOTHING))
    assert oracle.predict(active(2), 4).steps_left.tolist() == [2.0]


def test_it_is_found_by_its_name_and_says_that_it_sees_the_truth():
    found = names.build("predict", {"name": "oracle"})
    assert isinstance(found, Oracle)
    assert isinstance(found, Predictor)
    assert is_oracle(found)
