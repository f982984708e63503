"""OLB + LBMM by hand, and what its second phase never does."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from tests.routing._routed import moment
from tests.strategies import routing_views

from evenstep.routing.policies.jsq import JSQ
from evenstep.routing.policies.olb_lbmm import OlbLbmm


def test_the_oldest_are_admitted_and_the_shortest_of_them_placed_first():
    view = moment([0, 5], [1, 1], [9, 2, 1])
    assert OlbLbmm().route(view).worker.tolist() == [1, 0, -1]


def test_the_worker_that_would_be_last_gives_its_shortest_request_away():
    assert OlbLbmm().route(moment([0, 0], [3, 3], [2, 2, 2, 10])).worker.tolist() == [0, 0, 0, 1]
    assert OlbLbmm().route(moment([0, 0], [2, 2], [2, 2, 2, 10])).worker.tolist() == [0, 1, 0, 1]


def test_a_request_of_a_longer_output_takes_longer_where_outputs_are_predicted():
    view = moment([0, 0], [1, 1], [4, 3], waiting_steps=[1, 9])
    assert OlbLbmm().route(view).worker.tolist() == [1, 0]
    assert OlbLbmm(length="predicted").route(view).worker.tolist() == [0, 1]


def test_a_faster_worker_completes_earlier_with_more():
    view = moment([10, 20], [1, 1], [4], seconds_per_token=[4e-7, 1e-7])
    assert OlbLbmm().route(view).worker.tolist() == [1]


@given(routing_views(kv_limited=False))
def test_it_admits_whom_the_shortest_queue_admits(view):
    ours, theirs = OlbLbmm().route(view).worker, JSQ(ties="lowest").route(view).worker
    assert np.array_equal(ours >= 0, theirs >= 0)


@given(routing_views(kv_limited=True))
def test_under_a_memory_limit_it_admits_nobody_else(view):
    ours, theirs = OlbLbmm().route(view).worker, JSQ(ties="lowest").route(view).worker
    assert np.all((ours < 0) | (theirs >= 0))
