"""Steps of a barrier group, told apart by counting, however its chunks are mixed up."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dispatch.one_group import OneGroup
from tests.strategies import examples

from evenstep.compiled import as_plain
from evenstep.dispatch.steps.lockstep import AHEAD, was_in_step
from evenstep.dispatch.steps.state import WIDE


@st.composite
def mixed(draw):
    """Chunks in an order in which each request's own are: requests, and who is heard next."""
    requests, steps = draw(st.integers(1, 5)), draw(st.integers(1, AHEAD - 1))
    order = [name for name in range(requests) for _ in range(steps)]
    return requests, steps, draw(st.permutations(order))


@given(mixed())
@examples(300, fast=40)
def test_a_step_ends_when_each_request_has_delivered_its_token_of_it_in_whatever_order_they_are_heard(chunks):
    requests, steps, order = chunks
    group, heard, ended = OneGroup().begun(range(requests)), [0] * requests, 0
    for place, name in enumerate(order):
        now_s = 4.0 + place * 1e-6
        group.delivers(name, now_s)
        heard[name] += 1
        complete = min(heard)
        assert len(group.ended) == complete
        if complete > ended:
            assert group.ended[-1] == now_s
        ended = complete
        assert group.is_between == (max(heard) == complete)
    assert len(group.ended) == steps


@given(mixed())
@examples(300, fast=40)
def test_chunks_of_several_tokens_are_of_so_many_steps(chunks):
    """The same order, but all that a request delivers in a row comes in one chunk."""
    requests, _, order = chunks
    group, heard, whole = OneGroup().begun(range(requests)), [0] * requests, deque(order)
    while whole:
        name, tokens = whole.popleft(), 1
        while whole and whole[0] == name:
            whole.popleft()
            tokens += 1
        group.delivers(name, 4.0, tokens)
        heard[name] += tokens
        assert len(group.ended) == min(heard)


@given(st.data())
@examples(300, fast=40)
def test_every_step_is_told_from_the_next_where_requests_come_and_go_and_two_steps_mix(data):
    """Who joins and who leaves is known at the end of each step; the chunks of the next two come in any order."""
    group, running, fresh, now_s, expected = OneGroup().begun(range(3)), {0, 1, 2}, 3, 3.0, 0
    for _ in range(data.draw(st.integers(1, 8))):
        both = [name for name in sorted(running) for _ in range(2)]
        for place, name in enumerate(data.draw(st.permutations(both))):
            group.delivers(name, now_s + 1.5 + place * 1e-6)
        now_s, expected = now_s + 2.0, expected + 2 * bool(running)
        assert len(group.ended) == expected
        for name in data.draw(st.sets(st.sampled_from(sorted(running)), max_size=len(running) - 1)):
            group.leaves(name)
            running.discard(name)
        for _ in range(data.draw(st.integers(0, 2))):  # their first token is a little late for the step
            group.delivers(fresh, now_s - 0.4)
            running.add(fresh)
            fresh += 1
        assert group.running == len(running)
        assert group.expected == len(running)


def test_steps_that_are_heard_of_at_once_share_the_time():
    group = OneGroup().begun("ab")
    group.delivers("a", 6.0, tokens=3)
    group.delivers("b", 6.0, tokens=3)
    assert group.ended == pytest.approx([4.0, 5.0, 6.0])


def test_a_first_token_that_comes_soon_is_late_for_the_last_step_else_it_is_of_the_next():
    for after_s, between in ((0.4, True), (0.6, False)):
        group = OneGroup().begun("ab")
        group.delivers("c", 3.0 + after_s)
        assert group.is_between is between
        assert group.last("c") == group.last("a") + (not between)


def test_a_request_that_is_taken_for_one_too_low_does_not_hold_up_the_others_for_long():
    """A newcomer's first token was of the next step, and was taken for a late one: it ends each step one step too late."""
    group = OneGroup().begun("ab")
    group.delivers("c", 3.4)
    for name in "ab":
        group.delivers(name, 4.0)
    assert group.ended == []  # the newcomer is waited for
    for name in "cab":
        group.delivers(name, 5.0)
    assert group.ended == [4.0, 5.0]
    for now_s in (6.0, 7.0):
        for name in "abc":
            group.delivers(name, now_s)
    assert group.ended == [4.0, 5.0, 6.0, 7.0]


