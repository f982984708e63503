"""When requests become visible."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.oracles.arrivals import Arrivals

from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.sim.cluster.simulation import Cluster


def trace_of(rows, **columns):
    ones = np.ones(rows, np.int64)
    return Trace(ones, ones, **{name: np.array(x) for name, x in columns.items()})


def test_saturated_requests_come_by_topping_up_only():
    arrivals = Arrivals(trace_of(5), Cluster(1, 1, pool=3))
    assert arrivals.next_s == math.inf and arrivals.due(9.0) == []
    assert arrivals.top_up(2.0, 1) == [(2.0, 0), (2.0, 1)]
    assert arrivals.top_up(3.0, 4) == []
    assert arrivals.top_up(4.0, 0) == [(4.0, 2), (4.0, 3), (4.0, 4)] and arrivals.top_up(5.0, 0) == []


def test_timed_requests_come_in_order_of_time_then_row():
    cluster = Cluster(1, 1, arrivals="timed", prefill_per_token_s=1.0)
    trace = Trace(np.array([3, 1, 2, 1]), np.ones(4, np.int64), arrival_s=np.array([0.0, 0.0, 1.0, 9.0]))
    arrivals = Arrivals(trace, cluster)
    assert arrivals.next_s == 1.0
    assert arrivals.due(3.0) == [(1.0, 1), (3.0, 0), (3.0, 2)] and arrivals.next_s == 10.0
    assert arrivals.origin_s(0, 3.0) == 0.0 and arrivals.top_up(3.0, 0) == []


def test_as_many_users_as_slots_start_when_none_are_given():
    arrivals = Arrivals(trace_of(9), Cluster(2, (1, 2), arrivals="closed", think_s=2.0))
    assert arrivals.due(0.0) == [(0.0, 0), (0.0, 1), (0.0, 2)]
    arrivals.ended(1, 4.0)
    arrivals.ended(0, 5.0)
    assert arrivals.due(7.0) == [(6.0, 3), (7.0, 4)] and arrivals.next_s == math.inf


def test_all_requests_that_follow_one_request_come_after_it():
    trace = trace_of(4, session=[5, 5, 5, 6], after=[-1, 0, 0, -1], think_s=[0.0, 3.0, 1.0, 0.5])
    arrivals = Arrivals(trace, Cluster(1, 1, arrivals="closed"))
    assert arrivals.due(0.0) == [(0.0, 0)]
    arrivals.ended(0, 2.0)
    assert arrivals.due(9.0) == [(3.0, 2), (5.0, 1)]
    arrivals.ended(2, 9.0)
    assert arrivals.next_s == math.inf  # row 1 of the session is still out
    arrivals.ended(1, 10.0)
    assert arrivals.due(10.5) == [(10.5, 3)] and arrivals.origin_s(3, 10.5) == 10.5


def test_requests_without_a_session_are_sessions_of_their_own():
    arrivals = Arrivals(trace_of(3, session=[-1, -1, -1]), Cluster(1, 2, arrivals="closed"))
    assert arrivals.due(0.0) == [(0.0, 0), (0.0, 1)]
    arrivals.ended(1, 4.0)
    assert arrivals.due(4.0) == [(4.0, 2)]


def test_a_trace_without_sessions_cannot_be_replayed_by_them():
    with pytest.raises(InputError, match="trace: session is 'absent'"):
        Arrivals(trace_of(3), Cluster(1, 2, arrivals="closed"))
