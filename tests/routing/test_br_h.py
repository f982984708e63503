"""BR-H: options, BR-0 as its special case, and its oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from tests.oracles import balance_route
from tests.routing._routed import routed
from tests.strategies import routing_views

from evenstep.errors import InputError
from evenstep.routing.policies.br_0 import BR0
from evenstep.routing.policies.br_h import BRH

SHARED = [
    {},
    {"pick": "fit"},
    {"order": "margin"},
    {"solver": "bitset", "stage_two_below": 99},
    {"age_limit": 2.0},
    {"penalty": 1.5, "reward": 0.5, "discount": 0.5},
]


@pytest.mark.parametrize("options", SHARED)
@pytest.mark.parametrize("score", ["marginal", "single"])
def test_without_horizon_it_is_br_0(options, score):
    @given(routing_views())
    def same(view):
        found = BRH(horizon=0, score=score, **options).route(view).worker
        assert np.array_equal(found, BR0(**options).route(view).worker)

    same()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"horizon": -1}, "br-h: horizon is -1; expected an integer >= 0"),
        ({"discount": 0.0}, "br-h: discount is 0.0"),
        ({"discount": 1.1}, "br-h: discount is 1.1"),
        ({"penalty": -1.0}, "br-h: penalty is -1.0"),
        ({"reward": 0.0}, "br-h: reward is 0.0"),
        ({"reward": float("nan")}, "br-h: reward is nan"),
    ],
)
def test_an_option_out_of_range_is_named(options, message):
    with pytest.raises(InputError, match=message):
        BRH(**options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"score": "single", "penalty": 1.0},
        {"penalty": 1.0, "discount": 1.0},
        {"penalty": 0.0},
        {"pick": "fit", "order": "margin", "candidates": 4},
        {"solver": "bitset", "stage_two_below": 99},
        {"stage_two_below": 99, "reward": 0.5, "candidates": 3},
    ],
)
def test_it_decides_as_its_oracle_with_every_option(options):
    policy = BRH(**{"horizon": 3} | options)

    @given(routing_views(horizon=3))
    def agree(view):
        assert routed(policy, view) == balance_route.route(policy, view).worker.tolist()

    agree()
