"""The two phases of a batch."""

from hypothesis import given
from tests.strategies import engine_views

from evenstep.scheduling.filling import Filling
from evenstep.scheduling.phases import needed_by, run_decodes, run_prefills


@given(engine_views())
def test_what_admissions_leave_free_is_enough_for_the_decodes_after_them(view):
    filling = Filling(view)
    decodes = [k for k in range(filling.running) if view.decoding[k]]
    needed = needed_by(filling, decodes)
    fits = needed <= filling.free
    run_prefills(filling, range(filling.running, view.left.size), needed)
    run_decodes(filling, decodes)
    if fits:
        assert not filling.evicted.any()


@given(engine_views())
def test_nobody_is_admitted_after_one_that_did_not_fit(view):
    filling = Filling(view)
    run_prefills(filling, range(filling.running, view.left.size), 0)
    admitted = filling.tokens[filling.running :] > 0
    assert not (admitted[1:] & ~admitted[:-1]).any()
