"""JSQ by hand, against FCFS, and its kernel."""

from __future__ import annotations

from hypothesis import given
from tests.routing._routed import assert_doors_agree, moment, routed
from tests.strategies import routing_views

from evenstep.routing.policies.fcfs import FCFS
from evenstep.routing.policies.jsq import JSQ


def test_the_oldest_goes_to_the_shortest_queue_counting_what_was_sent():
    view = moment([9, 9, 9], [4, 4, 4], [1, 1, 1], running=[3, 1, 2], queued=[0, 2, 0])
    assert routed(JSQ(ties="lowest"), view) == [2, 0, 1]


def test_ties_by_chance_reach_every_tied_worker_and_no_other():
    answers = {routed(JSQ(), moment([0] * 4, [1] * 4, [1], running=[1, 1, 1, 2], seed=seed))[0] for seed in range(40)}
    assert answers == {0, 1, 2}


@given(routing_views(equal_slots=True, kv_limited=False))
def test_with_equal_slots_and_lowest_ties_it_is_fcfs(view):
    assert JSQ(ties="lowest").route(view).worker.tolist() == FCFS().route(view).worker.tolist()


@given(routing_views())
def test_both_doors_agree(view):
    assert_doors_agree(JSQ(), view)
    assert_doors_agree(JSQ(ties="lowest"), view)
