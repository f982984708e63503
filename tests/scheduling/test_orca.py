"""Orca by its promises."""

from hypothesis import given
from tests.strategies import engine_views

from evenstep.scheduling.policies.orca import Orca


@given(engine_views())
def test_no_decode_runs_while_a_prefill_that_has_begun_is_not_served(view):
    decision = Orca().form_batch(view)
    begun = view.running & ~view.decoding & ~decision.evict
    if (decision.tokens[view.decoding] > 0).any():
        assert (decision.tokens[begun] > 0).all()


@given(engine_views())
def test_whoever_is_admitted_costs_nobody_his_memory(view):
    decision = Orca().form_batch(view)
    if (decision.tokens[~view.running] > 0).any():
        assert not decision.evict.any()
