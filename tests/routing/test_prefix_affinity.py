"""Prefix affinity: the rule by hand, its switch to balance, and what it does when caches are unknown."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from tests.routing._routed import moment
from tests.strategies import routing_views

from evenstep.errors import InputError
from evenstep.routing.policies.consistent_hash import ConsistentHash
from evenstep.routing.policies.jsq import JSQ
from evenstep.routing.policies.prefix_affinity import PrefixAffinity
from evenstep.routing.view import broken_rule


def test_the_worker_with_most_of_the_prompt_takes_it():
    view = moment([0] * 3, [9] * 3, [100], running=[1, 7, 4], cached_tokens=[[0, 60, 80]])
    assert PrefixAffinity().route(view).worker.tolist() == [2]


def test_too_small_a_share_goes_to_the_smallest_load():
    view = moment([0] * 3, [9] * 3, [100], running=[1, 7, 4], cached_tokens=[[0, 50, 20]])
    assert PrefixAffinity().route(view).worker.tolist() == [0]
    assert PrefixAffinity(cached_share=0.4).route(view).worker.tolist() == [1]


def test_equal_prefixes_go_to_the_smaller_load():
    view = moment([0] * 3, [9] * 3, [100], running=[5, 7, 4], cached_tokens=[[90, 90, 0]])
    assert PrefixAffinity().route(view).worker.tolist() == [0]


def test_an_unbalanced_fleet_is_balanced_first():
    view = moment([0] * 2, [99] * 2, [100] * 2, running=[0, 33], cached_tokens=[[0, 100]] * 2)
    assert PrefixAffinity().route(view).worker.tolist() == [0, 1]
    assert PrefixAffinity(balance_rel=50.0, balance_abs=0).route(view).worker.tolist() == [0, 1]
    assert PrefixAffinity(balance_abs=34).route(view).worker.tolist() == [1, 1]


def test_a_worker_that_is_lost_says_nothing_about_balance():
    """The last one has neither requests nor free slots, as an ejected worker."""
    view = moment([0] * 3, [99, 99, 0], [100], running=[50, 50, 0], cached_tokens=[[0, 100, 0]])
    assert PrefixAffinity().route(view).worker.tolist() == [1]
    full = moment([0] * 3, [99, 99, 0], [100], running=[50, 90, 50], cached_tokens=[[0, 100, 0]])
    assert PrefixAffinity().route(full).worker.tolist() == [0]


def test_a_full_worker_is_passed_over():
    view = moment([0] * 2, [9, 0], [100], running=[1, 1], cached_tokens=[[0, 100]])
    assert PrefixAffinity().route(view).worker.tolist() == [0]


@given(routing_views(keys=3))
def test_where_caches_are_unknown_it_is_consistent_hashing_until_the_fleet_is_unbalanced(view):
    policy = PrefixAffinity(balance_abs=10_000, bound=1.5, virtual_nodes=8)
    expected = ConsistentHash(bound=1.5, virtual_nodes=8).route(view).worker
    assert policy.route(view).worker.tolist() == expected.tolist()


@given(routing_views(cached=True))
def test_it_keeps_the_contract_and_fills_every_slot(view):
    decision = PrefixAffinity(balance_abs=2, cached_share=0.25).route(view)
    assert broken_rule(view, decision) == ""
    if np.isinf(view.kv_free).all():
        assert (decision.worker >= 0).sum() == min(view.waiting_id.size, view.free_slots.sum())


@given(routing_views(cached=True))
def test_with_nothing_cached_it_is_the_shortest_queue(view):
    cold = dataclasses.replace(view, cached_tokens=np.zeros_like(view.cached_tokens))
    assert PrefixAffinity().route(cold).worker.tolist() == JSQ(ties="lowest").route(cold).worker.tolist()


@pytest.mark.parametrize("options", [{"cached_share": 1.5}, {"balance_abs": -1}, {"balance_rel": 0.5}, {"bound": 0}])
def test_options_out_of_range_are_named(options):
    with pytest.raises(InputError, match=f"prefix-affinity: {next(iter(options))} is "):
        PrefixAffinity(**options)
