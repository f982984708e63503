"""What `best` keeps free where KV memory limits, and for which requests."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.oracles.best_memory import (
    CALM,
    CAUTION,
    LATEST,
    PACKED,
    UNKNOWN,
    is_bound,
    memory_left,
    still_to_come,
)
from tests.oracles.best_moment import ARRIVED
from tests.oracles.bf_io_moment import Moment
from tests.routing._routed import moment, routed, seen

from evenstep.routing.policies.best import Best
from evenstep.routing.view import HOLD, RoutingView

#: Of late a tenth of what ran was expected to leave within two steps: 2 * (10 - 1/2) tokens to come.
LATELY, TO_COME = (1000, 10_000), 19.0
#: Of late 50 requests have waited at every decision, which doubles the price.
WAITED = (1000, 50_000)


def looked_at(view: RoutingView) -> Moment:
    return Moment.of(view, 2, 1.0, 0.0, 0, 0.0)


def left(
    view: RoutingView,
    recompute: float,
    kept: tuple[int, ...] = LATELY,
    gone: int = 0,
    limit_s: float = 0.0,
    waited: tuple[int, int] = WAITED,
) -> list[float]:
    policy, memory = Best(recompute=recompute), np.array(kept + waited)
    return memory_left(policy, view, looked_at(view), memory, gone, 100.0, limit_s).tolist()


def fleet(waiting: list[float], free: list[float], **more: Any) -> RoutingView:
    load = [480.0] * len(free)
    ahead = [[480.0] * 3] * len(free)
    return moment(
        load, [3] * len(free), waiting, projections=ahead, growth=[0, 1, 2], kv_free=free, running=[4] * len(free), **more
    )


#: Of a worker's 480 tokens, and eight that four requests gain, eight are expected to leave within two steps.
HERE = 2.0 * TO_COME / (1.0 + TO_COME * 8.0 / (2.0 * 484.0))


def price(recompute: float) -> float:
    """Of a worker with four requests, while about 50 wait."""
    return recompute * (1.0 + CAUTION * 4) * (1.0 + CALM / 50)


def reserve(recompute: float, free: float) -> float:
    return HERE * math.log(1.0 + price(recompute) * (4 * 100.0 + free) / HERE)


def test_kept_free_is_what_makes_the_gain_of_an_admission_equal_to_its_price():
    for recompute in (0.1, 0.3):
        expected = [free - reserve(recompute, free) for free in (500.0, 300.0)]
        assert left(fleet([50.0], [500.0, 300.0]), recompute) == pytest.approx(expected, abs=2.0)
    running, kept = 4 + 5, reserve(0.3, 500.0)
    no_departure = math.exp(-kept / HERE)
    assert HERE / running * (1.0 - no_departure) == pytest.approx(price(0.3) * 100.0 * no_departure)


def test_more_is_kept_where_few_wait_and_at_first_many_are_thought_to():
    few, many = (left(fleet([50.0], [500.0]), 0.3, waited=(1000, 1000 * w))[0] for w in (2, 1000))
    first = left(fleet([50.0], [500.0]), 0.3, waited=(0, 0))[0]
    assert few < first < many


def test_more_is_kept_where_less_is_expected_to_leave():
    ahead = [[480.0, 480.0, 480.0], [480.0, 440.0, 400.0]]
    view = moment([480.0] * 2, [3] * 2, [50.0], projections=ahead, growth=[0, 1, 2], kv_free=[500.0] * 2, running=[4] * 2)
    young, old = left(view, 0.3)
    assert young < old


def test_a_worker_that_nothing_leaves_keeps_for_twice_the_usual_output():
    """Young requests seldom leave within the horizon; that says little of when they will."""
    ahead = [[480.0, 484.0, 488.0]]
    view = moment([480.0], [3], [50.0], projections=ahead, growth=[0, 1, 2], kv_free=[500.0], running=[4])
    expected = 500.0 - 2.0 * TO_COME * math.log(1.0 + price(0.3) * 900.0 / (2.0 * TO_COME))
    assert left(view, 0.3) == [pytest.approx(expected, abs=2.5)]


def test_it_is_at_least_what_the_running_requests_are_expected_to_gain():
    assert left(fleet([50.0], [500.0]), 0.0) == [500.0 - 2.0], "a newcomer gains two tokens, the others none"
    rising = moment(
        [480.0], [3], [50.0], projections=[[480.0, 530.0, 500.0]], growth=[0, 1, 2], kv_free=[500.0], running=[4]
    )
    assert left(rising, 0.0) == [500.0 - 51.0]


def test_what_is_still_to_come_is_read_off_what_is_expected_to_leave():
    """Of two workers' 480 tokens and eight gained, 60 and 0 are expected to leave within two steps."""
    load = [480.0, 480.0]
    view = moment(
        load, [3, 3], [50.0], projections=[[480.0, 460.0, 428.0], [480.0, 484.0, 488.0]], growth=[0, 1, 2], running=[4, 4]
    )
    kept = np.zeros(2, np.int64)
    assert still_to_come(view, view.growth, kept, gone=0) == UNKNOWN, "before a request has left"
    assert kept.tolist() == [0, 0]
    assert still_to_come(view, view.growth, kept, gone=5) == pytest.approx(2.0 * (976.0 / 60.0 - 0.5))
    for _ in range(3 * LATEST):
        still_to_come(view, view.growth, kept, gone=5)
    assert LATEST / 2 * 976 <= kept[1] <= LATEST * 976, "the latest decisions count"


