"""What a predictor sees and answers."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.sim.policies import Keyed

from evenstep.predict.view import NOTHING, Active, Prediction, Predictor, is_oracle


def test_whatever_predicts_and_learns_is_a_predictor():
    class Mute:
        def predict(self, active, horizon):
            return Prediction(np.zeros(0), np.zeros(0))

    assert isinstance(Keyed(), Predictor)
    assert not isinstance(Mute(), Predictor)


def test_only_a_predictor_that_says_so_is_shown_true_lengths():
    class Sees:
        oracle = True

    assert is_oracle(Sees())
    assert not is_oracle(Keyed())
    assert not is_oracle(None)


@pytest.mark.parametrize("value", [Active(*[NOTHING] * 6), Prediction(np.zeros(1), np.zeros(1))])
def test_what_is_asked_and_what_is_answered_stay_as_they_are(value):
    for field in dataclasses.fields(value):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field.name, NOTHING)
