"""The parts of a decision of `best`, one by one."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.routing._routed import moment

from evenstep.routing.best import Best
from evenstep.routing.best_moment import levels, moment_of, octaves, quotas, speeds
from evenstep.routing.bf_io_moment import Moment


@given(st.floats(1.0, 1e9), st.floats(1.0, 1e9))
def test_octaves_rise_with_the_size_and_stay_near_its_logarithm(a: float, b: float) -> None:
    assert (a <= b) <= (octaves(a) <= octaves(b))
    assert math.log2(a) - 0.001 <= octaves(a) / 4096 + 0.087
    assert octaves(a) / 4096 <= math.log2(a) + 0.001


def test_the_level_is_where_workers_without_a_slot_will_stand():
    group = np.array([0, 0, 0, 1, 1])
    load, rise = np.array([10.0, 20.0, 30.0, 5.0, 7.0]), np.array([1.0, 2.0, 4.0, 9.0, 9.0])
    assert levels(group, load, rise, np.array([1, 0, 0, 1, 2])).tolist() == [28.0, 28.0, 28.0, 6.0, 6.0]


def test_equal_workers_have_speed_one_and_others_their_share_of_the_mean():
    view = moment([1.0, 1.0], [1, 1], [1.0])
    assert speeds(view).tolist() == [1.0, 1.0]
    assert speeds(moment([1.0, 1.0], [1, 1], [1.0], seconds_per_token=[1.0, 3.0])).tolist() == [0.5, 1.5]


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=30),
    st.integers(1, 30),
    st.lists(st.floats(0.1, 10.0), max_size=5).map(tuple),
    st.integers(0, 50),
)
def test_quotas_use_every_slot_and_give_no_backlogged_class_less_than_its_share(
    classes: list[int], free: int, weights: tuple[float, ...], decision: int
) -> None:
    W, count = len(classes), min(free, len(classes))
    view = moment([0.0], [free], [1.0] * W, waiting_class=classes)
    kind, quota = quotas(weights, view, Moment.of(view, 0, 1.0, 0.0, 0, 0.0))
    assert quota.sum() == count
    assert quota.min() >= 0
    if quota.size > 1:
        demand = np.bincount(kind)
        named = list(dict.fromkeys(classes))
        weight = np.array([weights[c] if c < len(weights) else 1.0 for c in named])
        share = count * weight / weight.sum()
        assert (quota + 1 > np.minimum(share, demand) - 1e-9).all()
        assert (quota < demand + 1).all() or quota.size == 1


def test_nothing_is_looked_at_where_nothing_is_admitted():
    view = moment([5.0], [0], [1.0], memory=[0, 0, 0, 0, 0])
    found, memory = moment_of(Best(), view)
    assert found.count == 0
    assert memory.tolist() == [0, 0, 0, 0, 0]
