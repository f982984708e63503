"""Sarathi by its promises."""

import numpy as np
from hypothesis import given
from tests.scheduling._views import decodes, formed, view_of, waits
from tests.strategies import engine_views

from evenstep.scheduling.policies.sarathi import Sarathi


@given(engine_views())
def test_decodes_come_first_and_the_budget_is_filled(view):
    tokens = Sarathi().form_batch(view).tokens
    evicted = Sarathi().form_batch(view).evict
    if tokens.sum() < view.token_budget and (tokens > 0).sum() < view.batch_limit:
        assert ((tokens > 0) | evicted)[view.running].all()
    if (tokens[~view.decoding] > 0).any() and not evicted.any():
        assert (tokens[view.decoding] > 0).all()


@given(engine_views())
def test_nobody_overtakes_in_the_queue(view):
    waiting = Sarathi().form_batch(view).tokens[~view.running]
    started = np.flatnonzero(waiting)
    assert np.array_equal(started, np.arange(started.size))


def test_a_prompt_that_fills_the_memory_to_its_last_token_is_admitted():
    assert formed(Sarathi(), view_of([decodes(3, 2)], [waits(5)], free=6)) == ([1, 5], [])
    assert formed(Sarathi(), view_of([decodes(3, 2)], [waits(5)], free=5)) == ([1, 0], [])
