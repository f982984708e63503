"""Consistent hashing with bounded loads: affinity, its bound, and its kernel."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from tests.routing._routed import assert_doors_agree, moment
from tests.strategies import routing_views

from evenstep.errors import InputError
from evenstep.routing.checks import kernel_call
from evenstep.routing.policies.consistent_hash import ConsistentHash


def test_requests_of_one_key_meet_on_one_worker():
    view = moment([0] * 4, [99] * 4, [1] * 40, running=[0] * 4, waiting_key=[i % 7 for i in range(40)])
    worker = ConsistentHash(bound=4.0).route(view).worker
    assert all(len(set(worker[view.waiting_key == key])) == 1 for key in range(7))


def test_without_one_worker_only_its_own_keys_move():
    keys = list(range(200))
    whole = moment([0] * 5, [999] * 5, [1] * 200, running=[0] * 5, waiting_key=keys)
    fewer = moment([0] * 5, [999, 999, 0, 999, 999], [1] * 200, running=[0] * 5, waiting_key=keys)
    before, after = (ConsistentHash(bound=5.0).route(view).worker for view in (whole, fewer))
    assert np.all((before == after) | (before == 2))


def test_one_hot_key_spreads_over_the_fleet_within_the_bound():
    view = moment([0] * 4, [99] * 4, [1] * 100, running=[0] * 4, waiting_key=[5] * 100)
    counts = np.bincount(ConsistentHash(bound=1.25).route(view).worker, minlength=4)
    assert counts.max() <= math.ceil(1.25 * 100 / 4)


def test_workers_that_are_lost_have_no_share_of_the_bound():
    """The same keys meet on the same workers, with and without a fourth that has neither requests nor free slots."""
    keys = {"waiting_key": np.repeat(np.arange(3), 20)}
    three, four = (
        moment([0] * len(free), free, [1] * 60, running=[0] * len(free), **keys) for free in ([99] * 3, [99] * 3 + [0])
    )
    assert ConsistentHash().route(four).worker.tolist() == ConsistentHash().route(three).worker.tolist()


def test_a_bound_beyond_every_count_keeps_a_key_on_its_worker():
    """Plain Python used to fail where ``bound * requests`` is too large for a float."""
    view = moment([0, 0], [3, 3], [5, 5, 5], waiting_key=[7, 7, 7])
    assert len(set(ConsistentHash(bound=1e308).route(view).worker.tolist())) == 1
    assert_doors_agree(ConsistentHash(bound=1e308), view)
    assert len(set(kernel_call(ConsistentHash(bound=1e308), view).in_plain().decision().worker.tolist())) == 1


def test_another_seed_is_another_ring():
    answers = [
        ConsistentHash(bound=9.0).route(moment([0] * 3, [99] * 3, [1] * 30, seed=seed)).worker.tolist() for seed in (0, 1)
    ]
    assert answers[0] != answers[1]


def test_all_slots_are_filled_even_if_only_busy_workers_have_them():
    view = moment([0] * 2, [3, 0], [1] * 3, running=[50, 0])
    assert ConsistentHash(bound=1.0).route(view).worker.tolist() == [0, 0, 0]


@given(routing_views(keys=3))
def test_both_doors_agree(view):
    assert_doors_agree(ConsistentHash(), view)
    assert_doors_agree(ConsistentHash(bound=1.0, virtual_nodes=2), view)


@pytest.mark.parametrize("options", [{"bound": 0.9}, {"bound": math.inf}, {"virtual_nodes": 0}])
def test_options_out_of_range_are_named(options):
    with pytest.raises(InputError, match=f"consistent-hash: {next(iter(options))} is "):
        ConsistentHash(**options)
