"""Running by priority: the smallest key runs, keeps its memory, and is not overtaken."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import engine_runs, engine_views, examples

from evenstep.errors import InputError
from evenstep.scheduling.by_key import check_watermark, run_by_key
from evenstep.scheduling.least_attained import LeastAttained
from evenstep.scheduling.mlfq import Mlfq
from evenstep.scheduling.order import QueueOrder
from evenstep.scheduling.srpt import Srpt
from evenstep.sim.engine import simulate_engine

BY_REMAINDER = QueueOrder(low=1.0, produced=-1.0)
POLICIES = [
    Srpt(statistic=s, makes_room=m, watermark=w)
    for s, m, w in itertools.product(("low", "high"), (False, True), (0.0, 0.2))
] + [
    Mlfq(quantum=9.0, level_wait_s=0.05), Mlfq(quantum=9.0, level_wait_s=0.05, makes_room=True, watermark=0.0),
    LeastAttained(prompt_weight=0.5, makes_room=True), LeastAttained(watermark=0.0),
]  # fmt: skip


@examples(60)
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
    decision = run_by_key(view, BY_REMAINDER, makes_room, 0.0)
    if view.running.any():
        running = np.flatnonzero(view.running)
        best = running[np.argmin(keys(view)[running])]
        is_first = keys(view)[best] <= keys(view).min()
        assert not decision.evict[best] or (makes_room and not is_first), (
            "only one that goes before it may take it"
        )
        fits = view.held_after(best, min(int(view.left[best]), view.token_budget)) <= view.kv_capacity
        if fits and not decision.tokens[~view.running].any():
            assert decision.tokens[best] > 0


@given(engine_views(), st.booleans())
def test_those_evicted_are_the_ones_with_the_largest_keys(view, makes_room):
    decision = run_by_key(view, BY_REMAINDER, makes_room, 0.0)
    kept = view.running & ~decision.evict
    if decision.evict.any() and kept.any():
        assert keys(view)[decision.evict].min() >= keys(view)[kept].max()


def test_a_watermark_of_one_is_named():
    with pytest.raises(InputError, match="watermark"):
        check_watermark("srpt", 1.0)
