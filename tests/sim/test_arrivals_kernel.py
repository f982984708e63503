"""How requests become visible: timed with prefill, users, sessions."""

from __future__ import annotations

import math

import numpy as np
from tests.sim.kernels import float_scalars, plainly, scalars

from evenstep.request import Trace
from evenstep.sim import arrivals_kernel, pool_kernel
from evenstep.sim import cluster_layout as at
from evenstep.sim.cluster_state import _links as links_of

NOTHING = np.zeros(0)
next_visible = plainly(arrivals_kernel.next_visible)
start_sessions, follow_up = plainly(arrivals_kernel.start_sessions), plainly(arrivals_kernel.follow_up)


def popped(sc, times, keys) -> list[tuple[float, int]]:
    """All of the heap, earliest first."""
    found = []
    while sc[at.HEAP_SIZE] > 0:
        found.append((float(times[0]), int(keys[0])))
        pool_kernel.heap_pop(sc, times, keys)
    return found


def test_without_prefill_the_next_request_is_the_next_row():
    sc = scalars(arrivals=at.TIMED, requests=2)
    arrival = np.array([0.5, 2.0])
    seen = []
    for cursor in range(3):
        sc[at.CURSOR] = cursor
        seen.append(next_visible(sc, float_scalars(), NOTHING, NOTHING, arrival, NOTHING))
    assert seen == [0.5, 2.0, math.inf]


def test_a_short_prompt_overtakes_a_long_one_and_no_arrival_is_pulled_too_early():
    sc, sf = scalars(arrivals=at.TIMED, requests=3), float_scalars(prefill_base=1.0, prefill_token=0.5)
    times, keys = np.zeros(8), np.zeros(8, np.int64)
    arrival, prompt = np.array([0.0, 0.5, 9.0]), np.array([8, 2, 1])
    assert next_visible(sc, sf, times, keys, arrival, prompt) == 2.5
    assert sc[at.CURSOR] == 2  # row 2 cannot be ready before 10
    assert popped(sc, times, keys) == [(2.5, 1), (5.0, 0)]
    assert next_visible(sc, sf, times, keys, arrival, prompt) == 10.5


def test_users_with_no_rows_left_bring_nothing():
    times, keys = np.array([3.0]), np.array([0])
    for cursor, when in ((1, 3.0), (2, math.inf)):
        sc = scalars(arrivals=at.USERS, requests=2, cursor=cursor, heap_size=1)
        assert next_visible(sc, float_scalars(), times, keys, NOTHING, NOTHING) == when


def test_a_user_comes_back_after_thinking():
    sc, sf = scalars(arrivals=at.USERS, heap_sequence=4), float_scalars(now=10.0, think=2.5)
    times, keys = np.zeros(4), np.zeros(4, np.int64)
    follow_up(sc, sf, times, keys, NOTHING, NOTHING, 0)
    assert plainly(arrivals_kernel.follow_ups)(sc, NOTHING, 0) == 1
    assert sc[at.HEAP_SEQUENCE] == 5
    assert popped(sc, times, keys) == [(12.5, 4)]


def test_a_session_goes_on_after_each_request_and_the_next_starts_when_it_is_done():
    think = np.array([0.25, 1.0, 2.0, 0.5])
    trace = Trace(
        np.ones(4, np.int64), np.ones(4, np.int64),
        session=np.array([7, 3, 7, 3]), after=np.array([-1, -1, 0, -1]), think_s=think,
    )  # fmt: skip
    links = links_of(trace)
    sc, sf = scalars(arrivals=at.SESSIONS, requests=4), float_scalars()
    times, keys = np.zeros(8), np.zeros(8, np.int64)
    start_sessions(sc, sf, times, keys, links, think, 2, 0.0)
    assert popped(sc, times, keys) == [(0.25, 0)]
    needs = plainly(arrivals_kernel.follow_ups)
    sf[at.NOW] = 5.0
    assert needs(sc, links, 0) == 1
    follow_up(sc, sf, times, keys, links, think, 0)
    assert popped(sc, times, keys) == [(7.0, 2)]
    sf[at.NOW] = 8.0
    assert needs(sc, links, 2) == 2  # session 7 ends with row 2: both roots of session 3
    follow_up(sc, sf, times, keys, links, think, 2)
    assert popped(sc, times, keys) == [(8.5, 3), (9.0, 1)]
    assert needs(sc, links, 1) == 0
