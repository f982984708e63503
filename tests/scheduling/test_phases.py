"""The two phases of a batch, with caps and an order of their own."""

from hypothesis import given
from tests.scheduling._views import decodes, formed, prefills, view_of, waits
from tests.strategies import engine_views

from evenstep.scheduling.policies.orca import Orca
from evenstep.scheduling.policies.work_conserving import WorkConserving


def test_what_admissions_leave_free_is_enough_for_the_decodes_after_them():
    running = [decodes(10, 5), decodes(10, 5)]
    for policy in (Orca(), WorkConserving(first="prefill")):
        assert formed(policy, view_of(running, [waits(4)], free=6)) == ([1, 1, 4], [])
        assert formed(policy, view_of(running, [waits(5)], free=6)) == ([1, 1, 0], [])


@given(engine_views())
def test_nobody_is_admitted_after_one_that_did_not_fit(view):
    tokens = WorkConserving().form_batch(view).tokens
    admitted = [bool(tokens[k] > 0) for k in range(int(view.running.sum()), len(tokens))]
    assert admitted == sorted(admitted, reverse=True)


def test_caps_keep_the_oldest_of_each_phase():
    view = view_of([prefills(9, 1), decodes(9, 2), decodes(9, 2)], [waits(3), waits(4)], free=99)
    assert formed(WorkConserving(decode_cap=1), view) == ([8, 1, 0, 3, 4], [])
    assert formed(WorkConserving(prefill_cap=2), view) == ([8, 1, 1, 3, 0], [])
    assert formed(WorkConserving(prefill_cap=1), view) == ([8, 1, 1, 0, 0], [])


def test_fewest_left_goes_first_in_each_phase():
    running = [decodes(9, 2, output_low=50, output_high=60), decodes(9, 2, output_low=4, output_high=6)]
    view = view_of([prefills(9, 1), prefills(9, 4), *running], [waits(3), waits(2), waits(2)], free=99)
    shortest = WorkConserving(within="fewest-left")
    assert formed(shortest, view) == ([8, 5, 1, 1, 3, 2, 2], [])
    limited = view_of([prefills(9, 1), prefills(9, 4), *running], [waits(3), waits(2)], free=99, batch_limit=1)
    assert formed(shortest, limited) == ([0, 0, 0, 1, 0, 0], [])
    limited = view_of([prefills(9, 1), prefills(9, 4)], [waits(3), waits(2), waits(2)], free=99, token_budget=9)
    assert formed(shortest, limited) == ([4, 5, 0, 0, 0], [])
    limited = view_of([], [waits(3), waits(2), waits(2)], free=99, batch_limit=2)
    assert formed(shortest, limited) == ([0, 2, 2], [])
