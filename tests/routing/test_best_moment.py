"""The parts of a decision of `best`, one by one."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.routing._routed import moment, seen

from evenstep.routing.best import Best
from evenstep.routing.best_moment import MEMORY, levels, moment_of, octaves, speeds, tries
from evenstep.routing.bf_io_moment import Moment
from evenstep.routing.view import RoutingView


@given(st.floats(1.0, 1e9), st.floats(1.0, 1e9))
def test_octaves_rise_with_the_size_and_stay_near_its_logarithm(a: float, b: float) -> None:
    assert (a <= b) <= (octaves(a) <= octaves(b))
    assert math.log2(a) - 0.001 <= octaves(a) / 4096 + 0.087
    assert octaves(a) / 4096 <= math.log2(a) + 0.001


def test_the_level_is_where_workers_without_a_slot_will_stand_while_they_are_at_least_half():
    load, rise, speed = [10.0, 20.0, 30.0, 5.0, 7.0], np.array([1.0, 2.0, 4.0, 9.0, 9.0]), np.ones(5)
    view = moment(load, [1, 0, 0, 1, 2], [6.0], group=[0, 0, 0, 1, 1])
    found = levels(Moment.of(view, 0, 1.0, 0.0, 0, 0.0), np.array(load), rise, speed, 4.0)
    assert found.tolist() == [28.0, 28.0, 28.0, 21.0, 21.0]


def test_the_more_requests_leave_at_once_the_less_lies_ahead():
    def leaves(tokens: float) -> RoutingView:
        ahead = [[100.0, 102.0 - tokens], [100.0, 102.0 - tokens]]
        return moment([100.0, 100.0], [1, 0], [100.0], projections=ahead, growth=[0, 1], running=[2, 2])

    weights = [
        moment_of(Best(horizon=1), seen(leaves(t)))[0].weight[1] for t in (0.0, 10.0, 30.0, 40.0, 100.0)
    ]
    assert weights[:2] == [0.88, 0.88]  # requests are 60 tokens in the mean
    assert weights[2] == 0.5 > weights[3] > weights[4] == 1.0 / 17.0, "of each worker one request at most"


def test_many_slots_at_once_have_more_tries_each():
    assert [tries(16, count) for count in (1, 4, 23, 24, 1000)] == [16, 64, 368, 3072, 128000]


def test_equal_workers_have_speed_one_and_others_their_share_of_the_mean():
    view = moment([1.0, 1.0], [1, 1], [1.0])
    assert speeds(view).tolist() == [1.0, 1.0]
    assert speeds(moment([1.0, 1.0], [1, 1], [1.0], seconds_per_token=[1.0, 3.0])).tolist() == [0.5, 1.5]


def test_nothing_is_looked_at_where_nothing_is_admitted():
    view = moment([5.0], [0], [1.0], memory=[0] * MEMORY)
    found, memory = moment_of(Best(), view)
    assert found.count == 0
    assert memory.tolist() == [0] * MEMORY
