"""Filling a batch: budget, seats and memory are kept to, and what is taken back is free again."""

import numpy as np
from hypothesis import given
from tests.scheduling._views import decodes, prefills, view_of, waits
from tests.strategies import engine_views

from evenstep.scheduling.filling import Filling, run_or_evict


def left(filling):
    return filling.budget, filling.seats, filling.free, filling.places


def test_a_request_takes_tokens_a_seat_memory_and_a_place_if_it_joins():
    limits = {"token_budget": 10, "batch_limit": 3, "resident_limit": 2}
    filling = Filling(view_of([decodes(4, 2)], [waits(3), waits(9)], free=20, **limits))
    assert left(filling) == (10, 3, 20, 1)
    assert filling.offer(0) and left(filling) == (9, 2, 19, 1)
    assert filling.offer(1) and left(filling) == (6, 1, 16, 0)
    assert not filling.offer(2), "no place is left for a third"
    assert filling.decision().tokens.tolist() == [1, 3, 0]


def test_a_request_that_holds_memory_needs_a_seat_and_no_place():
    filling = Filling(view_of([decodes(4, 2), decodes(5, 2)], [waits(3)], free=9, batch_limit=1, resident_limit=2))
    assert [filling.most(k) for k in range(3)] == [1, 1, 0]
    assert filling.offer(0) and filling.most(1) == 0
    filling.take_back(0)
    assert filling.most(1) == 1


def test_a_chunk_needs_memory_for_itself_and_the_reserve_and_an_admission_for_the_whole_prompt():
    def filling(free):
        return Filling(view_of([], [waits(9)], free=free, token_budget=4))

    assert filling(6).offer(0, reserve=2) and not filling(6).offer(0, reserve=3)
    assert not filling(8).admit(0) and filling(9).admit(0)
    assert filling(10).admit(0, reserve=1) and not filling(10).admit(0, reserve=2)
    assert filling(9).most(0) == 4


def test_one_that_is_evicted_gives_back_what_it_was_given_and_what_it_held():
    view = view_of([decodes(4, 2), decodes(2, 2)], [waits(2)], free=3, token_budget=10, batch_limit=3, resident_limit=4)
    filling = Filling(view)
    assert filling.offer(0) and left(filling) == (9, 2, 2, 2)
    filling.evict(0)
    assert left(filling) == (10, 3, 8, 3)
    filling.evict(1)
    assert left(filling) == (10, 3, 11, 4)
    assert filling.offer(2)
    filling.take_back(2)
    assert left(filling) == (10, 3, 11, 4)
    assert filling.decision().evict.tolist() == [True, True, False]


def test_the_one_admitted_last_gives_way_and_at_last_the_request_itself():
    filling = Filling(view_of([decodes(4, 2), decodes(6, 2), decodes(3, 2)], [], free=1))
    for request in range(3):
        run_or_evict(filling, request)
    assert (filling.tokens.tolist(), filling.evicted.tolist(), filling.free) == ([1, 1, 0], [False, False, True], 3)
    exact = Filling(view_of([decodes(4, 2), decodes(6, 2)], [], free=2))
    for request in range(2):
        run_or_evict(exact, request)
    assert (exact.tokens.tolist(), exact.evicted.tolist(), exact.free) == ([1, 1], [False, False], 0)
    alone = Filling(view_of([decodes(4, 2)], [], free=0))
    run_or_evict(alone, 0)
    assert (alone.tokens.tolist(), alone.evicted.tolist(), alone.free) == ([0], [True], 5)


def test_a_running_request_runs_no_more_than_it_is_let():
    filling = Filling(view_of([prefills(9, 2)], [], free=20))
    run_or_evict(filling, 0, 3)
    assert filling.tokens.tolist() == [3]
    out = Filling(view_of([prefills(9, 2)], [], free=20, token_budget=0))
    run_or_evict(out, 0)
    assert (out.tokens.tolist(), out.seats) == ([0], out.view.batch_limit)


@given(engine_views())
def test_what_is_offered_never_breaks_a_limit(view):
    filling = Filling(view)
    for request in range(view.left.size):
        filling.offer(request)
    assert filling.tokens.sum() <= view.token_budget
    assert (filling.tokens > 0).sum() <= view.batch_limit
    held = sum(view.held_after(k, int(t)) if t else int(view.resident[k]) for k, t in enumerate(filling.tokens))
    assert held <= view.kv_capacity
    assert held == view.kv_capacity - filling.free


@given(engine_views())
def test_what_is_taken_back_is_free_again(view):
    filling = Filling(view)
    before = filling.budget, filling.seats, filling.free
    if filling.offer(0):
        filling.take_back(0)
    assert (filling.budget, filling.seats, filling.free) == before
    assert not filling.tokens.any()


@given(engine_views())
def test_an_evicted_request_gives_up_all_it_held(view):
    filling = Filling(view)
    if not filling.running:
        return
    filling.offer(0)
    filling.evict(0)
    assert filling.free == view.kv_free + view.resident[0]
    assert np.array_equal(np.flatnonzero(filling.decision().evict), [0])


@given(engine_views())
def test_nobody_is_admitted_whose_whole_prefill_does_not_fit(view):
    filling = Filling(view)
    for request in range(filling.running, view.left.size):
        free = filling.free
        if filling.admit(request, reserve=3):
            assert view.held_after(request, int(view.left[request])) - view.resident[request] <= free - 3
