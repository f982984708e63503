"""Round robin by hand, and its kernel."""

from __future__ import annotations

from hypothesis import given
from tests.routing._routed import assert_doors_agree, moment, routed
from tests.strategies import routing_views

from evenstep.routing.checks import kernel_call
from evenstep.routing.policies.round_robin import RoundRobin


def test_the_turn_goes_round_and_skips_the_full():
    assert routed(RoundRobin(), moment([0] * 4, [2, 0, 1, 2], [1] * 5, memory=[2])) == [2, 3, 0, 3, 0]


def test_where_memory_limits_the_turn_goes_on_behind_the_last_worker_that_fitted():
    """10 tokens fit worker 1 exactly; 30 fit no worker; 5 go on to worker 2, the next 5 round to worker 0."""
    view = moment([0] * 3, [1, 2, 1], [10, 30, 5, 5], kv_free=[5.0, 10.0, 20.0], memory=[1])
    assert routed(RoundRobin(), view) == [1, -1, 2, 0]


def test_the_next_turn_is_kept_in_memory_by_both_doors():
    view = moment([0] * 3, [1, 1, 1], [1, 1], memory=[1])
    kernel = kernel_call(RoundRobin(), view).decision()
    assert RoundRobin().route(view).memory.tolist() == kernel.memory.tolist() == [3]


@given(routing_views(memory=1))
def test_both_doors_agree(view):
    assert_doors_agree(RoundRobin(), view)
