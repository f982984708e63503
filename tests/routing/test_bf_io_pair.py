"""Two free slots: BF-IO against all pairs, and against BalanceRoute's greedy."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles import bf_io as oracle
from tests.routing._routed import assert_equals_oracle, moment
from tests.strategies import routing_views

from evenstep.routing.bf_io.exact import instance, objective
from evenstep.routing.policies.bf_io import BFIO
from evenstep.routing.policies.br_0 import BR0
from evenstep.routing.view import HOLD, RoutingView


@st.composite
def two_slots(draw: st.DrawFn, horizon: int = 0) -> RoutingView:
    """A pool of 3 or more, two free slots, ends of requests unknown, nothing limited by KV memory."""
    view = draw(routing_views(kv_limited=False, horizon=horizon, waiting=(3, 12)))
    free = np.zeros_like(view.free_slots)
    for _ in range(2):
        free[draw(st.integers(0, free.size - 1))] += 1
    return replace(view, free_slots=free, waiting_steps=np.full(view.waiting_id.size, np.nan))


def imbalance(view: RoutingView, policy: BFIO, worker: np.ndarray) -> float:
    return objective(instance(view, policy.horizon, policy.discount, 0, 0.0), worker)


@given(two_slots())
def test_bf_io_is_never_worse_than_br_0_at_two_slots(view: RoutingView) -> None:
    policy = BFIO(age_limit=0.0)
    found = imbalance(view, policy, policy.route(view).worker)
    for greedy in (BR0(age_limit=0.0), BR0(age_limit=0.0, pick="fit", order="margin")):
        assert found <= imbalance(view, policy, greedy.route(view).worker) + 1e-5


@given(two_slots(horizon=3), st.sampled_from([1.0, 0.9]))
def test_bf_io_is_exact_at_two_slots(view: RoutingView, discount: float) -> None:
    policy = BFIO(horizon=3, discount=discount, age_limit=0.0)
    slots = np.repeat(np.arange(view.load.size), view.free_slots)
    best = np.inf
    for pair in permutations(range(view.waiting_id.size), 2):
        worker = np.full(view.waiting_id.size, HOLD)
        worker[list(pair)] = slots
        best = min(best, imbalance(view, policy, worker))
    assert imbalance(view, policy, policy.route(view).worker) <= best + 1e-4


def test_two_requests_change_together_where_each_alone_would_overtake_the_other() -> None:
    """1227 and 1276 end 93 apart, each the best for the other; 166 and 42 end 18 apart."""
    waiting = [
        2034,
        1227,
        2080,
        2345,
        42,
        3614,
        1683,
        885,
        3284,
        2932,
        2330,
        405,
        3501,
        1606,
        3019,
        1276,
        166,
        2911,
        1511,
        3919,
    ]
    view = moment([1749, 1891], [1, 1], waiting)
    policy = BFIO(age_limit=0.0)
    assert imbalance(view, policy, policy.route(view).worker) == pytest.approx(0.0, abs=18)


@given(two_slots(horizon=2), st.sampled_from([0.0, 1.0]), st.booleans(), st.integers(0, 2**32 - 1))
def test_rule_and_oracle_choose_the_same_two(view: RoutingView, tie: float, limited: bool, seed: int) -> None:
    random = np.random.default_rng(seed)
    view = replace(view, waiting_load=view.waiting_load + random.random(view.waiting_id.size))
    if limited:
        view = replace(view, kv_free=np.floor(random.random(view.load.size) * 2 * view.waiting_load.max()))
    policy = BFIO(horizon=2, discount=0.9, tie_weight=tie, age_limit=0.0)
    assert_equals_oracle(policy, view, oracle.route(policy, view))
