"""How requests become visible: timed with prefill, users, sessions."""

from __future__ import annotations

import math

import numpy as np
from tests.sim.kernels import put, state

from evenstep.compiled import as_plain, column, cut
from evenstep.request import Trace
from evenstep.sim.cluster import arrivals as arrivals_kernel
from evenstep.sim.cluster import pool as pool_kernel

next_visible, follow_up = as_plain(arrivals_kernel.next_visible), as_plain(arrivals_kernel.follow_up)
needs, start_session = as_plain(arrivals_kernel.follow_ups), as_plain(arrivals_kernel.start_session)
heap_pop = as_plain(pool_kernel.heap_pop)


def timed(*arrivals: float, prompt=None, **cluster):
    """A run of requests that arrive at these times."""
    ones = np.ones(len(arrivals), np.int64)
    trace = Trace(ones if prompt is None else np.array(prompt), ones, arrival_s=np.array(arrivals))
    return state(trace, arrivals="timed", **cluster).run


def popped(run) -> list[tuple[float, int]]:
    """All of the heap, earliest first."""
    found = []
    while run.now.coming > 0:
        found.append((float(run.coming[0].time_s), int(run.coming[0].key)))
        run.now.coming = heap_pop(run.coming, run.now.coming)
    return found


def test_without_prefill_the_next_request_is_the_next_row():
    run, seen = timed(0.5, 2.0), []
    for cursor in range(3):
        run.now.cursor = cursor
        seen.append(next_visible(run))
    assert seen == [0.5, 2.0, math.inf]


def test_a_short_prompt_overtakes_a_long_one_and_no_arrival_is_pulled_too_early():
    run = timed(0.0, 0.5, 9.0, prompt=[8, 2, 1], prefill_base_s=1.0, prefill_per_token_s=0.5)
    assert next_visible(run) == 2.5
    assert run.now.cursor == 2  # row 2 cannot be ready before 10
    assert popped(run) == [(2.5, 1), (5.0, 0)]
    assert next_visible(run) == 10.5


def test_users_with_no_rows_left_bring_nothing():
    run = state(arrivals="closed", think_s=1.0).run
    put(run.coming[0], time_s=3.0)
    for cursor, when in ((2, 3.0), (3, math.inf)):
        put(run.now, cursor=cursor, coming=1)
        assert next_visible(run) == when


def test_a_user_comes_back_after_thinking():
    run = state(arrivals="closed", think_s=2.5).run
    put(run.now, coming_sequence=4, now_s=10.0)
    follow_up(run, 0)
    assert needs(run, 0) == 1
    assert run.now.coming_sequence == 5
    assert popped(run) == [(12.5, 4)]


def test_a_session_goes_on_after_each_request_and_the_next_starts_when_it_is_done():
    trace = Trace(
        np.ones(4, np.int64),
        np.ones(4, np.int64),
        session=np.array([7, 3, 7, 3]),
        after=np.array([-1, -1, 0, -1]),
        think_s=np.array([0.25, 1.0, 2.0, 0.5]),
    )
    run = state(trace, arrivals="closed").run
    start_session(run)
    assert popped(run) == [(0.25, 0)]
    run.now.now_s = 5.0
    assert needs(run, 0) == 1
    follow_up(run, 0)
    assert popped(run) == [(7.0, 2)]
    run.now.now_s = 8.0
    assert needs(run, 2) == 2  # session 7 ends with row 2: both roots of session 3
    follow_up(run, 2)
    assert column(cut(run.coming, 0, 2), "key").tolist() == [3, 1]
    assert popped(run) == [(8.5, 3), (9.0, 1)]
    assert needs(run, 1) == 0
