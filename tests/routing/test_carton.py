"""Carton by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from tests.routing._routed import moment, routed
from tests.strategies import routing_views

from evenstep.errors import InputError
from evenstep.routing.checks import kernel_call
from evenstep.routing.policies.carton import Carton
from evenstep.routing.policies.round_robin import RoundRobin


def test_a_worker_slower_than_the_mean_lets_in_less():
    """Mean 50: rates 0, 1, 2, so of three requests none, one and two."""
    view = moment([100, 50, 0], [3, 3, 3], [1, 1, 1], memory=[0])
    assert routed(Carton(), view) == [1, 2, 2]


def test_performance_is_step_time_where_workers_differ():
    """Worker 0 holds half the tokens at thrice the time a token: its own step is the longer one."""
    view = moment([50, 100], [2, 2], [1], seconds_per_token=[3e-7, 1e-7], memory=[0])
    assert routed(Carton(gain=5), view) == [1]


def test_limits_are_lifted_rather_than_a_slot_left_empty():
    view = moment([100, 0], [2, 1], [1, 1, 1], memory=[0])
    assert routed(Carton(), view) == [1, 0, 0]


def test_the_turn_is_kept():
    view = moment([0] * 3, [9] * 3, [1, 1], memory=[2])
    assert routed(Carton(), view) == [2, 0]
    assert Carton().route(view).memory.tolist() == [1]


@given(routing_views(kv_limited=False, equal_slots=True, memory=1))
def test_without_gain_and_with_room_everywhere_it_is_round_robin(view):
    if (view.free_slots >= view.waiting_id.size).all():
        assert routed(Carton(gain=0), view) == RoundRobin().route(view).worker.tolist()


@given(routing_views(memory=1))
def test_it_keeps_the_contract(view):
    routed(Carton(), view)


@pytest.mark.parametrize("gain", [-1.0, float("inf"), float("nan")])
def test_a_gain_out_of_range_is_named(gain):
    with pytest.raises(InputError, match=f"carton: gain is {gain}; expected a finite number >= 0"):
        Carton(gain=gain)


def test_a_gain_near_the_largest_float_limits_to_the_fastest_worker():
    view = moment([0, 5], [2, 2], [5, 5], memory=[0])
    plain = kernel_call(Carton(gain=1e308), view).in_plain().decision().worker.tolist()
    assert plain == Carton(gain=1e308).route(view).worker.tolist() == [0, 0]
