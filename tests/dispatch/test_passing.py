"""Turns told in number, and the events that say the same: two implementations of one promise."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.dispatch.batches import Batches, state
from tests.strategies import examples

from evenstep.dispatch import commands as co
from evenstep.dispatch import events as ev
from evenstep.dispatch.ending import TOGETHER
from evenstep.dispatch.turn_kernel import CAME_COLUMNS, TOLD
from evenstep.routing.view import HOLD


class Turns(Batches):
    """What comes up as a host of many tells it: whole answers, then requests, and now and then anything else."""

    def turn(self):
        """Ends and arrivals of one time."""
        choice = self.random.choice
        self.now_s += choice([0.0, 0.001, 0.02])
        ended, came = [], []
        for request in self.random.sample(sorted(self.legs), min(len(self.legs), choice([0, 1, 3, 6]))):
            ended.append(
                ev.Finished(
                    now_s=self.now_s, request=request, leg=self.legs[request] + (self.random.random() < 0.05),
                    prompt_tokens=choice([5, 31]), output_tokens=choice([1, 7]),
                )
            )  # fmt: skip
        for _ in range(choice([0, 1, 2, 4])):
            self.requests += 1
            came.append(
                ev.Arrived(
                    now_s=self.now_s, request=self.requests, prompt_tokens=choice([1, 30, 200]), tenant=choice("ab"),
                    key=choice([0, 9]), session=choice([0, 5]), expected_tokens=choice([0, 3]), max_tokens=choice([0, 4]),
                    request_class=choice([0, 2]), can_continue=False,
                )
            )  # fmt: skip
        return ended, came

    def as_events(self, ended, came):
        told = self.together([*ended, *came])
        if came and self.d.due:
            told += self.one_by_one([ev.Tick(now_s=self.now_s)])
        return told

    def as_turn(self, ended, came):
        d = self.d
        if not d.has_room:
            return self.as_events(ended, came)
        ends = np.array(
            [[d.rows.by_request.get(e.request, -1), e.leg, e.prompt_tokens, e.output_tokens] for e in ended]
        )
        told = np.array(
            [
                [
                    e.request,
                    e.prompt_tokens,
                    e.max_tokens,
                    e.key,
                    e.session,
                    e.request_class,
                    e.expected_tokens,
                    77,
                ]
                for e in came
            ]
        )
        padded = np.zeros((TOLD, TOGETHER), np.int64)
        padded[:, : len(ended)] = ends.reshape(-1, TOLD).T
        rows, commands = d.turn(
            self.now_s,
            (padded, [e.request for e in ended]),
            (told.reshape(-1, CAME_COLUMNS + 1), [e.request for e in came], [e.tenant for e in came]),
        )
        if came and not rows:
            return self.carry_out(commands) + self.as_events([], came)
        leg, sent = d.first_leg, []
        for event, row, worker in zip(came, rows, d.passed or [HOLD] * len(rows), strict=True):
            if worker != HOLD:
                leg += 1
                sent.append(co.SendDecode(event.request, leg, d.mirror.names[worker], row))
        return self.carry_out([*commands, *sent])


@examples(100, fast=20)
@given(st.integers(0, 10_000))
def test_a_turn_leaves_the_state_that_its_events_leave(seed):
    one, other = Turns(seed), Turns(seed)
    for number in range(25):
        if number % 5 == 4:
            events = one.batch()
            assert other.batch() == events
            assert one.together(events) == other.together(events)
        else:
            told = one.turn()
            assert other.turn() == told
            assert one.as_turn(*told) == other.as_events(*told)
        assert state(one.d) == state(other.d)


def test_turns_are_what_happens_where_nobody_waits():
    turns = Turns(0)
    turns.d.handle(ev.Reloaded(now_s=0.0, policy="jsq:ties=lowest", settings=None))
    passed = 0
    for _ in range(30):
        ended, came = turns.turn()
        turns.as_turn(ended, came[:1])
        passed += len(turns.d.passed)
        for event in turns.d.handle(ev.Tick(now_s=turns.now_s)):
            turns.carry_out([event])
    assert passed > 5


def test_a_prompt_that_is_counted_by_row_is_what_its_event_leaves():
    found = []
    for is_by_row in (True, False):
        story = Turns(0)
        d = story.d
        d.handle(ev.Reloaded(now_s=0.0, policy="jsq:ties=lowest", settings=None))
        story.one_by_one([ev.Arrived(now_s=1.0, request=1, prompt_tokens=30)])
        story.one_by_one([ev.Tick(now_s=1.0)])
        row = d.rows.by_request[1]
        d.now_s = 1.5
        d.produced(row, 1)
        before = state(d)
        if is_by_row:
            d.counted(row, 44)
        else:
            assert d.handle(ev.PromptCounted(now_s=1.5, request=1, prompt_tokens=44)) == []
        assert state(d) != before
        found.append(state(d))
    assert found[0] == found[1]


def test_requests_that_may_not_come_in_are_left_to_events():
    turns = Turns(3)
    d = turns.d
    told = np.zeros((1, CAME_COLUMNS), np.int64)
    told[0, :2] = 1, 0
    ends = np.zeros((TOLD, TOGETHER), np.int64), []
    assert d.turn(0.0, ends, (told, [1], ["a"]))[0] == []
    assert not d.rows.by_request and state(d) == state(d)
