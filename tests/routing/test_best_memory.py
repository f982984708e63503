"""What `best` keeps free where KV memory limits, and for whom."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.routing._routed import moment, seen

from evenstep.routing.best import Best
from evenstep.routing.best_memory import SPREAD, UNKNOWN, memory_left, note_sent
from evenstep.routing.best_moment import ARRIVED, MEMORY, SENT, SENT_TOKENS
from evenstep.routing.bf_io_moment import Moment
from evenstep.routing.view import HOLD, RoutingView

SENT_FOUR = np.array([4, 400])


def left(view: RoutingView, headroom: float, sent=SENT_FOUR, gone=1000, usual_s=0.0) -> list[float]:
    looked_at = Moment.of(view, 2, 1.0, 0.0, 0, 0.0)
    return memory_left(Best(headroom=headroom), view, looked_at, sent, gone, 100.0, usual_s).tolist()


def fleet(waiting: list[float], free: list[float], **more) -> RoutingView:
    load = [480.0] * len(free)
    ahead = [[480.0] * 3] * len(free)
    return moment(load, [3] * len(free), waiting, projections=ahead, growth=[0, 1, 2], kv_free=free, running=[4] * len(free), **more)  # fmt: skip


def test_kept_free_is_the_reserve_that_ruin_theory_asks_for():
    """Prompts of 100 tokens, 20 produced so far: each unit of headroom is 20 * (1 + 20/100) tokens."""
    assert left(fleet([50.0], [500.0, 300.0]), 2.0) == [500.0 - 48.0, 300.0 - 48.0]
    assert left(fleet([50.0], [500.0, 300.0]), 0.0) == [500.0 - 10.0, 300.0 - 10.0], (
        "what four and one gain in two steps"
    )


def test_it_is_bounded_by_how_far_a_load_strays():
    assert left(fleet([50.0], [900.0]), 1e9) == [pytest.approx(900.0 - 20.0 * SPREAD * math.sqrt(4 + 9))]


def test_until_as_many_have_left_as_run_a_share_of_a_request_counts_as_produced():
    produced = UNKNOWN * 100.0
    expected = 500.0 - 2.0 * (1.0 + produced / 100.0) * produced
    assert left(fleet([50.0], [500.0]), 2.0, gone=0) == [pytest.approx(expected)]


def test_an_idle_worker_always_has_room_for_the_oldest():
    view = moment([0.0, 480.0], [9, 3], [400.0, 20.0], projections=[[0.0] * 3, [480.0] * 3], growth=[0, 1, 2],
                  kv_free=[450.0, 450.0], running=[0, 4])  # fmt: skip
    assert left(view, 100.0)[0] == 400.0
    assert left(view, 100.0)[1] < 400.0


def test_a_request_that_waits_long_and_fits_nowhere_has_the_emptiest_worker_kept_for_it():
    waiting, free = [400.0, 90.0, 90.0], [100.0, 300.0, 200.0, 150.0]
    for waited_s, kept in ((100.0, True), (3.0, False)):
        view = fleet(waiting, free, waited_s=[waited_s, 1.0, 1.0])
        found = left(view, 0.0, usual_s=1.0)
        assert (found[1] == 0.0) == kept
        assert found[0] > 0.0 < found[2]
    assert 0.0 not in left(fleet([250.0], free, waited_s=[100.0]), 0.0, usual_s=1.0), "it fits"


def test_the_kept_worker_is_left_alone_by_the_search():
    view = seen(fleet([400.0, 90.0], [100.0, 300.0], waited_s=[100.0, 1.0], mean_wait_s=1.0))
    view.memory[ARRIVED] = 1_000_000
    assert Best(horizon=2, headroom=0.0).route(view).worker.tolist() == [HOLD, 0]


def test_what_was_admitted_is_remembered_and_the_latest_counts_most():
    memory = np.zeros(MEMORY, np.int64)
    view = moment([0.0], [3], [40.0, 50.0, 60.0])
    sent = memory[SENT : SENT_TOKENS + 1]
    note_sent(sent, Moment.of(view, 0, 1.0, 0.0, 0, 0.0), np.array([0, HOLD, 0]), 3)
    assert sent.tolist() == [2, 100]
    note_sent(sent, Moment.of(view, 0, 1.0, 0.0, 0, 0.0), np.array([0, 0, HOLD]), 3)
    assert sent.tolist() == [2, 95]
