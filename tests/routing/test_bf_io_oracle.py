"""The rule of BF-IO decides in bits what its plain oracle does, whatever the options, through both doors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles import bf_io as oracle
from tests.routing._routed import assert_equals_oracle
from tests.strategies import routing_views

from evenstep.routing.policies.bf_io import BFIO
from evenstep.routing.view import RoutingView


@st.composite
def policies(draw: st.DrawFn, horizon: int) -> BFIO:
    return BFIO(
        horizon=horizon,
        discount=draw(st.sampled_from([1.0, 0.9, 0.3])),
        tie_weight=draw(st.sampled_from([0.0, 0.0, 1.0, 30.0])),
        starts=draw(st.integers(1, 3)),
        window=draw(st.sampled_from([0, 0, 1, 6])),
        moves=draw(st.sampled_from([20_000, 20_000, 9, 1, 0])),
        age_limit=draw(st.sampled_from([0.0, 2.0, 15.0])),
    )


@given(routing_views(horizon=0), policies(0), st.booleans())
def test_rule_and_oracle_agree_without_horizon(view: RoutingView, policy: BFIO, known: bool) -> None:
    check(policy, view if known else ends_unknown(view))


@given(routing_views(horizon=6, waiting=(0, 16)), policies(6), st.booleans())
def test_rule_and_oracle_agree_with_a_horizon(view: RoutingView, policy: BFIO, known: bool) -> None:
    check(policy, view if known else ends_unknown(view))


@given(routing_views(horizon=3), policies(3), st.integers(0, 2**32 - 1))
def test_rule_and_oracle_agree_on_loads_that_are_not_whole(view: RoutingView, policy: BFIO, seed: int) -> None:
    random = np.random.default_rng(seed)
    parts = random.random(view.projections.shape)
    uneven = replace(
        ends_unknown(view),
        projections=view.projections + parts,
        load=view.load + parts[:, 0],
        waiting_load=view.waiting_load + random.random(view.waiting_id.size),
        growth=np.cumsum(random.random(4)),
    )
    check(policy, uneven)


def check(policy: BFIO, view: RoutingView) -> None:
    assert_equals_oracle(policy, view, oracle.route(policy, view))


def ends_unknown(view: RoutingView) -> RoutingView:
    return replace(view, waiting_steps=np.full(view.waiting_id.size, np.nan))
