"""The window of lengths: what it answers, what it forgets, and when it notices a change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import halves
from tests.predict.asked import active, both_stages, finished, ints

from evenstep.errors import InputError
from evenstep.predict import history as history_module
from evenstep.predict import window
from evenstep.predict.history import LONGEST, History, differ
from evenstep.predict.memorised import Memorised
from evenstep.predict.view import Finished


def learn(history, completions):
    history.learn(completions.request_id, completions.output_tokens)


def asked(history, requests):
    history.asked(requests.request_id, requests.age)


def lengths_in(history):
    return history.records[history.records > 0]


lengths_of = st.lists(st.integers(1, 60), max_size=40)


@settings(max_examples=60, deadline=None)
@given(lengths_of, st.lists(st.integers(0, 70), min_size=1, max_size=6), st.integers(1, 25), st.integers(1, 12))
def test_both_stages_and_the_curve_are_those_of_the_latest_lengths(lengths, ages, horizon, window):
    history = History(window, 0.0)
    learn(history, finished(*lengths))
    kept = lengths[-window:]
    assert lengths_in(history).tolist() == kept
    answer, silent = history.leaving(ints(*ages), horizon)
    stays, also_silent = history.curve(ints(*ages), horizon)
    expected = [both_stages(kept, age, horizon) for age in ages]
    assert silent.tolist() == also_silent.tolist() == [both is None for both in expected]
    for i, both in enumerate(expected):
        p, mu = both or (0.0, float(horizon))
        assert answer.leaves[i] == p
        assert answer.steps_left[i] == pytest.approx(max(1.0, p * mu + (1 - p) * horizon), rel=1e-14)
        assert stays[i, 0] == 1.0
        assert stays[i, horizon] == pytest.approx(1.0 - p, abs=1e-15)
        assert answer.steps_left[i] == pytest.approx(max(1.0, stays[i, :horizon].sum()), rel=1e-12)


@st.composite
def lives(draw):
    """Events of requests 0..7 in order: (request, age it was asked about at) or (request, -length it ended with)."""
    events, age, ended = [], {}, set()
    for request, step, ends in draw(st.lists(st.tuples(st.integers(0, 7), st.integers(1, 9), st.booleans()), max_size=40)):
        if request not in ended:
            age[request] = age.get(request, 0) + step
            events.append((request, -age[request] if ends else age[request]))
            ended |= {request} if ends else set()
    return events


def fed(history, events, leaves=0):
    """A history of these events; who is asked about at an age that `leaves` divides goes away then."""
    for request, value in events:
        if value > 0:
            asked(history, active(value, first=request))
            if leaves and value % leaves == 0:
                history.gone(ints(request), ints(value))
        else:
            learn(history, finished(-value, first=request))
    learn(history, finished())
    return history


def kaplan_meier(records, age, horizon):
    """P(r > h) for h = 0..H by the words of the definition."""
    chance, found = 1.0, [1.0]
    for x in range(age + 1, age + horizon + 1):
        at_risk = sum(abs(r) >= x for r in records)
        if at_risk:
            chance *= 1 - sum(r == x for r in records) / at_risk
        found.append(chance)
    return found


@settings(max_examples=80, deadline=None)
@given(lives(), st.integers(0, 40), st.integers(1, 12), st.integers(1, 9), st.integers(0, 3))
def test_running_requests_count_as_longer_than_their_age(events, age, horizon, window, ahead):
    history = fed(History(window, 0.0, running=1, ahead=ahead), events)
    last = dict(events)
    order = list(dict.fromkeys(request for request, _ in events))
    records = history.records.tolist()
    whole = [-v if v < 0 else -v - ahead for v in (last[request] for request in order)]
    assert len(history) == sum(r > 0 for r in records)
    assert len(records) >= min(len(order), window) * any(v < 0 for v in last.values())
    if len(records) == len(order):
        assert sorted(records) == sorted(whole)
    answer, silent = history.leaving(ints(age), horizon)
    stays, _ = history.curve(ints(age), horizon)
    assert silent.tolist() == [not any(r > age for r in records)]
    expected = [1.0] * (horizon + 1) if silent[0] else kaplan_meier(records, age, horizon)
    assert stays[0].tolist() == pytest.approx(expected, abs=1e-12)
    assert answer.leaves[0] == pytest.approx(1 - expected[-1], abs=1e-12)
    assert answer.steps_left[0] == pytest.approx(max(1.0, sum(expected[:-1])), abs=1e-12)


@settings(max_examples=20, deadline=None)
@given(lives(), st.integers(0, 3), st.integers(0, 4))
def test_the_compiled_window_is_the_plain_one_bit_by_bit(events, running, leaves):
    compiled = fed(History(5, 0.0, running), events, leaves)
    plain_kernel = {name: getattr(value, "py_func", value) for name, value in vars(window).items() if callable(value)}
    with pytest.MonkeyPatch.context() as patch:
        for name, function in plain_kernel.items():
            patch.setattr(window, name, function)
        plain = fed(History(5, 0.0, running), events, leaves)
        bits = answers(plain)
    assert answers(compiled) == bits


@settings(max_examples=60, deadline=None)
@given(lives(), st.integers(1, 3), st.integers(1, 4))
def test_learning_in_parts_ends_where_learning_at_once_does(events, running, rows):
    """Each part looks at a piece of `_PIECE` requests at least; a history that is asked in between does the rest first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history_module, "_PIECE", 1)
        patch.setattr(history_module, "_PENDING", 6)  # ages of a request are made one
        parts = fed(History(9, 0.5, running, ahead=2), events)
        parts.begin(ints(50, 51, 52), ints(30, 3, 61))
        turns = 0
        while not parts.advance(rows):
            turns += 1
    at_once = fed(History(9, 0.5, running, ahead=2), events)
    at_once.learn(ints(50, 51, 52), ints(30, 3, 61))
    assert answers(parts) == answers(at_once)
    assert turns >= 3 // rows - 1


