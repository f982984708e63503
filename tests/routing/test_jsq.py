"""JSQ by hand, against FCFS, and its kernel."""

from __future__ import annotations

import pytest
from hypothesis import given
from tests.routing._routed import assert_doors_agree, moment, routed
from tests.strategies import routing_views

from evenstep import streams
from evenstep.routing.policies.fcfs import FCFS
from evenstep.routing.policies.jsq import JSQ
from evenstep.routing.view import HOLD, RoutingView


def by_definition(view: RoutingView, ties: str) -> list[int]:
    """Each request, oldest first, to one of the shortest queues of those with a slot and the memory for it."""
    queue, slots, free = (view.running + view.queued).tolist(), view.free_slots.tolist(), view.kv_free.tolist()
    answer: list[int] = []
    for request, size in zip(view.waiting_id.tolist(), view.waiting_load.tolist(), strict=True):
        fits = [g for g in range(len(queue)) if slots[g] > 0 and free[g] >= size]
        shortest = [g for g in fits if queue[g] == min(queue[h] for h in fits)]
        chance = streams.uniform(view.seed, "jsq", request) if ties == "random" else 0.0
        g = shortest[int(chance * len(shortest))] if shortest else HOLD
        answer.append(g)
        if g != HOLD:
            queue[g], slots[g], free[g] = queue[g] + 1, slots[g] - 1, free[g] - size
    return answer


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


@pytest.mark.parametrize("ties", ["random", "lowest"])
@given(view=routing_views(waiting=(0, 20)))
def test_it_is_what_its_definition_says(ties, view):
    assert JSQ(ties=ties).route(view).worker.tolist() == by_definition(view, ties)


def test_equal_queues_are_joined_one_after_the_other_where_memory_limits():
    """Twenty seeds of a pool that fits in part: slots, memory and ties all decide."""
    for seed in range(20):
        free, kv = [1, 2, 2, 3, 2], [500, 700, 90, 900, 700]
        waiting = [100, 300, 400, 80, 1000, 90, 400, 200]
        view = moment([0] * 5, free, waiting, running=[2, 1, 1, 1, 1], kv_free=kv, seed=seed)
        assert routed(JSQ(), view) == by_definition(view, "random")


def test_each_of_five_equal_queues_is_joined_once_before_any_is_joined_again():
    for seed in range(20):
        view = moment([0] * 5, [3, 2, 2, 1, 2], [1] * 9, running=[1] * 5, seed=seed)
        assert routed(JSQ(), view) == by_definition(view, "random")
