"""The memorised predictor: by prompt, by size of prompt, and as survival does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.predict.asked import active, both_stages, finished

from evenstep import names
from evenstep.errors import InputError
from evenstep.predict.memorised import Memorised
from evenstep.predict.remembered import parts
from evenstep.predict.survival import Survival
from evenstep.predict.view import SurvivalCurve


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 40)), max_size=30),
    st.integers(1, 3),
    st.integers(0, 40),
    st.integers(1, 20),
    st.integers(1, 4),
)
def test_a_prompt_is_answered_from_its_own_latest_outputs(completions, key, age, horizon, minimum):
    memorised, survival = Memorised(minimum=minimum, each=5, running=0), Survival(running=0)
    for i, (of, length) in enumerate(completions):
        memorised.learn(finished(length, key=of, first=1000 + i))
        survival.learn(finished(length, first=1000 + i))
    own = [length for of, length in completions if of == key][-5:]
    stages = both_stages(own, age, horizon) if len(own) >= minimum else None
    answer = memorised.predict(active(age, key=key), horizon)
    if stages is None:
        other = survival.predict(active(age, key=key), horizon)
        expected = other.leaves[0], other.steps_left[0]
    else:
        p, mu = stages
        expected = p, max(1.0, p * mu + (1 - p) * horizon)
    assert (answer.leaves[0], answer.steps_left[0]) == pytest.approx(expected, abs=1e-12)
    assert memorised.counted["by_prompt"] == (stages is not None)


def test_many_prompts_in_one_call_are_answered_each_by_itself():
    memorised = Memorised(minimum=1)
    for key in range(1, 301):
        memorised.learn(finished(key + 5, key=key, first=1000 + key))
    asked = active(*[4] * 300)
    asked.prompt_key[:] = np.arange(1, 301)
    answer = memorised.predict(asked, 20)
    assert answer.steps_left.tolist() == [min(key + 1.0, 20.0) for key in range(1, 301)]
    assert memorised.counted["by_prompt"] == 300


def test_prompts_without_a_key_are_alike_when_they_are_of_one_size():
    memorised = Memorised(minimum=3, running=0)
    for i in range(300):
        short, long = (
            finished(10, prompt=50 + i % 7, first=10 * i),
            finished(90, prompt=900 + i, first=10 * i + 5),
        )
        memorised.learn(short)
        memorised.learn(long)
    assert memorised.predict(active(5, prompt=52, first=9000), 20).leaves.tolist() == [1.0]
    assert memorised.predict(active(5, prompt=1100, first=9001), 20).leaves.tolist() == [0.0]
    alike = Memorised(buckets=1, running=0)
    alike.learn(finished(10, 90))
    assert alike.predict(active(5, prompt=52), 20).leaves.tolist() == [0.5]
    assert memorised.counted["by_size"] == 2
    assert alike.counted["by_size"] == 0


def test_the_prompt_that_completed_longest_ago_makes_room():
    memorised = Memorised(keys=2, minimum=1, buckets=1)
    for key in (1, 2, 1, 3):
        memorised.learn(finished(10 * key, key=key, first=key * 100 + memorised.counted["prompts"]))
    assert memorised.counted["forgotten"] == 1
    memorised.predict(active(0, key=2), 50)
    assert memorised.counted["by_prompt"] == 0
    assert memorised.predict(active(0, key=3), 50).steps_left.tolist() == [30.0]
    assert memorised.predict(active(0, key=1), 50).steps_left.tolist() == [10.0]


def test_it_says_when_there_is_too_little_history_of_any_kind():
    memorised = Memorised()
    nothing = memorised.predict(active(3, key=4), 8)
    assert (nothing.steps_left.tolist(), nothing.leaves.tolist()) == ([8.0], [0.0])
    assert memorised.counted["too_short"] == 1


def test_it_is_found_by_name_and_options_out_of_range_are_named():
    assert isinstance(names.build("predict", names.parse("memorised:keys=9,each=3")), SurvivalCurve)
    for option in ("keys", "each", "buckets", "minimum"):
        with pytest.raises(InputError, match=f"memorised: {option} is 0"):
            names.build("predict", {"name": "memorised", option: "0"})


@given(st.lists(st.integers(0, 20), max_size=5, unique=True), st.lists(st.integers(0, 25), max_size=40))
def test_requests_are_sorted_by_bucket_as_by_search_and_stable_sort(bounds, prompts):
    bounds, prompts = np.array(sorted(bounds), np.int64), np.array(prompts, np.int64)
    order, ends = np.empty(prompts.size, np.int64), np.zeros(bounds.size + 2, np.int64)
    parts(bounds, prompts, order, ends)
    bucket = np.searchsorted(bounds, prompts, side="left")
    assert order.tolist() == np.argsort(bucket, kind="stable").tolist()
    assert ends.tolist() == np.searchsorted(np.sort(bucket), np.arange(bounds.size + 2)).tolist()


def test_a_request_gets_as_far_as_one_of_its_key_has_got():
    """Nothing of key 7 is finished, but one has produced 30 tokens: the younger one stays 20 steps for certain."""
    memorised, survival = Memorised(minimum=1, running=0), Survival(running=0)
    for length in (12, 25, 33, 40):
        memorised.learn(finished(length, first=1000 + length))
        survival.learn(finished(length, first=1000 + length))
    stays = memorised.curve(active(30, 10, key=7), 25)
    alone = survival.curve(active(30), 25)[0]
    assert stays[0].tolist() == alone.tolist()
    assert stays[1].tolist() == [1.0] * 20 + alone[:6].tolist()
    unkeyed = Memorised(minimum=1, buckets=1, running=0)
    unkeyed.learn(finished(12, 25, 33, 40))
    assert unkeyed.curve(active(30, 10), 25)[1, 3] < 1.0, "without a key nobody speaks for another"


def test_a_key_of_which_outputs_are_known_goes_by_these():
    memorised = Memorised(minimum=1, running=0)
    memorised.learn(finished(50, key=7))
    memorised.curve(active(30, key=7), 25)
    assert memorised.curve(active(30, 45, key=7), 25)[0].tolist() == [1.0] * 20 + [0.0] * 6


@pytest.mark.parametrize("end", ["learn", "gone"])
def test_a_request_that_ended_is_no_bound_for_others_of_its_key(end):
    """One of key 7 got far and is over; outputs since then say that the prompt is short."""
    memorised, survival = Memorised(each=2, buckets=1, running=0, drift=0.0), Survival(running=0, drift=0.0)
    for predictor in (memorised, survival):
        predictor.learn(finished(65, 70, 80))
        predictor.predict(active(500, key=7), 20)
        getattr(predictor, end)(finished(1000, first=0, key=7))
        predictor.learn(finished(50, 50, key=7, first=2000))
    asked = active(60, key=7, first=3000)
    assert memorised.predict(asked, 20).leaves[0] == survival.predict(asked, 20).leaves[0] > 0.5


@pytest.mark.parametrize("key", [0, 7])
def test_a_request_that_went_away_is_known_no_longer(key):
    predictor = Memorised(window=40, buckets=2, drift=0.0)
    predictor.learn(finished(*[6] * 250, key=key))
    for first in range(2000, 4000):
        predictor.predict(active(3, first=first, key=key), 8)
        predictor.gone(finished(4, first=first, key=key))
    histories = [predictor._all, *predictor._sizes._histories]
    assert max(history.records.size for history in histories) <= 40
    assert sum(history._held.table.nbytes for history in histories) < 200_000
