"""Requests that hold memory go on, and the smallest keys give way."""

import numpy as np
from hypothesis import given
from tests.strategies import engine_views

from evenstep.compiled import as_plain
from evenstep.scheduling.filling import batch_of, rule_view
from evenstep.scheduling.intervals import eviction as giving_way
from evenstep.scheduling.intervals.eviction import GROWS, LEAVES


def given_way(view, key):
    """The batch and the marks after the smallest keys have given way and the others have grown."""
    batch, mark = batch_of(view), np.full(view.running.size, GROWS)
    as_plain(giving_way.give_way)(view, batch, mark, key, mark.size)
    as_plain(giving_way.grow)(view, batch, mark)
    return batch, mark


@given(engine_views())
def test_no_more_give_way_than_must_and_those_are_of_the_smallest_keys(view):
    view = rule_view(view)
    held = view.resident[view.running]
    batch, mark = given_way(view, held.astype(float))
    gone, kept = np.flatnonzero(mark == LEAVES), np.flatnonzero(mark == GROWS)
    assert sorted(batch.evicted[: batch.gone[0]].tolist()) == gone.tolist()
    assert batch.free[0] >= 0
    if gone.size and kept.size:
        assert held[gone].max() <= held[kept].min()
        last = batch.evicted[batch.gone[0] - 1]
        almost, marks = batch_of(view), mark.copy()
        marks[last] = GROWS
        almost.free[0] += sum(held[k] for k in gone if k != last)
        assert as_plain(giving_way.needed)(view, almost, marks) > almost.free[0]


@given(engine_views())
def test_those_that_stay_run_all_that_budget_and_seats_allow(view):
    view = rule_view(view)
    batch, mark = given_way(view, -np.arange(view.running.size, dtype=float))
    kept = np.flatnonzero(mark == GROWS)
    tokens = dict(zip(batch.picked[: batch.given[0]].tolist(), batch.tokens.tolist(), strict=False))
    alone = kept.size == 1 and not tokens
    if batch.budget[0] > 0 and batch.seats[0] > 0 and not alone:
        assert all(tokens[k] == view.left[k] for k in kept.tolist())
