"""Starts of requests: given ends, exactly these starts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sim.network.networks import call, one_engine
from tests.strategies import traces

from evenstep.errors import InputError
from evenstep.load.schedule import Schedule, Workflow, order_of
from evenstep.request import Trace
from evenstep.sim.network.tasks import draw


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


def test_requests_outside_sessions_that_wait_for_each_other_have_one_user():
    schedule = Schedule(trace(after=[-1, -1, 0, 1]), users=1)
    assert taken(schedule, 0.0) == [(0, 0.0)]
    schedule.ended(0, 1.0)
    assert taken(schedule, 1.0) == [(2, 1.0)]
    schedule.ended(2, 2.0)
    assert taken(schedule, 2.0) == [(1, 2.0)]
    schedule.ended(1, 3.0)
    assert taken(schedule, 3.0) == [(3, 3.0)]


def test_a_session_that_waits_for_another_has_its_user():
    schedule = Schedule(trace(session=[2, 1, 2], after=[-1, -1, 1]), users=1)
    assert taken(schedule, 0.0) == [(0, 0.0), (1, 0.0)]
    schedule.ended(0, 1.0)
    schedule.ended(1, 1.0)
    assert taken(schedule, 1.0) == [(2, 1.0)]


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


def forked(speed: float = 1.0) -> Workflow:
    """One task: a call, two after it, and one after both, 2 s later."""
    calls = {"plan": call("one"), "left": call("one", after=["plan"]), "right": call("one", after=["plan"])}
    calls["join"] = call("one", after=["left", "right"], delay_s=2.0)
    drawn = draw(one_engine(calls, count=1))
    drawn.arrival_s[0] = 6.0
    return Workflow(drawn, ["one"] * 4, np.array([-0.5, 0.5, 1.5, 2.5]), 100.0, speed)


def test_a_call_is_due_when_all_its_parents_have_ended_and_its_delay_is_over():
    flow = forked()
    assert flow.next_s == 6.0 and flow.due(5.9) is None and flow.due(6.0) == (0, 6.0) and flow.next_s is None
    flow.ended(0, 7.5)
    assert [flow.due(7.5), flow.due(7.5), flow.due(7.5)] == [(1, 7.5), (2, 7.5), None]
    flow.ended(2, 8.0)
    assert flow.next_s is None
    flow.ended(1, 9.0)
    assert flow.next_s == 11.0 and flow.due(11.0) == (3, 11.0) and not flow.is_over
    flow.ended(3, 12.0)
    assert flow.is_over and (flow.started, flow.finished) == (4, 4)


def test_speed_shortens_times_delays_and_the_run():
    flow = forked(speed=4.0)
    assert flow.until_s == 25.0 and flow.next_s == 1.5
    for _ in range(3):
        found = flow.due(10.0)
        assert found is not None
        flow.ended(found[0], 10.0)
    assert flow.next_s == 10.5


def test_a_call_says_its_task_and_its_priority():
    assert forked().lines(2) == b"X-Evenstep-Task: task-0\r\nX-Evenstep-Priority: 1.5\r\n"


def test_a_first_call_waits_for_its_own_delay():
    drawn = draw(one_engine({"plan": call("one", delay_s=2.0)}, count=1))
    drawn.arrival_s[0] = 6.0
    assert Workflow(drawn, ["one"], np.zeros(1), speed=4.0).next_s == 2.0
