"""The rule of `best` decides and keeps in bits what its plain oracle does, whatever the options, through both doors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles import best as oracle
from tests.routing._routed import assert_equals_oracle, moment
from tests.strategies import examples, routing_views

from evenstep.routing.best.kept import OWED
from evenstep.routing.policies.best import Best
from evenstep.routing.view import RoutingView


@st.composite
def policies(draw: st.DrawFn, horizon: int) -> Best:
    return Best(
        horizon=horizon,
        discount=draw(st.sampled_from([1.0, 0.9, 0.3])),
        pull=draw(st.sampled_from([0.0, 0.4, 5.0])),
        correction=draw(st.sampled_from([0.2, 1.0, 4.0])),
        steer=draw(st.sampled_from([0.0, 0.5, 3.0])),
        starts=draw(st.integers(1, 3)),
        window=draw(st.sampled_from([0, 0, 1, 6])),
        moves=draw(st.sampled_from([20_000, 20_000, 9, 1, 0])),
        age_limit=draw(st.sampled_from([0.0, 2.0, 15.0])),
        ageing=draw(st.sampled_from([0.0, 0.01, 2.0])),
        recompute=draw(st.sampled_from([0.0, 0.04, 8.0])),
        affinity=draw(st.sampled_from([0.0, 100.0])),
        class_weights=draw(st.sampled_from([(), (3.0,), (1.0, 2.0, 0.5)])),
    )


@st.composite
def kept(draw: st.DrawFn, view: RoutingView) -> RoutingView:
    """The view with something kept from an earlier decision, or with nothing yet."""
    memory = np.zeros(Best.memory_size, np.int64)
    if draw(st.booleans()):
        memory[0] = np.float64(view.now_s - draw(st.sampled_from([0.0, 0.5, 3.0]))).view(np.int64)
        count = draw(st.integers(1, 5000))
        octave, size = draw(st.integers(0, 60_000)), draw(st.integers(1, 4000))
        level = draw(st.integers(-(4 << 20), 4 << 20))
        newest = draw(st.integers(0, 12))
        left, rush = draw(st.integers(0, 3)), draw(st.integers(0, 4096))
        looks = draw(st.sampled_from([0, 1, 700, 1024]))
        memory[1:OWED] = (
            count,
            octave * count,
            size * count,
            level,
            2 * count,
            newest,
            left,
            rush,
            rush * draw(st.sampled_from([0, 10_000, 700_000])),
            draw(st.integers(0, 100)) * size,
            100 * size,
            looks,
            looks * draw(st.integers(1, 300)),
        )
        memory[OWED : OWED + 4] = draw(st.lists(st.integers(-(9 << 20), 9 << 20), min_size=4, max_size=4))
    return replace(view, memory=memory)


def check(policy: Best, view: RoutingView) -> None:
    assert_equals_oracle(policy, view, oracle.route(policy, view))


@given(routing_views(horizon=6, waiting=(0, 16)), policies(6), st.booleans(), st.data())
def test_rule_and_oracle_agree(view: RoutingView, policy: Best, known: bool, data: st.DataObject) -> None:
    if not known:
        view = replace(view, waiting_steps=np.full(view.waiting_id.size, np.nan))
    check(policy, data.draw(kept(view)))


@examples(60, fast=10)
@given(st.integers(24, 40), st.integers(0, 30), st.integers(0, 2**32 - 1), policies(2))
def test_rule_and_oracle_agree_where_most_of_many_requests_are_admitted(
    count: int, more: int, seed: int, policy: Best
) -> None:
    random = np.random.default_rng(seed)
    free = random.multinomial(count, np.ones(5) / 5)
    loads = np.floor(random.random(5) * 4000.0)
    ahead = np.floor(loads[:, None] * np.array([1.0, 0.8, 0.5]))
    sizes = np.floor(random.random(count + more) * 300.0) + 1.0
    view = moment(
        loads.tolist(),
        free.tolist(),
        sizes.tolist(),
        projections=ahead.tolist(),
        growth=[0, 1, 2],
        running=[6] * 5,
        memory=[0] * Best.memory_size,
    )
    check(policy, view)


@given(routing_views(horizon=3), policies(3), st.integers(0, 2**32 - 1), st.data())
def test_rule_and_oracle_agree_on_loads_that_are_not_whole(
    view: RoutingView, policy: Best, seed: int, data: st.DataObject
) -> None:
    random = np.random.default_rng(seed)
    parts = random.random(view.projections.shape)
    uneven = replace(
        view,
        projections=view.projections + parts,
        load=view.load + parts[:, 0],
        waiting_load=view.waiting_load + random.random(view.waiting_id.size),
        growth=np.cumsum(random.random(4)),
        waiting_steps=np.full(view.waiting_id.size, np.nan),
    )
    check(policy, data.draw(kept(uneven)))


@given(routing_views(horizon=6, waiting=(1, 12), kv_limited=True), policies(6), st.data())
def test_what_fits_an_idle_worker_does_not_wait(view: RoutingView, policy: Best, data: st.DataObject) -> None:
    idle = data.draw(st.lists(st.booleans(), min_size=view.load.size, max_size=view.load.size))
    busy = ~np.array(idle)
    view = replace(
        view,
        running=view.running * busy,
        load=view.load * busy,
        queued=view.queued * busy,
        queued_load=view.queued_load * busy,
        projections=view.projections * busy[:, None],
    )
    view = data.draw(kept(view))
    worker = replace(policy, window=0).route(view).worker
    held = view.waiting_load[worker < 0]
    for g in np.flatnonzero((view.running + view.queued == 0) & (view.free_slots > 0)):
        assert (worker == g).any() or not (held <= view.kv_free[g]).any()
