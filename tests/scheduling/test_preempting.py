"""Running what runs: memory that runs out costs the one admitted last."""

from hypothesis import given
from tests.strategies import engine_views

from evenstep.scheduling.filling import Filling
from evenstep.scheduling.preempting import run_or_evict


@given(engine_views())
def test_only_the_last_ones_are_evicted_and_the_rest_fits(view):
    filling = Filling(view)
    for request in range(filling.running):
        run_or_evict(filling, request)
    kept = filling.running - int(filling.evicted.sum())
    assert not filling.evicted[:kept].any()
    assert filling.free >= 0
    assert not (filling.tokens[filling.evicted] > 0).any()
