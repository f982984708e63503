"""The gate on predicted departures, and the check of curves: one text for the simulator and the dispatcher."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from evenstep.errors import PolicyError
from evenstep.predict.gate import Gate
from evenstep.predict.view import NOTHING, Active, Prediction

THREE = Active(*(np.arange(3) for _ in range(5)), true_left=NOTHING)


def asked(steps, leaves, **options):
    answer = Prediction(np.array(steps, float), np.array(leaves, float))
    gate = Gate(SimpleNamespace(predict=lambda active, horizon: answer, **options), 8)
    return gate.steps_left(THREE).tolist(), gate.counted()


def test_a_departure_counts_where_it_is_likely_enough_and_inside_the_window():
    assert asked([0.2, 5.5, 9.0], [0.5, 0.9, 0.9]) == ([1.0, 5.5, -1.0], {"predictions": 3, "predictions_accepted": 3})
    assert asked([2.0, 2.0, 2.0], [0.49, 0.6, 0.6], gate=0.6)[0] == [-1.0, 2.0, 2.0]


def test_a_literal_refresh_lets_what_stays_leave_with_the_window():
    left, counted = asked([2.0, 2.0, 9.0], [0.4, 0.6, 0.6], refresh="literal", counted={"learned": 7})
    assert left == [8.0, 2.0, 8.0]
    assert counted == {"predictions": 3, "predictions_accepted": 2, "predictor_learned": 7}


@pytest.mark.parametrize("steps", [[1.0, 2.0], [1.0, 2.0, np.nan]])
def test_a_prediction_of_another_shape_or_not_finite_is_refused(steps):
    with pytest.raises(PolicyError, match="3 requests; expected finite values, one a request"):
        asked(steps, [1.0] * len(steps))


def test_chances_may_be_off_by_rounding():
    assert asked([1.0] * 3, [1.0000000001, -1e-10, 1.0])[1] == {"predictions": 3, "predictions_accepted": 2}


@pytest.mark.parametrize("last", [np.nan, -0.1, 20.0])
def test_a_chance_outside_0_and_1_is_refused(last):
    with pytest.raises(PolicyError, match="3 requests; expected finite values, one a request, and chances from 0 to 1"):
        asked([1.0] * 3, [0.5, 1.0, last])


@pytest.mark.parametrize("answer", [None, ([1.0] * 3, [1.0] * 3), Prediction(["soon"] * 3, np.ones(3))])
def test_an_answer_that_is_no_prediction_is_refused(answer):
    """It was called a bug of evenstep."""
    with pytest.raises(
        PolicyError, match=r"answered \w+; expected a Prediction, with steps_left and leaves as arrays of num"
    ):
        Gate(SimpleNamespace(predict=lambda active, horizon: answer), 8).steps_left(THREE)


def curves(rows):
    gate = Gate(SimpleNamespace(curve=lambda active, ahead: np.array(rows)), 1)
    return gate.curves(THREE, 1).tolist(), gate.counted()


def test_every_curve_is_accepted():
    rows = [[1.0, 0.5], [1.0, 0.0], [0.9999999999, 1.0000000001]]  # as sums of shares are rounded
    assert curves(rows) == (rows, {"predictions": 3, "predictions_accepted": 3})


@pytest.mark.parametrize("last", [[0.9, 0.5], [1.00000001, 0.5], [1.0, np.nan], [1.0, -np.inf], [1.0, np.inf]])
def test_a_curve_that_does_not_begin_with_one_or_is_not_finite_is_refused(last):
    with pytest.raises(PolicyError, match=r"expected \(3, 2\), finite, with 1 in column 0"):
        curves([[1.0, 0.5], [1.0, 0.5], last])


def test_curves_of_another_shape_are_refused():
    with pytest.raises(PolicyError, match=r"a curve of shape \(3, 1\) for 3 requests"):
        curves([[1.0], [1.0], [1.0]])


def test_with_several_tokens_a_step_the_predictor_is_asked_in_tokens_and_the_answer_is_in_steps():
    asked_about = []

    def predict(active, horizon):
        asked_about.append(horizon)
        return Prediction(np.array([3.0, 7.0, 24.0]), np.ones(3))

    def curve(active, ahead):
        asked_about.append(ahead)
        return 0.5 ** np.arange(ahead + 1.0) * np.ones((3, 1))

    gate = Gate(SimpleNamespace(predict=predict, curve=curve), 8)
    assert gate.steps_left(THREE, 3).tolist() == [1.0, 7 / 3, -1.0]
    assert gate.curves(THREE, 2, 3).tolist() == [[1.0, 0.125, 0.125**2]] * 3
    assert asked_about == [24, 6]
