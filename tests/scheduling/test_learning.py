"""The bound A_min knows, by its two readings."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from tests.strategies import engine_views

from evenstep.scheduling.learning import bound, victim_key


@given(engine_views())
def test_an_eviction_lowers_a_known_bound_only_when_read_literally(view):
    half = view.output_low // 2
    evicted = replace(view, evictions=np.ones_like(view.evictions), reached=half, lost_at=half)
    for k in range(view.left.size):
        assert bound(view, k, "literal") == view.output_low[k]
        assert bound(evicted, k, "literal") == view.output_low[k] // 2
        assert bound(evicted, k, "repaired") == view.output_low[k]


@given(engine_views())
def test_ties_among_victims_are_by_chance_and_never_change_the_order_of_bounds(view):
    keys = [victim_key(view, k, "repaired", "bound") for k in range(view.left.size)]
    bounds = [bound(view, k, "repaired") for k in range(view.left.size)]
    assert [int(key) for key in keys] == bounds
    assert len(set(keys)) == len(keys)
