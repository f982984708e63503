"""Room that `best` makes in time for requests that fit nowhere."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.oracles.best_moment import LEFT, MEMORY, RUSH, RUSH_US, rush_s
from tests.oracles.best_room import make_room
from tests.oracles.bf_io_moment import Moment
from tests.routing._routed import moment

from evenstep.request import F8
from evenstep.routing.policies.best import Best
from evenstep.routing.view import RoutingView

LEVEL = np.full(4, 1000.0)


def asked(
    sizes: list[float],
    waited_s: list[float],
    load: list[float],
    free: list[int],
    limit_s: float = 100.0,
    each_s: float = 0.1,
) -> tuple[F8, F8]:
    """Of four workers whose level is 1,000 tokens, with requests of 100 tokens in the mean: a lead of 0.006 s a token."""
    view = replace(moment(load, free, sizes), waited_s=np.array(waited_s))
    return make_room(
        view,
        Moment.of(view, 0, 1.0, 0.0, 0, 0.0),
        limit_s,
        each_s,
        100.0,
        np.ones(4),
        np.array(load),
        LEVEL,
        1.0,
    )


def test_a_worker_sinks_for_a_large_request_as_early_as_it_takes_and_not_earlier():
    load, free = [990.0, 950.0, 995.0, 999.0], [1, 1, 1, 1]
    lead_s = 1.5 * 500.0 / 100.0 * 4 * 0.1
    early = asked([500.0], [100.0 - lead_s - 0.01], load, free)
    worth, sunk = asked([500.0], [100.0 - lead_s + 0.01], load, free)
    assert (early[0].tolist(), early[1].tolist()) == ([0.0], [0.0] * 4)
    assert worth.tolist() == [0.0]
    assert sunk.tolist() == [0.0, 500.0, 0.0, 0.0], "the one that has most room already"


def test_it_comes_in_where_it_fits_and_what_fits_is_judged_more_mildly_as_time_goes():
    late, free = (
        100.0 - 0.5 * 3.0,
        [1, 1, 1, 1],
    )  # half of the lead is over: three quarters of the room will do
    worth, sunk = asked([500.0], [late], [990.0, 624.0, 995.0, 999.0], free)
    assert worth[0] == 2.0 * 500.0 * 4
    assert not sunk.any()
    worth, sunk = asked([500.0], [late], [990.0, 626.0, 995.0, 999.0], free)
    assert (worth[0], sunk[1]) == (0.0, 500.0)
    worth, sunk = asked([500.0], [late], [990.0, 400.0, 995.0, 999.0], [1, 0, 1, 1])
    assert (worth[0], sunk[1]) == (0.0, 500.0), "no slot is free there: it goes on sinking"


def test_each_has_a_worker_of_its_own_the_oldest_first_and_one_in_four_sinks():
    view = replace(moment([990.0] * 8, [1] * 8, [500.0, 600.0, 700.0]), waited_s=np.array([99.5, 99.45, 99.4]))
    level = np.array([1000.0] * 6 + [1100.0, 1200.0])
    worth, sunk = make_room(
        view,
        Moment.of(view, 0, 1.0, 0.0, 0, 0.0),
        100.0,
        0.01,
        100.0,
        np.ones(8),
        np.full(8, 990.0),
        level,
        1.0,
    )
    assert not worth.any()
    assert sunk.tolist() == [0.0] * 6 + [600.0, 500.0]


@pytest.mark.parametrize(("limit_s", "each_s"), [(0.0, 0.1), (math.inf, 0.1), (100.0, 0.0)])
def test_nobody_sinks_while_there_is_no_bound_or_no_pace(limit_s: float, each_s: float):
    worth, sunk = asked([500.0], [99.0], [900.0] * 4, [1] * 4, limit_s, each_s)
    assert not worth.any()
    assert not sunk.any()


def test_the_pace_is_that_of_the_time_in_which_requests_were_left_waiting():
    memory = np.zeros(MEMORY, np.int64)

    def decided(now_s: float, waiting: int, free: int) -> float:
        view: RoutingView = replace(moment([5.0], [free], [1.0] * waiting), now_s=now_s)
        found = rush_s(memory, view, Moment.of(view, 0, 1.0, 0.0, 0, 0.0))
        memory[0] = np.float64(now_s).view(np.int64)
        return found

    assert decided(1.0, 3, 5) == 0.0, "all were admitted"
    assert decided(9.0, 3, 2) == 0.0, "nobody had been left waiting until then"
    assert decided(9.5, 5, 4) == 0.125
    assert decided(9.75, 9, 1) == 0.15
    assert memory[[LEFT, RUSH, RUSH_US]].tolist() == [8, 5, 750_000]


def test_a_giant_comes_to_the_worker_that_sank_for_it():
    """Four workers at their level but for one; the giant has waited for almost its limit."""
    policy = Best(horizon=1, age_limit=10.0)
    memory = np.zeros(MEMORY, np.int64)
    memory[[1, 2, 3, 5, 6, LEFT, RUSH, RUSH_US]] = (
        4000,
        4000 * 27_000,
        400_000,
        4000,
        100,
        9,
        4000,
        400_000_000,
    )
    view = moment(
        [9900.0, 9900.0, 9900.0, 4800.0],
        [1, 0, 0, 1],
        [5000.0, 90.0, 100.0, 110.0],
        running=[30] * 4,
        growth=[0.0, 1.0],
        projections=[[9900.0, 9900.0]] * 3 + [[4800.0, 4800.0]],
        memory=memory.tolist(),
    )
    view = replace(view, mean_wait_s=10.0, waited_s=np.array([99.0, 3.0, 2.0, 1.0]), now_s=500.0)
    assert policy.route(view).worker[0] == 3
