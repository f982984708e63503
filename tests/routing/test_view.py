"""The contract of a routing decision: `broken_rule` names what breaks it."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import routing_views

from evenstep.routing.view import (
    HOLD,
    RoutingDecision,
    RoutingPolicy,
    RoutingView,
    broken_rule,
    horizon_of,
    memory_size_of,
)


def view(*, free=(2, 1), kv=(math.inf, math.inf), waiting=(5.0, 7.0, 9.0)) -> RoutingView:
    G, W = len(free), len(waiting)
    return RoutingView(
        decision=0,
        seed=0,
        now_s=0.0,
        mean_wait_s=0.0,
        group=np.zeros(G, np.int64),
        queued=np.zeros(G, np.int64),
        queued_load=np.zeros(G),
        load=np.zeros(G),
        free_slots=np.array(free),
        running=np.zeros(G, np.int64),
        kv_free=np.array(kv),
        seconds_per_token=np.ones(G),
        waiting_id=np.arange(W),
        waiting_load=np.array(waiting),
        waited_s=np.zeros(W),
        waiting_class=np.zeros(W, np.int64),
        waiting_key=np.arange(W),
        waiting_steps=np.full(W, np.nan),
        projections=np.zeros((G, 1)),
        growth=np.zeros(1),
        cached_tokens=np.zeros((0, 0)),
        memory=np.zeros(2, np.int64),
    )


def rule(worker, kept=None, **options) -> str:
    return broken_rule(view(**options), RoutingDecision(worker, kept))


def test_a_decision_within_slots_and_memory_breaks_nothing():
    assert rule(np.array([0, 1, HOLD])) == ""
    assert rule(np.array([0, 1, 0]), np.array([8, 9])) == ""
    assert rule(np.zeros(0, np.int64), waiting=()) == ""
    assert rule(np.array([0, 1, HOLD]), kv=(5.0, 7.0)) == ""  # all that is free may be used


@pytest.mark.parametrize(
    ("worker", "options", "said"),
    [
        ([0, 1, HOLD], {}, "worker is a list; expected an array of int64"),
        (np.array([0, 1]), {}, "worker has shape (2,); expected (3,), one entry a waiting request"),
        (np.array([0.0, 1.0, -1.0]), {}, "worker has dtype float64; expected int64"),
        (np.array([0, 2, 9]), {}, "unknown worker 2; expected -1 (hold) or 0..1"),
        (np.array([0, -2, HOLD]), {}, "unknown worker -2; expected -1 (hold) or 0..1"),
        (np.array([1, 0, 1]), {}, "over capacity: worker 1 is sent 2 requests and has 1 free slot"),
        (
            np.array([0, HOLD, 0]),
            {"kv": (13.5, 20.0)},
            "over capacity: worker 0 is sent 14 KV tokens and has 13.5 free",
        ),
        (
            np.array([HOLD] * 3),
            {"kept": np.zeros(1, np.int64)},
            "memory has shape (1,); expected (2,)",
        ),
        (np.array([HOLD] * 3), {"kept": [0, 1]}, "memory is a list; expected an array of int64"),
        (np.array([HOLD] * 3), {"kept": np.zeros(2)}, "memory has dtype float64; expected int64"),
        (np.array([HOLD] * 3), {"kept": np.zeros(2, np.int32)}, "memory has dtype int32; expected int64"),
        (np.array([HOLD] * 3), {"kept": np.zeros(2, np.uint64)}, "memory has dtype uint64; expected int64"),
    ],
)
def test_a_broken_rule_is_one_sentence(worker, options, said):
    assert rule(worker, **options) == said


@given(st.data())
def test_it_objects_exactly_where_a_count_by_hand_does(data):
    seen = data.draw(routing_views(kv_limited=True, waiting=(1, 8)))
    G, W = seen.load.size, seen.waiting_id.size
    worker = np.array(data.draw(st.lists(st.integers(HOLD, G - 1), min_size=W, max_size=W)))
    fits = all(
        (worker == g).sum() <= seen.free_slots[g] and seen.waiting_load[worker == g].sum() <= seen.kv_free[g]
        for g in range(G)
    )
    assert (broken_rule(seen, RoutingDecision(worker)) == "") == fits


def test_a_policy_is_what_routes_and_says_what_it_wants():
    @dataclass(frozen=True)
    class Plain:
        def route(self, view):
            return RoutingDecision(np.full(view.waiting_id.size, HOLD))

    @dataclass(frozen=True)
    class Wants(Plain):
        horizon: int = 4
        memory_size: int = 2

    assert isinstance(Plain(), RoutingPolicy)
    assert (horizon_of(Plain()), memory_size_of(Plain())) == (0, 0)
    assert (horizon_of(Wants()), memory_size_of(Wants())) == (4, 2)


def test_a_view_and_a_decision_stay_as_they_are():
    with pytest.raises(dataclasses.FrozenInstanceError):
        view().seed = 3  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        RoutingDecision(np.zeros(1, np.int64)).bound = 1.0  # type: ignore[misc]
