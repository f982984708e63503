"""The learned predictor."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest
from tests.predict.asked import active, finished

from evenstep import names
from evenstep.errors import InputError
from evenstep.predict.evaluation import evaluate
from evenstep.predict.survival import Survival
from evenstep.request import Trace

HAS_LIGHTGBM = importlib.util.find_spec("lightgbm") is not None


def made(**options):
    if not HAS_LIGHTGBM:
        pytest.skip("LightGBM is an extra")
    return names.build("predict", {"name": "learned", "refit": 300, "trees": 20, **options})


def taught(predictor, count=600):
    """Outputs are twice their prompts."""
    rng = np.random.default_rng(3)
    for i in range(count):
        prompt = int(rng.integers(20, 100))
        predictor.learn(finished(2 * prompt, prompt=prompt, first=1000 + i))
    return predictor


def test_before_the_first_fit_it_answers_as_survival():
    learned, survival = taught(made(), 200), taught(Survival(), 200)
    asked = active(0, 50, 100)
    assert learned.predict(asked, 20).leaves.tolist() == survival.predict(asked, 20).leaves.tolist()
    assert learned.counted["fits"] == 0


def test_it_learns_what_the_prompt_says_of_the_output():
    learned = taught(made(trees=100))
    near, far = learned.predict(active(110, prompt=60), 20), learned.predict(active(110, prompt=95), 20)
    assert near.leaves[0] > 0.7
    assert near.steps_left[0] < 17 < far.steps_left[0]
    assert far.leaves[0] < 0.3
    assert learned.counted["fits"] == 2


def test_it_is_fitted_anew_for_a_horizon_and_after_enough_completions():
    learned = taught(made())
    learned.predict(active(5), 20)
    learned.predict(active(5), 20)
    assert learned.counted["fits"] == 2
    learned.predict(active(5), 40)
    assert learned.counted["fits"] == 4
    taught(learned, 300)
    learned.predict(active(5), 20)
    assert learned.counted["fits"] == 6


def test_its_interval_follows_the_prompt():
    low, high = taught(made(trees=150)).interval(active(0, 0, prompt=60), 0.1, 0.9)
    assert np.all((low <= 122) & (high >= 118) & (high - low < 40))


def test_without_a_fit_its_interval_is_that_of_survival():
    learned = made()
    learned.learn(finished(10, 20, 30))
    assert [bound.tolist() for bound in learned.interval(active(0), 0.1, 0.9)] == [[10], [30]]
    found = evaluate(Trace(np.full(40, 10), np.full(40, 50)), ["learned"], (20,))
    assert any("too few for a first fit" in note for note in found.notes)


@pytest.mark.parametrize("option", ["refit", "window", "ages", "trees", "refresh_every"])
def test_an_option_out_of_range_is_named(option):
    with pytest.raises(InputError, match=f"learned: {option} is 0"):
        made(**{option: 0})


def test_without_lightgbm_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(
        InputError, match=r"learned: package .* Install it with: pip install 'evenstep\[learned\]'"
    ):
        made()
