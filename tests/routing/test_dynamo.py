"""Dynamo's cost by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from tests.routing._routed import assert_always_to_the_least, moment, routed
from tests.strategies import routing_views

from evenstep.compiled import jit
from evenstep.errors import InputError
from evenstep.routing.policies import dynamo
from evenstep.routing.policies.dynamo import Dynamo


@jit
def exponential(x):
    return dynamo.exponential(x)


def test_it_counts_blocks_in_decode_and_blocks_still_to_prefill():
    """Prompt of 32. Worker 0: 2 * (64 sent + 32) of which 64 also decode later; worker 1: 160 run, nothing is sent."""
    view = moment([0, 80], [1, 1], [32], queued=[1, 0], queued_load=[64, 0])
    assert routed(Dynamo(), view) == [1]  # (64 + 32 + 64 + 32) / 16 = 12 against (32 + 80 + 32) / 16 = 9
    assert routed(Dynamo(prefill_load_scale=0), view) == [0]  # 6 against 7 blocks


def test_a_cached_prefix_is_worth_its_blocks():
    """Worker 1 carries 48 tokens more and has 64 of the prompt's 80 cached."""
    view = moment([100, 148], [1, 1], [80], cached_tokens=[[0, 64]])
    assert routed(Dynamo(), view) == [1]
    assert routed(Dynamo(overlap_score_credit=0.5), view) == [0]
    assert routed(Dynamo(overlap_score_credit=0), view) == [0]


def test_a_prompt_counts_twice_until_it_decodes():
    """After 40 tokens went to worker 0 it has 40 to prefill and 40 held, so 90 tokens elsewhere are more, 70 are less."""
    assert routed(Dynamo(), moment([0, 90], [2, 2], [40, 10])) == [0, 0]
    assert routed(Dynamo(), moment([0, 70], [2, 2], [40, 10])) == [0, 1]


def test_an_active_request_may_cost_blocks_of_its_own():
    view = moment([160, 176], [1, 1], [16], running=[5, 1])
    assert routed(Dynamo(), view) == [0]
    assert routed(Dynamo(active_request_weight=0.5), view) == [1]


def test_ties_go_by_chance_to_every_tied_worker_and_no_other():
    answers = {routed(Dynamo(), moment([5, 5, 5, 9], [1] * 4, [1], seed=seed))[0] for seed in range(40)}
    assert answers == {0, 1, 2}


@pytest.mark.slow
def test_at_a_temperature_the_costs_are_drawn_by_their_softmax():
    """Costs scaled to their range are 0, 1/2 and 1; at temperature 1 the odds are 1, exp(-1/2), exp(-1)."""
    draws = [routed(Dynamo(temperature=1), moment([0, 50, 100], [1] * 3, [1], seed=s))[0] for s in range(1000)]
    odds = np.array([1, math.exp(-0.5), math.exp(-1)])
    assert np.bincount(draws, minlength=3) / 1000 == pytest.approx(odds / odds.sum(), abs=0.05)


@pytest.mark.parametrize("x", [0.0, 0.3, 1.0, 17.5, 300.0, 699.0])
def test_its_exponential_is_the_exponential(x):
    assert exponential(x) == pytest.approx(math.exp(-x), rel=1e-11)
    assert exponential(1e9) == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"overlap_score_credit": -1.0},
            "dynamo: overlap_score_credit is -1.0; expected a finite number >= 0",
        ),
        ({"prefill_load_scale": math.nan}, "dynamo: prefill_load_scale is nan"),
        ({"active_request_weight": math.inf}, "dynamo: active_request_weight is inf"),
        ({"temperature": -0.5}, "dynamo: temperature is -0.5"),
        ({"block_size": 0}, "dynamo: block_size is 0; expected an integer >= 1"),
    ],
)
def test_an_option_out_of_range_is_named(options, message):
    with pytest.raises(InputError, match=message):
        Dynamo(**options)


@given(routing_views(kv_limited=False))
def test_behind_separate_prefill_and_without_caches_it_is_least_load(view):
    worker = routed(Dynamo(prefill_load_scale=0), view)
    assert_always_to_the_least(worker, view, view.load + view.queued_load, view.waiting_load)


@given(routing_views())
def test_it_keeps_the_contract(view):
    routed(Dynamo(), view)
    routed(Dynamo(temperature=0.5), view)