def test_a_request_of_which_nothing_is_heard_is_not_waited_for_and_joins_again_when_it_is():
    group = OneGroup().begun("abc")
    for step in range(AHEAD + 3):
        for name in "ab":
            group.delivers(name, 4.0 + step)
    assert len(group.ended) == AHEAD + 3
    assert group.expected == 2
    group.delivers("c", 3.0 + AHEAD + 3, tokens=AHEAD + 3)  # all at once
    assert group.expected == 3
    assert group.last("c") == group.last("a")


def test_an_engine_that_makes_several_tokens_in_a_step_is_counted_by_chunks():
    group = OneGroup().begun("ab")
    steps = 300
    for step in range(steps):
        group.delivers("a", 4.0 + step, tokens=1 + step % 4)
        group.delivers("b", 4.0 + step, tokens=1)
    so_far = len(group.ended)
    for step in range(100):
        group.delivers("a", 400.0 + step, tokens=1 + step % 4)
        group.delivers("b", 400.0 + step, tokens=1)
    assert len(group.ended) == so_far + 100
    assert so_far < 1.2 * steps


def test_one_long_pause_of_the_reader_does_not_change_what_is_counted():
    group = OneGroup().begun("ab")
    for name in "ab":
        group.delivers(name, 20.0, tokens=2 * AHEAD)
    group.ended.clear()
    for name in "ab":
        group.delivers(name, 22.0, tokens=2)
    assert group.ended == [21.0, 22.0]


def test_who_leaves_in_the_middle_of_a_step_has_delivered_it_or_is_not_waited_for():
    group = OneGroup().begun("abc")
    group.delivers("a", 4.0)
    assert as_plain(was_in_step)(group.at, 0, group.last("a"))
    assert not as_plain(was_in_step)(group.at, 0, group.last("b"))
    group.leaves("a")
    assert group.ended == [] and not group.is_between
    group.delivers("c", 4.1)
    group.leaves("b")
    assert group.ended == [4.1]
    assert group.expected == 1
    group.leaves("c")
    assert group.expected == group.running == 0


def test_requests_of_several_copies_are_not_waited_for():
    group = OneGroup().begun("ab")
    group.delivers("wide", 3.5, copies=2)
    assert group.last("wide") == WIDE and group.running == 3
    group.delivers("a", 4.0), group.delivers("b", 4.0)
    group.leaves("wide")
    assert group.ended == [4.0] and group.running == 2


def test_a_chunk_of_any_number_of_tokens_takes_bounded_room_and_time():
    group = OneGroup().begun("ab")
    group.delivers("a", 4.0, tokens=10**17)
    assert group.steps.early_room <= 1024
    group.delivers("b", 4.001)
    group.leaves("a")
    group.leaves("b")
    assert group.running == 0


def test_requests_that_part_far_again_and_again_are_counted_by_chunks():
    """Of one request each chunk has more tokens than a request may be ahead: the engine makes several in a step."""
    group, steps = OneGroup().begun("ab"), 100
    for step in range(steps):
        group.delivers("a", 4.0 + step, tokens=AHEAD + 1)
        group.delivers("b", 4.0 + step)
    group.ended.clear()
    for step in range(steps):
        group.delivers("a", 200.0 + step, tokens=AHEAD + 1)
        group.delivers("b", 200.0 + step)
    assert len(group.ended) == steps


def test_a_group_that_had_a_pause_is_as_one_that_begins():
    before, new = OneGroup().begun("ab"), OneGroup().begun("ab")
    for step in range(40):
        before.delivers("a", 4.0 + step, tokens=1 + step % 4)
        before.delivers("b", 4.0 + step)
    for name in "ab":
        before.leaves(name)
    for group, from_s in ((before, 100.0), (new, 0.0)):
        if group is before:
            group.ended.clear()
            for step in range(3):
                for name in "cd":
                    group.delivers(name, from_s + 1.0 + step)
        group.ended.clear()
        first, second = group.row
        for step in range(8):  # one time fewer than makes it count by chunks
            group.delivers(first, from_s + 4.0 + step, tokens=1 + 2 * (step < 7))
            group.delivers(second, from_s + 4.0 + step)
    assert [at_s - 100.0 for at_s in before.ended] == pytest.approx(new.ended)
    assert before.at.counts_tokens[0] == new.at.counts_tokens[0] == 1


def test_each_step_is_counted_once_if_a_request_runs_ahead():
    group = OneGroup().begun("ab")
    group.delivers("a", 5.0, tokens=2)
    group.delivers("b", 5.1)
    assert group.at.steps[0] == 3, "a request is in the next step, so the fourth is over; the first has no length"
    group.delivers("b", 5.2)
    group.delivers("a", 6.0)
    assert (group.ended, group.at.steps[0]) == ([5.1, 5.2], 4)