def test_asking_before_all_is_learned_is_asking_after_it():
    """A prediction asked for while learning goes on is that of a predictor that has learned everything."""
    answers = []
    for rows in (1, 1 << 40):
        memorised = Memorised(running=3, window=300)
        for at in range(0, 900, 60):
            memorised.curve(active(*range(60), first=at), 8)
            memorised.begin(Finished(*np.arange(at, at + 30)[None].repeat(2, 0), ints(*range(80, 110)), ints(*[0] * 30)))
            memorised.advance(rows)
        answers.append(memorised.curve(active(*range(0, 100, 9), first=2000), 8).tobytes())
    assert answers[0] == answers[1]


def answers(history):
    ages = np.arange(0, 40, 3)
    prediction, _ = history.leaving(ages, 7)
    stays, _ = history.curve(ages, 7)
    return [a.tobytes() for a in (history.records, prediction.steps_left, prediction.leaves, stays)]


def test_requests_that_went_away_stay_in_the_window_as_longer_than_they_got_and_leave_it_with_it():
    history = History(20, 0.0, running=1, ahead=16)
    learn(history, finished(5, 9))
    asked(history, active(3, 30, first=0))
    history.gone(ints(0, 7), ints(4, 8))  # nobody knows of 7
    learn(history, finished())
    assert history.records.tolist() == [5, 9, -4, -46]
    history.gone(ints(1), ints(40))
    assert history.records.tolist() == [5, 9, -4, -40]
    learn(history, finished(*range(1, 21)))
    assert history.records.tolist() == list(range(1, 21))
    assert len(history) == 20


@pytest.mark.parametrize("running", [0, 1])
def test_what_is_known_does_not_grow_with_requests_that_went_away(running):
    history = History(50, 0.0, running)
    for first in range(0, 8000, 4):
        asked(history, active(2, 2, 2, 2, first=first))
        history.gone(ints(*range(first, first + 3)), ints(3, 3, 3))
        learn(history, finished(6, first=first + 3))
    assert history.records.size <= 50
    assert sum(part.nbytes for part in (history._held.records, history._held.table)) < 200_000


def test_asking_alone_changes_no_answer():
    history = History(100, 0.0, running=1)
    learn(history, finished(5, 10, 20))
    before = answers(history)
    for round_ in range(600):
        asked(history, active(*[round_ % 30] * 3))
    assert answers(history) == before
    learn(history, finished(20))
    assert sorted(history.records.tolist()) == [-29, -29, -29, 5, 10, 20, 20]


def test_running_requests_count_from_a_number_of_ended_ones_on():
    history = History(100, 0.0, running=3)
    asked(history, active(7, 8))
    learn(history, finished(5, 10))
    assert sorted(history.records.tolist()) == [5, 10]
    learn(history, finished(4))
    assert sorted(history.records.tolist()) == [-8, -7, 4, 5, 10]


def test_the_window_grows_with_the_requests_that_run():
    history = History(10, 0.0, running=1)
    learn(history, finished(*[5] * 30))
    assert history.records.size == 10
    asked(history, active(*[7] * 4000))
    learn(history, finished(9, first=0))
    learn(history, finished(*[6] * 13_000, first=10_000))
    assert history.records.size == 4 * 3999
    assert len(history) == 13_000


