"""No output is longer than its request's cap."""

from __future__ import annotations

import pytest
from tests.predict.asked import active, finished, ints

from evenstep import names
from evenstep.errors import InputError
from evenstep.predict.bounded import Bounded
from evenstep.predict.survival import Survival
from evenstep.predict.view import Active, SurvivalCurve


def test_a_cap_inside_the_window_ends_the_curve_there():
    bounded, survival = Bounded(), Survival()
    for one in (bounded, survival):
        one.learn(finished(5, 10, 20))
    assert bounded.curve(active(4, cap=8), 6).tolist() == [[1.0, 2 / 3, 2 / 3, 2 / 3, 0.0, 0.0, 0.0]]
    answer = bounded.predict(active(4, cap=8), 6)
    assert answer.leaves.tolist() == [1.0]
    assert answer.steps_left == pytest.approx([3.0])
    for cap in (0, 11, 400):
        free, same = bounded.predict(active(4, cap=cap), 6), survival.predict(active(4), 6)
        assert free.steps_left.tolist() == same.steps_left.tolist()
        assert free.leaves.tolist() == same.leaves.tolist()
    assert bounded.counted["capped"] == 2


@pytest.mark.parametrize("of", ["survival", "memorised:buckets=1"])
def test_an_answer_cut_at_a_cap_counts_once_in_the_other_predictor(of):
    """The other predictor is asked for answer and curve: its `too_short` counted such requests twice."""
    alone, bounded = names.build("predict", names.parse(of)), Bounded(of=of)
    near, free = active(4, 4, 4, cap=8), active(4, 4, 4)
    for _ in range(2):
        alone.predict(free, 6)
        bounded.predict(near, 6)
    assert bounded.counted == {**alone.counted, "capped": 6}
    for one in (alone, bounded):
        one.learn(finished(*[50] * 100))
        one.predict(near, 6)
    assert alone.counted["too_short"] == bounded.counted["too_short"] == 6
    assert bounded.counted == {**alone.counted, "capped": 9}
    bounded.curve(near, 6)
    alone.curve(near, 6)
    assert bounded.counted == {**alone.counted, "capped": 12}


@pytest.mark.parametrize("options", ["", ":Mine", ":window=7/drift=0", ":Mine:window=7/drift=0"])
def test_the_other_predictor_may_be_a_file_in_a_folder(tmp_path, options):
    file = tmp_path / "mine.py"
    file.write_text("from evenstep.predict.survival import Survival as Mine\npredictor = Mine\n")
    bounded = Bounded(of=f"{file}{options}")
    assert isinstance(bounded._inner, Survival)
    assert (bounded._inner.window, bounded._inner.drift) == ((7, 0.0) if "=" in options else (10_000, 2.0))


def test_a_state_of_an_earlier_version_resumes():
    earlier = Bounded()
    state = {name: value for name, value in earlier.__dict__.items() if name != "_twice"}
    again = Bounded.__new__(Bounded)
    again.__setstate__(state)
    again.predict(active(4, cap=8), 6)
    assert again.counted == {"too_short": 1, "drifts": 0, "learned": 0, "capped": 1}


@pytest.mark.parametrize("cap", [9, 10])
def test_a_request_at_its_cap_leaves_in_the_coming_step(cap):
    bounded = Bounded()
    bounded.learn(finished(*[50] * 20))
    answer = bounded.predict(active(9, cap=cap), 6)
    assert (answer.steps_left.tolist(), answer.leaves.tolist()) == ([1.0], [1.0])


def test_a_cap_below_what_was_produced_is_a_bad_one():
    bounded = Bounded()
    for asked in (bounded.predict, bounded.curve):
        with pytest.raises(InputError, match="active: request 3: max_tokens is 9; expected at least 10"):
            asked(active(10, first=3, cap=9), 6)


def test_it_takes_another_predictor_with_its_options():
    bounded = names.build("predict", names.parse("bounded:of=memorised:gate=0.7/refresh_every=4"))
    assert (bounded.gate, bounded.refresh_every, bounded.refresh) == (0.7, 4, "anchored")
    assert isinstance(bounded, SurvivalCurve)
    assert names.build("predict", names.parse("bounded:of=oracle")).oracle
    left = Active(ints(1), ints(3), ints(1), ints(0), ints(9), ints(4))
    assert names.build("predict", names.parse("bounded:of=oracle")).predict(left, 8).steps_left.tolist() == [4.0]


@pytest.mark.parametrize("of", ["bounded", "no-such", "survival:size=3"])
def test_what_it_cannot_bound_is_named(of):
    with pytest.raises(InputError):
        Bounded(of=of)
