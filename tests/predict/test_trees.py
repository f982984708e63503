"""Fits of gradient-boosted trees."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from tests.predict.asked import finished

from evenstep.errors import InputError
from evenstep.predict import trees
from evenstep.predict.recent import Recent
from evenstep.predict.trees import Trees, TreesFit, told

pytest.importorskip("lightgbm")


def due(horizons=(20,), chances=(0.1, 0.9)):
    recent = Recent(500)
    for prompt in np.random.default_rng(3).integers(20, 100, 400).tolist():
        recent.learn(finished(2 * prompt, prompt=prompt))
    return TreesFit(recent, 8, 20, horizons, chances)


def answers(models):
    features = np.arange(21.0).reshape(3, 7) * 10
    every = [*(model for pair in models.stages.values() for model in pair), *models.quantiles.values()]
    return [told(model, features).tolist() for model in every]


def test_the_same_data_make_the_same_trees_in_another_process_too():
    fit = due()
    elsewhere = pickle.loads(pickle.dumps(due()))
    assert answers(fit.make()) == answers(elsewhere.make())
    assert answers(pickle.loads(pickle.dumps(fit.make()))) == answers(fit.make())


def test_it_is_worked_out_once():
    fit = due()
    assert fit.make() is fit.make() is fit.models


def test_every_horizon_and_chance_has_its_models():
    made = due((20, 40), (0.5,)).make()
    assert list(made.stages) == [20, 40] and list(made.quantiles) == [0.5]


def test_no_rows_are_asked_of_no_model():
    assert told(None, np.zeros((0, 7))).tolist() == []


def test_no_models_are_read_without_lightgbm(monkeypatch):
    empty = pickle.dumps(Trees())

    def missing():
        raise InputError("predictor", "lightgbm", "missing", "installed")

    monkeypatch.setattr(trees, "lightgbm", missing)
    assert pickle.loads(empty).stages == {}
