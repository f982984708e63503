"""Starts of requests: given ends, exactly these starts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import traces

from evenstep.errors import InputError
from evenstep.load.schedule import Schedule, order_of
from evenstep.request import Trace


def trace(arrivals=None, **columns):
    rows = len(next(iter([v for v in (arrivals, *columns.values()) if v is not None])))
    ones = np.ones(rows, np.int64)
    kinds = {name: np.array(v, np.float64 if name.endswith("_s") else np.int64) for name, v in columns.items()}
    times = None if arrivals is None else np.array(arrivals, np.float64)
    return Trace(ones, ones, arrival_s=times, **kinds)


def taken(schedule, now_s):
    found = []
    while (one := schedule.due(now_s)) is not None:
        found.append(one)
    return found


def test_an_open_loop_starts_requests_at_their_times_whatever_else_runs():
    schedule = Schedule(trace([0.0, 1.0, 1.0]), times=np.array([0.0, 1.0, 1.0]))
    assert taken(schedule, 0.5) == [(0, 0.0)]
    assert schedule.next_s == 1.0
    assert taken(schedule, 2.0) == [(1, 1.0), (2, 1.0)]
    assert schedule.next_s is None
    assert not schedule.is_over


def test_an_open_loop_needs_times():
    with pytest.raises(InputError, match=r"--rate.*--closed"):
        Schedule(trace(session=[-1, -1]))


def test_a_turn_of_a_session_waits_for_the_one_before_it():
    one = trace([0.0, 1.0, 2.0], session=[7, 7, 7])
    schedule = Schedule(one, times=one.arrival_s)
    assert taken(schedule, 9.0) == [(0, 0.0)]
    schedule.ended(0, 1.5)
    assert taken(schedule, 9.0) == [(1, 1.5)]
    schedule.ended(1, 1.7)
    assert schedule.next_s == 2.0


def test_users_take_the_next_request_when_theirs_has_ended():
    schedule = Schedule(trace(session=[-1] * 4), users=2)
    assert taken(schedule, 0.0) == [(0, 0.0), (1, 0.0)]
    schedule.ended(1, 3.0)
    assert taken(schedule, 3.0) == [(2, 3.0)]
    schedule.ended(0, 4.0)
    schedule.ended(2, 4.0)
    assert taken(schedule, 4.0) == [(3, 4.0)]
    schedule.ended(3, 5.0)
    assert schedule.is_over


def test_a_user_thinks_inside_a_session_and_only_there():
    one = trace(session=[1, 1, 2], think_s=[5.0, 2.0, 5.0])
    schedule = Schedule(one, users=1, speed=4.0)
    assert taken(schedule, 0.0) == [(0, 0.0)]
    schedule.ended(0, 1.0)
    assert schedule.next_s == 1.5
    assert taken(schedule, 1.5) == [(1, 1.5)]
    schedule.ended(1, 2.0)
    assert taken(schedule, 2.0) == [(2, 2.0)]


def test_more_users_than_sessions_are_no_error():
    assert len(taken(Schedule(trace(session=[-1, -1]), users=9), 0.0)) == 2


def test_after_wins_over_the_order_in_a_session():
    one = trace(session=[1, 1, 1], after=[-1, 0, 0])
    assert order_of(one).tolist() == [-1, 0, 0]
    schedule = Schedule(one, users=1)
    taken(schedule, 0.0)
    schedule.ended(0, 1.0)
    assert taken(schedule, 1.0) == [(1, 1.0), (2, 1.0)]


@given(traces(), st.integers(0, 3), st.randoms(use_true_random=False))
def test_every_request_starts_once_and_after_the_one_it_waits_for(one, users, random):
    times = None if users else one.column("arrival_s")
    schedule = Schedule(one, users=users, times=times)
    after, running, ended, now_s = order_of(one), [], set(), 0.0
    started = []
    while not schedule.is_over:
        for row, due_s in taken(schedule, now_s):
            assert due_s <= now_s
            assert after[row] < 0 or int(after[row]) in ended
            started.append(row)
            running.append(row)
        if users:
            assert len({int(schedule._unit[row]) for row in running}) <= users
        if running:
            row = running.pop(random.randrange(len(running)))
            ended.add(row)
            schedule.ended(row, now_s)
        else:
            now_s = schedule.next_s
    assert sorted(started) == list(range(len(one)))
    assert schedule.next_s is None
