"""Weighted by hand, against JSQ and round robin, and its kernel."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from tests.routing._routed import assert_doors_agree, moment, routed
from tests.strategies import routing_views

from evenstep.routing.policies.jsq import JSQ
from evenstep.routing.policies.round_robin import RoundRobin
from evenstep.routing.policies.weighted import Weighted


def test_the_fewest_connections_for_its_weight_are_next():
    view = moment([0] * 3, [9] * 3, [1] * 4, running=[3, 1, 0], memory=[0])
    assert routed(Weighted(weights="4/2/1"), view) == [0, 1, 2, 0]


def test_speeds_are_the_weights_where_none_are_given():
    view = moment([0] * 2, [9] * 2, [1] * 6, running=[0, 0], memory=[0], seconds_per_token=[1e-7, 2e-7])
    assert np.bincount(Weighted().route(view).worker).tolist() == [4, 2]


def test_turns_are_in_proportion_and_spread_evenly():
    view = moment([0] * 3, [800] * 3, [1] * 700, running=[0] * 3, memory=[0])
    taken = Weighted(rule="round-robin", weights="4/2/1").route(view).worker
    for part in taken.reshape(10, 70):
        assert np.abs(np.bincount(part) - [40, 20, 10]).max() <= 1


def test_turns_go_on_where_they_stood():
    policy = Weighted(rule="round-robin", weights="2/1")
    whole = moment([0] * 2, [80] * 2, [1] * 60, memory=[0])
    memory, parts = [0], []
    for _ in range(6):
        decision = policy.route(moment([0] * 2, [80] * 2, [1] * 10, memory=memory))
        assert decision.memory is not None
        memory, parts = decision.memory.tolist(), [*parts, *decision.worker.tolist()]
    assert parts == policy.route(whole).worker.tolist()


@given(routing_views(memory=1))
def test_of_equal_weights_turns_are_round_robin_and_connections_are_jsq(view):
    turns = Weighted(rule="round-robin", weights=(1.0,)).route(view)
    assert Weighted(weights=(1.0,)).route(view).worker.tolist() == JSQ(ties="lowest").route(view).worker.tolist()
    if view.memory[0] < view.load.size:
        assert turns.worker.tolist() == RoundRobin().route(view).worker.tolist()


@given(routing_views(memory=1))
def test_both_doors_agree(view):
    for rule in ("least-connections", "round-robin"):
        assert_doors_agree(Weighted(rule=rule), view)
        assert_doors_agree(Weighted(rule=rule, weights=(3.0, 1.0, 0.001)), view)
