"""TensorRT-LLM's balance by hand, and against its heap."""

from __future__ import annotations

import heapq
from dataclasses import replace

import numpy as np
from hypothesis import given
from tests.routing._routed import moment, routed
from tests.strategies import routing_views

from evenstep.routing.policies.tensorrt_adp import TensorRTADP


def test_the_largest_of_the_oldest_goes_first_and_to_the_fewest_tokens():
    """Two slots: 10 and 30 are taken, not the younger 90; 30 goes to worker 1, then 10 to worker 0."""
    view = moment([50, 20], [1, 1], [10, 30, 90], running=[1, 1])
    assert routed(TensorRTADP(), view) == [0, 1, -1]


def test_a_rank_at_the_cap_gets_nothing_however_light():
    """Four requests run, two come: ceil(6 / 2) = 3 a rank, so the light rank takes one of them only."""
    view = moment([10, 900], [4, 4], [5, 4], running=[2, 2])
    assert routed(TensorRTADP(), view) == [0, 1]


def test_the_cap_is_never_below_the_busiest_rank():
    """ceil((5 + 0 + 3) / 2) = 4 is below the 5 that run on rank 0: rank 1 may take all three."""
    view = moment([900, 0], [9, 9], [3, 2, 1], running=[5, 0])
    assert routed(TensorRTADP(), view) == [1, 1, 1]


def test_equal_tokens_go_to_fewer_requests_then_to_the_lowest_rank():
    view = moment([20, 20, 20], [3, 3, 3], [7, 7], running=[2, 1, 1])
    assert routed(TensorRTADP(), view) == [1, 2]


def test_where_slots_differ_the_cap_is_lifted_rather_than_a_slot_left_empty():
    view = moment([0, 0], [0, 3], [5, 5, 5], running=[4, 0])
    assert routed(TensorRTADP(), view) == [1, 1, 1]


@given(routing_views(kv_limited=False, equal_slots=True))
def test_with_equal_slots_it_is_the_heap_of_the_engine(view):
    requests = (view.running + view.queued).tolist()
    taken = min(view.waiting_id.size, int(view.free_slots.sum()))
    G = len(requests)
    cap = max((sum(requests) + taken + G - 1) // G, *requests)
    tokens = (view.load + view.queued_load).tolist()
    heap = [(tokens[g], requests[g], g) for g in range(G) if requests[g] < cap]
    heapq.heapify(heap)
    expected = [-1] * view.waiting_id.size
    for row in sorted(range(taken), key=lambda i: view.waiting_load[i], reverse=True):
        load, count, g = heapq.heappop(heap)
        expected[row] = g
        if count + 1 < cap:
            heapq.heappush(heap, (load + view.waiting_load[row], count + 1, g))
    assert TensorRTADP().route(view).worker.tolist() == expected


@given(routing_views(kv_limited=False))
def test_only_the_oldest_are_admitted(view):
    worker = np.array(routed(TensorRTADP(), view))
    count = int((worker >= 0).sum())
    assert (worker[:count] >= 0).all()
    fewer = replace(view, free_slots=np.zeros_like(view.free_slots))
    assert (TensorRTADP().route(fewer).worker == -1).all()
