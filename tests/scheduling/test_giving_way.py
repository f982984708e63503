"""Who holds memory goes on, and the smallest keys give way."""

import numpy as np
from hypothesis import given
from tests.strategies import engine_views

from evenstep.scheduling.filling import Filling
from evenstep.scheduling.giving_way import grow_or_give_way, needed


@given(engine_views())
def test_no_more_give_way_than_must_and_those_are_of_the_smallest_keys(view):
    filling = Filling(view)
    everybody = list(range(filling.running))
    kept = grow_or_give_way(filling, everybody, lambda k: int(view.resident[k]))
    gone = [k for k in everybody if k not in kept]
    assert np.array_equal(np.flatnonzero(filling.evicted), gone)
    assert filling.free >= 0
    if gone and kept:
        assert max(view.resident[gone]) <= min(view.resident[kept])
        almost = Filling(view)
        last = max(gone, key=lambda k: (view.resident[k], k))
        for k in gone:
            if k != last:
                almost.evict(k)
        assert needed(almost, sorted([*kept, last])) > almost.free


@given(engine_views())
def test_those_that_stay_run_all_that_budget_and_seats_allow(view):
    filling = Filling(view)
    kept = grow_or_give_way(filling, list(range(filling.running)), lambda k: -k)
    alone = len(kept) == 1 and filling.tokens[kept[0]] == 0
    if filling.budget > 0 and filling.seats > 0 and not alone:
        assert all(filling.tokens[k] == view.left[k] for k in kept)
