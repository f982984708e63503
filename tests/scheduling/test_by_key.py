"""Running by priority: the smallest key runs, keeps its memory, and is not overtaken."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.scheduling._keys import key_of_one
from tests.scheduling._views import decodes, formed, prefills, view_of, waits
from tests.strategies import engine_runs, engine_views, examples

from evenstep import compiled
from evenstep.compiled import as_plain
from evenstep.scheduling.filling import rule_view
from evenstep.scheduling.policies import least_attained, mlfq, srpt
from evenstep.scheduling.policies.least_attained import LeastAttained
from evenstep.scheduling.policies.mlfq import Mlfq
from evenstep.scheduling.policies.srpt import Srpt
from evenstep.sim.engine.simulation import simulate_engine

POLICIES = [
    Srpt(statistic=s, makes_room=m, watermark=w) for s, m, w in itertools.product(("low", "high"), (False, True), (0.0, 0.2))
] + [
    Mlfq(quantum=9.0, level_wait_s=0.05),
    Mlfq(quantum=9.0, level_wait_s=0.05, makes_room=True, watermark=0.0),
    LeastAttained(prompt_weight=0.5, makes_room=True),
    LeastAttained(watermark=0.0),
]


@examples(60, fast=10)
@given(engine_runs(), st.sampled_from(POLICIES))
def test_every_setting_runs_to_its_end_through_both_doors(run, policy):
    trace, engine, seed = run
    doors = [simulate_engine(trace, policy, engine=engine, seed=seed, door=d) for d in ("plain", "compiled")]
    assert doors[0].digest == doors[1].digest
    assert doors[0].totals.requests == len(trace)


def keys(view):
    return view.output_low - view.produced


@given(engine_views(), st.booleans())
def test_whoever_runs_with_the_smallest_key_is_served_and_keeps_its_memory(view, makes_room):
    decision = Srpt(statistic="low", makes_room=makes_room, watermark=0.0).form_batch(view)
    if view.running.any():
        running = np.flatnonzero(view.running)
        best = running[np.argmin(keys(view)[running])]
        is_first = keys(view)[best] <= keys(view).min()
        assert not decision.evict[best] or (makes_room and not is_first), "only one that goes before it may take it"
        fits = view.held_after(best, min(int(view.left[best]), view.token_budget)) <= view.kv_capacity
        if fits and not decision.tokens[~view.running].any():
            assert decision.tokens[best] > 0


@given(engine_views(), st.booleans())
def test_those_evicted_are_the_ones_with_the_largest_keys(view, makes_room):
    decision = Srpt(statistic="low", makes_room=makes_room, watermark=0.0).form_batch(view)
    kept = view.running & ~decision.evict
    if decision.evict.any() and kept.any():
        assert keys(view)[decision.evict].min() >= keys(view)[kept].max()


@given(engine_views(), st.sampled_from(POLICIES))
def test_a_rule_has_the_key_that_the_queue_is_sorted_by(view, policy):
    options = compiled.options_of(type(policy))
    names = {"parameters": compiled.parameters(policy), "Options": options[0]}
    exec("\n".join(options[1]), names)
    key_of = {Srpt: srpt, Mlfq: mlfq, LeastAttained: least_attained}[type(policy)].key_of
    for k in range(view.left.size):
        wanted = key_of_one(
            policy.order,
            seed=view.seed,
            request=k,
            arrival_s=float(view.arrival_s[k]),
            prompt=int(view.prompt_tokens[k]),
            low=int(view.output_low[k]),
            high=int(view.output_high[k]),
            produced=int(view.produced[k]),
            reached=int(view.reached[k]),
            lost_at=0,
            evictions=0,
            attained=0,
        )
        assert as_plain(key_of)(rule_view(view), names["options"], k) == wanted


def believed(row, low):
    return row | {"output_low": low, "output_high": low}


def test_the_largest_key_gives_its_memory_to_smaller_ones_that_run():
    running = [believed(decodes(9, 3), 90), believed(decodes(9, 3), 20), believed(decodes(9, 3), 50)]
    assert formed(Srpt(), view_of(running, [], free=1)) == ([0, 1, 1], [0])


def test_a_request_that_nobody_can_make_room_for_pauses():
    # its own memory is the last that could be given up
    running = [believed(decodes(9, 3), 20), believed(prefills(30, 9), 50)]
    assert formed(Srpt(), view_of(running, [], free=3)) == ([1, 0], [])


def test_a_waiting_request_with_a_smaller_key_goes_first_and_may_take_memory():
    running = [believed(decodes(9, 3), 90), believed(decodes(9, 3), 20)]
    view = view_of(running, [believed(waits(8), 4)], free=3)
    assert formed(Srpt(watermark=0.0), view) == ([0, 1, 8], [0])
    assert formed(Srpt(watermark=0.0, makes_room=False), view) == ([1, 1, 0], [])
    assert formed(Srpt(watermark=0.0), view_of(running, [believed(waits(40), 4)], free=3)) == ([1, 1, 0], [])


def test_a_waiting_request_may_take_a_place():
    running = [believed(decodes(9, 3), 90), believed(decodes(9, 3), 20)]
    view = view_of(running, [believed(waits(8), 4)], free=99, resident_limit=2)
    assert formed(Srpt(), view) == ([0, 1, 8], [0])
    assert formed(Srpt(makes_room=False), view) == ([1, 1, 0], [])


def test_an_admission_leaves_the_watermark_free_while_others_run():
    running, queue = [believed(decodes(9, 3), 90)], [believed(waits(8), 4)]
    assert formed(Srpt(makes_room=False, watermark=0.5), view_of(running, queue, free=19)) == ([1, 0], [])
    assert formed(Srpt(makes_room=False, watermark=0.5), view_of(running, queue, free=29)) == ([1, 8], [])
    assert formed(Srpt(makes_room=False, watermark=0.5), view_of([], queue, free=8)) == ([8], [])
