"""Throttled by hand, against FCFS by index, and its kernel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from tests.routing._routed import moment
from tests.strategies import routing_views

from evenstep.errors import InputError
from evenstep.routing.checks import difference, kernel_call
from evenstep.routing.policies.fcfs import FCFS
from evenstep.routing.policies.throttled import Throttled


def test_the_first_worker_below_the_threshold_takes_the_oldest_and_the_rest_waits():
    view = moment([0] * 3, [9] * 3, [1] * 4, running=[2, 1, 0], queued=[0, 0, 1])
    assert Throttled(threshold=2).route(view).worker.tolist() == [1, 2, -1, -1]


def test_a_slower_worker_has_a_lower_threshold_but_never_none():
    view = moment([0] * 3, [9] * 3, [1] * 9, running=[0] * 3, seconds_per_token=[1e-7, 2e-7, 1e-5])
    assert Throttled(threshold=4).route(view).worker.tolist() == [0, 0, 0, 0, 1, 1, 2, -1, -1]


def test_stated_capabilities_take_the_place_of_speeds():
    view = moment([0] * 2, [9] * 2, [1] * 4, running=[0] * 2, seconds_per_token=[1e-7, 2e-7])
    assert Throttled(threshold=2, capability="1/2").route(view).worker.tolist() == [0, 1, 1, -1]


@given(routing_views(kv_limited=False))
def test_on_equal_workers_without_a_threshold_it_fills_by_index(view):
    assert Throttled(capability=(1.0,)).route(view).worker.tolist() == FCFS(fill="index").route(view).worker.tolist()


@given(routing_views())
def test_nobody_is_sent_beyond_its_threshold(view):
    sent = Throttled(threshold=2, capability=(1.0,)).route(view).worker
    after = view.running + view.queued + np.bincount(sent[sent >= 0], minlength=view.load.size)
    assert np.all((after <= 2) | (after == view.running + view.queued))


@given(routing_views())
def test_both_doors_agree(view):
    for policy in (Throttled(), Throttled(threshold=3), Throttled(threshold=3, capability=(1.0, 0.4))):
        assert difference(policy.route(view), kernel_call(policy, view).decision(), view.memory) == ""


def test_a_threshold_beyond_every_count_throttles_nobody():
    view = moment([0, 0], [2, 1], [5, 5, 5])
    assert Throttled(threshold=2**53).route(view).worker.tolist() == [0, 0, 1]


def test_a_threshold_below_one_is_refused():
    with pytest.raises(InputError, match="throttled: threshold is 0"):
        Throttled(threshold=0)
