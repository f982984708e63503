"""Every promise of a predictor, checked on every predictor of the room that can be built here."""

from __future__ import annotations

import dataclasses
import importlib.util

import numpy as np
import pytest
from tests.predict.asked import finished, ints

from evenstep import names
from evenstep.errors import InputError
from evenstep.predict.view import (
    Active,
    Finished,
    Prediction,
    Predictor,
    SurvivalCurve,
    counted_of,
    is_oracle,
)

HORIZON = 20
OPTIONS = ("survival:running=0,window=50", "memorised:buckets=1", "bounded:of=memorised", "bounded:of=oracle")


NAMES = [name for name in names.members("predict") if name != "learned" or importlib.util.find_spec("lightgbm") is not None]
ALL = [*NAMES, *OPTIONS]
BLIND = [text for text in ALL if not is_oracle(names.build("predict", names.parse(text)))]


def makes(text):
    return lambda: names.build("predict", names.parse(text))


@pytest.fixture(params=ALL)
def made(request):
    return makes(request.param)


@pytest.fixture(params=BLIND)
def blind(request):
    """One that is not shown true lengths."""
    return makes(request.param)


def asked(count=60, seed=1, first=0, oracle=True):
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 300, count)
    left = rng.integers(1, 60, count) if oracle else ints()
    return Active(
        np.arange(first, first + count),
        age,
        rng.integers(1, 900, count),
        rng.integers(0, 5, count),
        (age + rng.integers(0, 50, count)) * rng.integers(0, 2, count),
        left,
    )


def completions(count=400, seed=2, first=10_000):
    rng = np.random.default_rng(seed)
    return Finished(
        np.arange(first, first + count),
        rng.integers(1, 900, count),
        rng.integers(1, 400, count),
        rng.integers(0, 5, count),
    )


def bits(predictor, seed=1):
    one = predictor.predict(asked(seed=seed, oracle=is_oracle(predictor)), HORIZON)
    found = [one.steps_left.tobytes(), one.leaves.tobytes()]
    if isinstance(predictor, SurvivalCurve):
        found.append(predictor.curve(asked(seed=seed, oracle=is_oracle(predictor)), HORIZON).tobytes())
    return found


@pytest.mark.parametrize("completed", [0, 5, 400])
def test_answers_are_chances_and_steps_of_the_window(made, completed):
    predictor = made()
    predictor.learn(completions(completed))
    assert isinstance(predictor, Predictor)
    for count in (0, 1, 60):
        answer = predictor.predict(asked(count, oracle=is_oracle(predictor)), HORIZON)
        assert isinstance(answer, Prediction)
        assert answer.steps_left.shape == answer.leaves.shape == (count,)
        assert answer.steps_left.dtype == answer.leaves.dtype == np.float64
        assert np.all((answer.leaves >= 0) & (answer.leaves <= 1))
        assert np.all(answer.steps_left >= 1)
        assert is_oracle(predictor) or np.all(answer.steps_left <= HORIZON)


@pytest.mark.parametrize("completed", [0, 400])
def test_the_curve_starts_at_one_never_rises_and_agrees_with_both_stages(made, completed):
    predictor = made()
    assert isinstance(predictor, SurvivalCurve), "a built-in predictor has a method `curve`: see SurvivalCurve"
    predictor.learn(completions(completed))
    active = asked(oracle=is_oracle(predictor))
    stays, answer = predictor.curve(active, HORIZON), predictor.predict(active, HORIZON)
    assert stays.shape == (60, HORIZON + 1)
    assert np.all(stays[:, 0] == 1.0)
    assert np.all(np.diff(stays) <= 1e-12)
    assert np.all(stays >= 0)
    assert 1.0 - stays[:, HORIZON] == pytest.approx(answer.leaves, abs=1e-9)
    expected = np.maximum(stays[:, :HORIZON].sum(axis=1), 1.0)
    assert np.minimum(answer.steps_left, HORIZON) == pytest.approx(expected, abs=0.51 if completed else 1e-9)


def test_the_same_history_gives_the_same_bits(made):
    one, other = made(), made()
    for predictor in (one, other):
        for seed in range(4):
            predictor.learn(completions(150, seed, first=1000 * (seed + 10)))
            bits(predictor, seed)
    assert bits(one) == bits(other)
    assert counted_of(one) == counted_of(other)


def test_asking_changes_no_answer_and_touches_nothing(made):
    predictor = made()
    predictor.learn(completions())
    before = bits(predictor)
    active = asked(seed=9, oracle=is_oracle(predictor))
    for field in dataclasses.fields(active):
        getattr(active, field.name).setflags(write=False)
    for _ in range(5):
        predictor.predict(active, HORIZON)
    assert bits(predictor) == before


def test_only_an_oracle_looks_at_true_lengths(blind):
    predictor = blind()
    predictor.learn(completions())
    active = asked(oracle=False)
    shown = dataclasses.replace(active, true_left=np.full(active.age.size, 3))
    one, other = predictor.predict(active, HORIZON), predictor.predict(shown, HORIZON)
    assert one.steps_left.tobytes() == other.steps_left.tobytes()


def test_a_request_alone_is_answered_as_among_others(made):
    predictor = made()
    predictor.learn(completions())
    active = asked(oracle=is_oracle(predictor))
    together = predictor.predict(active, HORIZON)
    for row in (0, 7, 59):
        alone = predictor.predict(active.take(ints(row)), HORIZON)
        assert alone.steps_left[0] == together.steps_left[row]
        assert alone.leaves[0] == together.leaves[row]


def test_a_fresh_predictor_knows_nothing_of_another_one(made):
    fresh = bits(made())
    taught = made()
    taught.learn(completions())
    bits(taught)
    assert bits(made()) == fresh


def test_a_length_below_the_produced_count_is_refused(blind):
    predictor = blind()
    active = Active(ints(7), ints(50), ints(10), ints(0), ints(0), ints())
    predictor.learn(completions(20))
    predictor.predict(active, HORIZON)
    with pytest.raises(InputError, match="request 7: output_tokens is 12; expected at least 50"):
        predictor.learn(finished(12, first=7))


@pytest.mark.parametrize("name", names.members("predict"))
def test_a_predictor_says_what_it_is_and_every_option_what_it_means(name):
    kind = names.find("predict", name)
    said = kind.__doc__ or ""
    assert said.strip().endswith(".")
    assert [f.name for f in dataclasses.fields(kind) if f.init and f"{f.name}: " not in said] == []
