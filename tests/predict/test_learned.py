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
from evenstep.predict.trees import TreesFit, told
from evenstep.predict.view import fit_now
from evenstep.request import Trace

HAS_LIGHTGBM = importlib.util.find_spec("lightgbm") is not None


def made(**options):
    if not HAS_LIGHTGBM:
        pytest.skip("LightGBM is an extra")
    return names.build("predict", {"name": "learned", "first": 300, "refit": 300, "trees": 20, **options})


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


def fitted(predictor, *asked, horizon=20):
    """The same, asked once, so that it knows the horizon, and fitted as a host without a clock does."""
    predictor.predict(asked[0] if asked else active(5), horizon)
    fit_now(predictor)
    return predictor


def test_it_learns_what_the_prompt_says_of_the_output():
    learned = fitted(taught(made(trees=100)))
    near, far = learned.predict(active(110, prompt=60), 20), learned.predict(active(110, prompt=95), 20)
    assert near.leaves[0] > 0.7
    assert near.steps_left[0] < 17 < far.steps_left[0]
    assert far.leaves[0] < 0.3
    assert learned.counted["fits"] == 1


def test_no_answer_and_no_lesson_fits_whatever_is_due(monkeypatch):
    learned = made(first=100, refit=100)
    monkeypatch.setattr(TreesFit, "make", None)
    for horizon in (20, 40, 20):
        taught(learned, 150)
        learned.predict(active(5), horizon)
        learned.curve(active(5), horizon)
        learned.interval(active(5), 0.1, 0.9)
        assert learned.due is not None
    assert learned.counted["fits"] == 0


def test_the_first_fit_is_due_from_few_completions_and_the_next_ones_by_the_schedule():
    learned = made(first=50, refit=200)
    learned.predict(active(5), 20)
    fell_due = []
    for number in range(1, 500):
        taught(learned, 1)
        if learned.due is not None:
            fell_due.append(number)
            learned.put_in()
    assert fell_due == [50, 250, 450]
    assert learned.counted["fits"] == 3


def test_before_it_was_asked_for_anything_no_fit_is_due():
    learned = taught(made())
    assert learned.due is None
    learned.predict(active(5), 20)
    assert learned.due is not None


def test_a_horizon_or_interval_that_is_new_is_part_of_a_fit_that_is_due_at_once():
    learned = fitted(taught(made()))
    assert learned.due is None
    learned.predict(active(5), 40)
    assert learned.due.horizons == (20, 40) and learned.due.chances == ()
    learned.interval(active(5), 0.1, 0.9)
    learned.put_in()
    assert learned.due is None
    before = learned.interval(active(5), 0.1, 0.9)
    learned.predict(active(5), 40)
    assert learned.due is None and learned.counted["fits"] == 2
    assert learned.interval(active(5), 0.1, 0.9)[0] == before[0]


def test_a_fit_holds_the_completions_as_they_were_when_it_fell_due():
    one, other = made(), made()
    for learned in (one, other):
        learned.predict(active(5), 20)
        taught(learned, 300)
    taught(one, 200)  # another 200 are known by the time it is made
    one.due.make()
    one.put_in()
    other.put_in()
    features = np.arange(14.0).reshape(2, 7) * 20
    for mine, its in zip(one._models.stages[20], other._models.stages[20], strict=True):
        assert told(mine, features).tolist() == told(its, features).tolist()


def test_completions_told_together_or_one_by_one_make_the_same_fit():
    sizes = np.random.default_rng(1).integers(20, 200, 420)
    one, other = made(first=100, refit=150), made(first=100, refit=150)
    for learned in (one, other):
        learned.predict(active(5), 20)
    one.learn(finished(*sizes.tolist()))
    for size in sizes.tolist():
        other.learn(finished(size))
    assert one.due.recent.learned == other.due.recent.learned == 400
    assert [part.tolist() for part in one.due.recent.walked(3)] == [part.tolist() for part in other.due.recent.walked(3)]


def test_a_fit_that_is_given_up_changes_nothing_until_the_next_one():
    learned = taught(fitted(taught(made())), 300)
    before = learned.predict(active(5), 20).leaves.tolist()
    assert learned.due is not None
    learned.give_up()
    assert learned.due is None and learned.counted["fits"] == 1
    assert learned.predict(active(5), 20).leaves.tolist() == before


def test_its_interval_follows_the_prompt():
    learned = taught(made(trees=150))
    learned.interval(active(0), 0.1, 0.9)
    fit_now(learned)
    low, high = learned.interval(active(0, 0, prompt=60), 0.1, 0.9)
    assert np.all((low <= 122) & (high >= 118) & (high - low < 40))


def test_without_a_fit_its_interval_is_that_of_survival():
    learned = made()
    learned.learn(finished(10, 20, 30))
    assert [bound.tolist() for bound in learned.interval(active(0), 0.1, 0.9)] == [[10], [30]]
    found = evaluate(Trace(np.full(40, 10), np.full(40, 50)), ["learned"], (20,))
    assert any("too few for a first fit" in note for note in found.notes)


@pytest.mark.parametrize("option", ["first", "refit", "window", "ages", "trees", "refresh_every"])
def test_an_option_out_of_range_is_named(option):
    with pytest.raises(InputError, match=f"learned: {option} is 0"):
        made(**{option: 0})


def test_without_lightgbm_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(
        InputError, match=r"learned: lightgbm is 'missing'; .* Install it with: pip install 'evenstep\[learned\]'"
    ):
        made()


def test_a_lightgbm_that_lacks_a_library_of_the_system_names_it(monkeypatch, tmp_path):
    why = "libgomp.so.1: cannot open shared object file"
    (tmp_path / "lightgbm.py").write_text(f"raise OSError({why!r})")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "lightgbm", raising=False)
    with pytest.raises(InputError, match=f"learned: lightgbm is '{why}'; .* libgomp1"):
        made()