def test_what_still_runs_when_it_leaves_the_window_is_known_and_not_entered_again():
    history = History(3, 0.0, running=1)
    learn(history, finished(1))
    asked(history, active(2))
    learn(history, finished(*[5] * 9))
    assert history.records.tolist() == [5, 5, 5, 5]
    asked(history, active(40))
    with pytest.raises(InputError, match="request 0: output_tokens is 39; expected at least 40"):
        learn(history, finished(39, first=0))
    learn(history, finished(45, first=0))
    assert history.records.tolist() == [5, 5, 5, 5]


def test_lengths_beyond_the_first_table_are_taken_in_and_counted_like_any():
    history = History(10, 0.0)
    learn(history, finished(5, 40_000, 7, 10**9))
    assert lengths_in(history).tolist() == [5, 40_000, 7, LONGEST]
    answer, silent = history.leaving(ints(6, 39_990, 50_000, LONGEST), 20)
    assert answer.leaves.tolist() == [1 / 3, 1 / 2, 0.0, 0.0]
    assert silent.tolist() == [False, False, False, True]  # nothing is known of an age no length passes


@pytest.mark.parametrize("lengths", [(3, 0), (-7,)])
def test_a_length_below_one_is_a_bad_one(lengths):
    with pytest.raises(InputError, match=rf"finished: output_tokens is {lengths[-1]}; expected an integer >= 1"):
        learn(History(10, 0.0), finished(*lengths))


def test_an_age_below_zero_is_a_bad_one():
    history = History(10, 0.0)
    with pytest.raises(InputError, match=r"active: age is -2; expected an integer >= 0"):
        history.leaving(ints(4, -2), 5)
    with pytest.raises(InputError, match="age is -2"):
        history.curve(ints(-2), 5)


def test_a_request_refused_for_its_age_does_not_count_as_finished():
    history = History(10, 0.0)
    asked(history, active(-5))
    learn(history, finished(9))
    assert lengths_in(history).tolist() == [9]


def test_when_outputs_change_the_old_ones_are_forgotten_and_it_is_counted():
    rng = np.random.default_rng(3)
    history = History(2000, 2.0)
    learn(history, finished(*rng.integers(1, 100, 2000)))
    assert (history.drifts, history.forgotten, len(history)) == (0, 0, 2000)
    for _ in range(10):
        learn(history, finished(*rng.integers(300, 400, 100)))
    assert history.drifts >= 1
    assert history.forgotten >= 2000 - 1000
    assert np.mean(lengths_in(history) >= 300) > 0.9
    answer, _ = history.leaving(ints(310), 40)
    assert answer.leaves[0] == pytest.approx(40 / 90, abs=0.1)


def test_outputs_that_do_not_change_are_kept():
    rng = np.random.default_rng(5)
    history = History(1000, 2.0)
    for _ in range(100):
        learn(history, finished(*np.clip(rng.gamma(1.5, 180, 100), 1, 2000)))
    assert history.drifts <= 1
    never = History(1000, 0.0)
    learn(never, finished(*np.repeat([1, 500], 1000)))
    assert never.drifts == 0


def test_halves_differ_when_their_distance_is_more_than_chance_explains():
    low, high = (
        np.arange(1, 101),
        np.arange(51, 151),
    )  # distance 1/2; chance at level 2: 2 * sqrt(2 / 100) = 0.28
    both = np.concatenate([low, high])
    assert differ(both, 100, 2.0)
    assert not differ(both, 100, 3.6)
    assert differ(both, 100, 3.5)
    assert not differ(np.concatenate([low, low[::-1]]), 100, 0.01)


def test_requests_that_still_run_make_no_difference_by_themselves():
    rng = np.random.default_rng(2)
    lengths = rng.integers(1, 400, 2000)
    censored_at = rng.integers(0, 400, 1000)
    young = np.where(lengths[1000:] > censored_at, -censored_at, lengths[1000:])
    assert differ(np.concatenate([lengths[:1000], young[young > 0]]), 1000, 2.0)  # completions alone look shorter
    assert not differ(np.concatenate([lengths[:1000], young]), 1000, 2.0)


@given(
    st.lists(st.integers(-30, 40), min_size=2, max_size=60),
    st.integers(0, 5),
    st.sampled_from([0.3, 0.7, 1.0, 2.0]),
    st.floats(0.1, 0.9),
    st.sampled_from([1, 10_000]),
)
def test_halves_compared_by_counting_are_those_compared_by_sorting(values, ahead, drift, share, tokens):
    records = np.array(values) * tokens  # lengths of more than 65536 are counted by rank
    ahead *= tokens
    half = min(len(values) - 1, max(1, int(share * len(values))))
    assert differ(records, half, drift, ahead) == halves.differ(records[:half], records[half:], drift, ahead)


def test_lengths_that_have_no_place_each_are_compared_too():
    history = History(1000, 0.5)
    learn(history, finished(*np.repeat([1, 100_000], 300)))
    assert history.drifts > 0
