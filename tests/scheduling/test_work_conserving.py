"""(K_p, K_d)-FCFS: caps, orders, and what work-conserving means at every iteration."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scheduling._views import decodes, formed, prefills, view_of, waits
from tests.strategies import engine_runs, engine_views, examples

from evenstep import names
from evenstep.errors import InputError
from evenstep.scheduling.policies.orca import Orca
from evenstep.scheduling.policies.work_conserving import WorkConserving
from evenstep.sim.engine.simulation import Engine, simulate_engine

SETTINGS = [
    {"prefill_cap": p, "decode_cap": d, "first": f, "within": w}
    for p, d, f, w in itertools.product((0, 2), (0, 3), ("decode", "prefill"), ("oldest", "fewest-left"))
]


@examples(60, fast=10)
@given(engine_runs(), st.sampled_from(SETTINGS))
def test_every_setting_runs_to_its_end_through_both_doors(run, options):
    trace, engine, seed = run
    policy = WorkConserving(**options)
    doors = [simulate_engine(trace, policy, engine=engine, seed=seed, door=d) for d in ("plain", "compiled")]
    assert doors[0].digest == doors[1].digest
    assert doors[0].totals.requests == len(trace)


@given(engine_views(), st.sampled_from(SETTINGS))
def test_no_more_than_the_cap_are_loaded_and_they_are_the_oldest(view, options):
    decision = WorkConserving(**options).form_batch(view)
    running = int(view.running.sum())
    decodes = [k for k in range(running) if view.decoding[k]]
    prefills = [k for k in range(view.left.size) if k >= running or not view.decoding[k]]
    for cap, members in ((options["decode_cap"], decodes), (options["prefill_cap"], prefills)):
        if cap:
            assert not decision.tokens[members[cap:]].any()


@given(engine_views())
def test_fewest_left_serves_the_shortest_that_wait(view):
    tokens = WorkConserving(within="fewest-left").form_batch(view).tokens
    waiting = ~view.running
    served, left_out = waiting & (tokens > 0), waiting & (tokens == 0)
    if served.any() and left_out.any():
        assert view.left[served].max() <= view.left[left_out].min()


@pytest.mark.parametrize(
    "name", ["sarathi", "orca", "vllm", "work-conserving", "work-conserving:first=prefill,within=fewest-left"]
)
@examples(25, fast=8)
@given(run=engine_runs())
def test_the_budget_is_filled_whenever_it_can_be(name, run):
    """With memory for all: every iteration runs b tokens, or every token there is (eq. 2.6)."""
    trace, engine, _ = run
    roomy = Engine(token_budget=engine.token_budget or 7, batch_limit=0, first_token=engine.first_token)
    policy = names.build("scheduling", names.parse(name))
    steps = simulate_engine(trace, policy, engine=roomy).iterations
    assert steps is not None
    short = steps.tokens < roomy.token_budget
    assert (steps.waiting[short] == 0).all()
    assert (steps.requests[short] == steps.running[short]).all()


@pytest.mark.parametrize("name", ["vanilla-vllm", "faster-transformer", "work-conserving:decode_cap=2"])
def test_those_that_are_not_work_conserving_leave_budget_unused(name):
    from evenstep.request import Trace

    arrival = np.repeat(np.arange(8.0), 4) * 0.05
    trace = Trace(np.full(32, 3), np.tile([3, 20, 7, 12], 8), arrival_s=arrival)
    policy = names.build("scheduling", names.parse(name))
    steps = simulate_engine(trace, policy, engine=Engine(token_budget=16)).iterations
    assert steps is not None
    short = steps.tokens < 16
    assert ((steps.waiting[short] > 0) | (steps.requests[short] < steps.running[short])).any()


@pytest.mark.parametrize("name", ["prefill_cap", "decode_cap"])
def test_a_negative_cap_is_named(name):
    with pytest.raises(InputError, match=name):
        WorkConserving(**{name: -1})


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