def test_an_idle_worker_has_room_for_what_fits_it():
    view = moment(
        [0.0, 480.0],
        [9, 3],
        [20.0, 400.0, 900.0],
        projections=[[0.0] * 3, [480.0] * 3],
        growth=[0, 1, 2],
        kv_free=[450.0, 450.0],
        running=[0, 4],
    )
    assert left(view, 1e9)[0] == 400.0
    assert left(view, 1e9)[1] < 400.0


def test_no_room_is_kept_on_a_worker_that_runs_nothing():
    view = moment(
        [0.0],
        [3],
        [900.0, 90.0],
        projections=[[0.0] * 3],
        growth=[0, 1, 2],
        kv_free=[450.0],
        running=[0],
        waited_s=[100.0, 1.0],
    )
    assert left(view, 0.0, limit_s=1.0) == [450.0 - 2.0]


def test_an_overdue_request_that_fits_nowhere_has_the_emptiest_worker_kept_for_it():
    waiting, free = [400.0, 90.0, 90.0], [100.0, 300.0, 200.0, 150.0]
    for waited_s, kept in ((5.0, True), (3.0, False)):
        view = fleet(waiting, free, waited_s=[waited_s, 1.0, 1.0])
        found = left(view, 0.0, limit_s=4.0)
        assert (found[1] == 0.0) == kept
        assert found[0] > 0.0 < found[2]
    assert 0.0 not in left(fleet([250.0], free, waited_s=[100.0]), 0.0, limit_s=4.0), "it fits"


def test_the_kept_worker_is_left_alone_by_the_search():
    view = seen(fleet([400.0, 90.0], [100.0, 300.0], waited_s=[100.0, 1.0], mean_wait_s=1.0))
    view.memory[ARRIVED] = 1_000_000
    assert Best(horizon=2, recompute=0.0).route(view).worker.tolist() == [HOLD, 0]


def test_where_memory_binds_the_largest_that_fits_of_the_oldest_goes_first():
    """A worker short of 400 tokens would be given the largest request, were slots all that limits."""
    waiting = [90.0, 80.0, 400.0, 85.0]
    for free, sent in (([250.0, 60.0], [0, HOLD, HOLD, 0]), ([9e9, 9e9], None)):
        view = fleet(waiting, free)
        assert is_bound(looked_at(view)) == (sent is not None)
        worker = routed(Best(horizon=2, recompute=0.0), seen(view))
        assert worker == sent if sent else worker[2] != HOLD


@pytest.mark.parametrize(("ahead", "chosen"), [(PACKED - 1, PACKED - 1), (PACKED, 0)])
def test_a_large_request_that_fits_passes_only_the_oldest_of_those_ahead(ahead: int, chosen: int):
    """Room for one: the larger one takes it from 15 that are older, and not from 16."""
    view = fleet([60.0] * ahead + [100.0], [110.0, 50.0])
    worker = routed(Best(horizon=2, recompute=0.0), seen(view))
    assert [i for i in range(ahead + 1) if worker[i] != HOLD] == [chosen]
