"""Filling a batch: budget, seats and memory are kept to, and what is taken back is free again."""

import numpy as np
from hypothesis import given
from tests.strategies import engine_views

from evenstep.scheduling.filling import Filling


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
