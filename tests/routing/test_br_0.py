"""BR-0: options, pool bypass, and the paper's pseudo-code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from tests.oracles import balance_route
from tests.oracles.br_0 import br_0
from tests.routing._routed import moment, routed
from tests.strategies import routing_views

from evenstep.errors import InputError
from evenstep.routing.policies.br_0 import BR0
from evenstep.routing.policies.least_load import LeastLoad


@given(routing_views(groups=(1, 1), workers=(2, 8)))
def test_pool_bypass_with_widest_margin_ties_is_least_load(view):
    assert BR0(bypass=True).route(view).worker.tolist() == LeastLoad().route(view).worker.tolist()


def test_pool_bypass_may_give_ties_to_the_most_free_slots():
    view = moment([100, 10, 20], [1, 1, 5], [30])
    assert routed(BR0(bypass=True), view) == [1]
    assert routed(BR0(bypass=True, ties="free-slots"), view) == [2]


def test_the_penalty_says_what_a_token_over_the_envelope_costs():
    """A margin of 30 for 25 or 40 tokens: 40 is worth 40 - penalty * 10, more than 25 up to a penalty of 1.5."""
    view = moment([100, 70], [0, 1], [25, 40])
    assert routed(BR0(), view) == [1, -1]  # two workers: penalty 2
    assert routed(BR0(penalty=1.4), view) == [-1, 1]
    assert routed(BR0(penalty=1.4, reward=0.9), view) == [1, -1]


def test_workers_in_order_of_margin_are_compared_by_what_their_margins_are_now():
    """75 tokens lift the envelope by 15 after the second and third worker queued with margins of 55 and 50.

    The second takes 12 tokens and has a margin of 58 then, the third one of 65: it goes first.
    """
    rule = BR0(order="margin", candidates=1, stage_two_below=99)
    assert routed(rule, moment([40, 45, 50, 100], [2, 2, 1, 0], [75, 12, 10])) == [0, 1, 2]


@pytest.mark.parametrize(("workers", "pool", "slots"), [(16, 128, 6), (16, 128, 30), (128, 1000, 46), (128, 1500, 100)])
def test_it_decides_as_the_papers_pseudo_code_does_at_any_size(workers, pool, slots):
    random = np.random.default_rng(workers + pool + slots)
    load = random.normal(60_000, 800, workers).round()
    free = np.bincount(random.integers(0, workers, slots), minlength=workers)
    size = np.clip(random.lognormal(6.1, 1.15, pool), 4, 4096).round()
    view = moment(load.tolist(), free.tolist(), size.tolist())
    wanted = br_0(load.tolist(), free.tolist(), size.tolist())
    assert routed(BR0(age_limit=0), view) == wanted
    assert balance_route.route(BR0(age_limit=0), view).worker.tolist() == wanted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"candidates": 0}, "br-0: candidates is 0; expected an integer from 1 to 16"),
        ({"candidates": 17}, "solver=bitset takes up to 32"),
        ({"candidates": 33, "solver": "bitset"}, "expected an integer from 1 to 32"),
        ({"stage_two_below": -1}, "br-0: stage_two_below is -1"),
        ({"age_limit": -1.0}, "br-0: age_limit is -1.0"),
        ({"horizon": 5}, "br-0: horizon is 5; expected 0. br-h looks ahead."),
        ({"discount": 1.5}, r"br-0: discount is 1.5; expected a number in \(0, 1\]"),
        ({"penalty": -1.0}, "br-0: penalty is -1.0; expected a finite number >= 0, or null"),
        ({"reward": 0.0}, "br-0: reward is 0.0; expected a finite number > 0"),
    ],
)
def test_an_option_out_of_range_is_named(options, message):
    with pytest.raises(InputError, match=message):
        BR0(**options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stage_two_below": 0, "age_limit": 0.0},
        {"pick": "fit", "order": "margin", "candidates": 3},
        {"solver": "bitset", "candidates": 4, "stage_two_below": 99},
        {"stage_two_below": 99, "candidates": 1},
        {"bypass": True, "ties": "free-slots"},
        {"penalty": 1.0},
        {"penalty": 0.0, "reward": 2.0, "solver": "bitset"},
        {"penalty": 1.5, "reward": 0.5, "bypass": True},
    ],
)
def test_it_decides_as_its_oracle_with_every_option(options):
    policy = BR0(**options)

    @given(routing_views())
    def agree(view):
        assert routed(policy, view) == balance_route.route(policy, view).worker.tolist()

    agree()
