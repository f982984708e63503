"""The parts of a decision of `best`, one by one."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.best_moment import (
    MEMORY,
    OCTAVES,
    OFFSET,
    SEEN,
    TOKENS,
    is_flood,
    levels,
    moment_of,
    octaves,
    speeds,
    steered,
    targets,
    tries,
)
from tests.oracles.bf_io_moment import Moment
from tests.routing._routed import moment, seen

from evenstep.routing.policies.best import Best
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


def test_a_worker_is_led_to_its_level_where_a_choice_can_and_to_what_is_usual_where_it_cannot():
    view = moment([1000.0, 1200.0, 1100.0], [1, 0, 0], [40.0, 100.0, 160.0], group=[0, 0, 0])
    found, still = Moment.of(view, 0, 1.0, 0.0, 0, 0.0), np.zeros(3)
    near = np.full(3, 1150.0)
    target, hold = targets(found, near, still, 10.0, np.ones(3), 1.0)
    assert (target[0], hold[0]) == (1140.0, 1.0), "a choice of 49 tokens either way mends a quarter of the 50 they stray"
    target, hold = targets(found, near + 9e5, still, 10.0, np.ones(3), 1.0)
    assert hold[0] < 1e-20
    assert abs(target[0] - 1100.0) < 1e-6, "1,000 tokens and the mean request"
    few = Moment.of(replace(view, waiting_load=np.array([40.0])), 0, 1.0, 0.0, 0, 0.0)
    assert targets(few, near + 9e5, still, 10.0, np.ones(3), 1.0)[1].tolist() == [1.0] * 3, "no choice, no limit to it"


def test_it_is_a_flood_where_most_of_many_requests_are_admitted():
    def floods(waiting: int, free: int) -> bool:
        view = moment([5.0], [free], [1.0] * waiting, memory=[0] * MEMORY)
        return is_flood(Moment.of(view, 0, 1.0, 0.0, 0, 0.0))

    assert [floods(*case) for case in ((23, 40), (24, 40), (80, 40), (81, 40))] == [False, True, True, False]


def test_the_more_requests_leave_at_once_the_less_lies_ahead():
    def leaves(tokens: float) -> RoutingView:
        ahead = [[100.0, 102.0 - tokens], [100.0, 102.0 - tokens]]
        return moment([100.0, 100.0], [1, 0], [100.0], projections=ahead, growth=[0, 1], running=[2, 2])

    weights = [moment_of(Best(horizon=1), seen(leaves(t)))[0].weight[1] for t in (0.0, 10.0, 30.0, 40.0, 100.0)]
    assert weights[:2] == [0.88, 0.88]  # requests are 60 tokens in the mean
    assert weights[2] == 0.5 > weights[3] > weights[4] == 1.0 / 17.0, "of each worker one request at most"


def test_a_step_ahead_fades_with_the_workers_that_departures_correct_until_then():
    def second(waiting: list[float], tokens: float) -> float:
        ahead = [[100.0, 102.0 - tokens], [100.0, 102.0]]
        view = moment([100.0, 100.0], [1, 0], waiting, projections=ahead, growth=[0, 1], running=[2, 2])
        return moment_of(Best(horizon=1), seen(view))[0].weight[1]

    mixed, alike = [90.0, 110.0], [100.0, 100.0]  # requests are 66.7 tokens in the mean
    assert second(mixed, 0.0) == second(alike, 0.0) == 0.88
    assert second(mixed, 8.0) < second(mixed, 4.0) < 0.88
    assert second(alike, 8.0) == 0.88, "the choice of the next request mends nothing where all are alike"
    assert second(mixed, 100.0) == pytest.approx(0.25, rel=0.02), (
        "half for one request of two a step, and half are corrected"
    )


def test_departures_that_are_known_do_not_fade():
    """Ten requests of 100 tokens a worker, and one leaves: a known one, or one of forty with equal chances."""

    def second(*left: float) -> float:
        ahead = [[1000.0, 1010.0 - one] for one in left]
        waiting = [99.0, 101.0]
        view = moment([1000.0] * 4, [1, 0, 0, 0], waiting, projections=ahead, growth=[0, 1], running=[10] * 4)
        return moment_of(Best(horizon=1), seen(view))[0].weight[1]

    one, alike = second(100.0, 0.0, 0.0, 0.0), second(25.0, 25.0, 25.0, 25.0)
    share = (1.0 - 25.0 / 100.0) ** 2  # of each worker that is not corrected, where all are alike
    assert one / alike == pytest.approx((0.744 + 0.256 * 0.75) / share, rel=0.001)


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


def test_steering_that_is_kept_never_exceeds_one_mean_request():
    """A pool of large requests among many small arrivals, at thousands of decisions: two kinds, and nothing between."""
    view = moment([1000.0], [1], [60_000.0] * 8, running=[5])
    found, memory = Moment.of(view, 0, 1.0, 0.0, 0, 0.0), np.zeros(MEMORY, np.int64)
    memory[SEEN], memory[OCTAVES] = 1000, 1000 * octaves(100.0)
    for _ in range(3000):
        lowered = steered(Best(), memory, found, 5)
    assert memory[OFFSET] == -(1 << 20)
    assert lowered == (octaves(100.0) - octaves(60_000.0)) / 4096.0 * Best().steer - 1.0


def test_the_pool_is_measured_in_spreads_where_sizes_are_far_apart():
    """One large request more among eight that wait is 1.15 octaves; among arrivals a tenth are large: 4.9 octaves' spread."""
    memory = np.zeros(MEMORY, np.int64)
    memory[SEEN], memory[OCTAVES], memory[TOKENS] = 10, 9 * octaves(100.0) + octaves(60_000.0), 60_900
    view = moment([1000.0], [1], [60_000.0] + [100.0] * 7, running=[5])
    found = Moment.of(view, 0, 1.0, 0.0, 0, 0.0)
    mean = (9 * octaves(100.0) + octaves(60_000.0)) / 10
    off, spread = mean - (7 * octaves(100.0) + octaves(60_000.0)) / 8, (octaves(6_090.0) - mean) / 4096.0
    assert spread == pytest.approx(5.0, abs=0.1)
    lowered = steered(Best(), memory, found, 5)
    assert lowered - memory[OFFSET] / 2**20 == pytest.approx(Best().steer * off / 4096.0 / (spread / 1.5))
