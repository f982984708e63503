"""FCFS by hand, and its kernel."""

from __future__ import annotations

from hypothesis import given
from tests.routing._routed import assert_doors_agree, moment, routed
from tests.strategies import routing_views

from evenstep.routing.policies.fcfs import FCFS


def test_the_oldest_goes_to_the_worker_with_most_free_slots_ties_to_the_lowest():
    assert routed(FCFS(), moment([0, 0, 0], [1, 3, 2], [5, 5, 5, 5])) == [1, 1, 2, 0]


def test_fill_by_index_fills_the_workers_up_in_order():
    assert routed(FCFS(fill="index"), moment([0, 0, 0], [1, 3, 2], [5, 5, 5, 5, 5])) == [0, 1, 1, 1, 2]


def test_a_request_that_fits_nowhere_is_skipped_and_does_not_block_the_pool():
    assert routed(FCFS(), moment([0, 0], [2, 2], [90, 5, 5], kv_free=[10.0, 5.0])) == [-1, 0, 1]


@given(routing_views())
def test_both_doors_agree(view):
    assert_doors_agree(FCFS(), view)
    assert_doors_agree(FCFS(fill="index"), view)
