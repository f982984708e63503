"""The two stages of BalanceRoute by hand."""

from __future__ import annotations

from tests.routing._routed import moment, routed

from evenstep.routing.policies.br_0 import BR0
from evenstep.routing.policies.br_h import BRH

PAPER = {"age_limit": 0.0}


def test_stage_one_gives_the_emptiest_worker_what_fits_its_margin_best():
    # free slots 5 > 2 workers: worker 1 (most slots, margin 60) gets 50, then (margin 10, 3 slots) 10, then ...
    view = moment([100, 40], [1, 4], [50, 10, 70])
    assert routed(BR0(**PAPER), view) == [1, 1, 1]
    assert routed(BR0(**PAPER, order="margin"), view)[:2] == [1, 1]


def test_stage_two_fills_the_margin_with_the_best_subset():
    # one worker with two slots and margin 60: 35 + 25 fill it, though 50 is the best single
    view = moment([100, 40, 99], [0, 2, 0], [50, 35, 25])
    assert routed(BR0(**PAPER), view) == [-1, 1, 1]


def test_a_worker_without_margin_still_gets_the_smallest_overflow():
    view = moment([100, 100], [1, 0], [50, 7, 9])
    assert routed(BR0(**PAPER), view) == [-1, 0, -1]


def test_candidates_are_the_largest_though_a_better_one_waits_below_them():
    # margin 100, group of 3: 110 is worth 110 - 30 = 80 > 0 and is taken; with fit the pool's best, 100, is
    view = moment([300, 200, 300], [0, 1, 0], [100, 110, 112])
    assert routed(BR0(**PAPER, candidates=2), view) == [-1, 1, -1]
    assert routed(BR0(**PAPER, candidates=2, pick="fit"), view) == [1, -1, -1]


def test_an_overdue_request_goes_first_where_its_score_is_largest():
    view = moment([100, 20, 60], [1, 1, 1], [5, 80, 80, 80], waited_s=[16.0, 1, 1, 1])
    assert routed(BR0(age_limit=15), view)[0] == 1  # no overflow on 1 and 2; the wider margin
    assert routed(BR0(**PAPER), view)[0] == 2  # what is left for the margin of 40
    assert routed(BR0(age_limit=15), moment([100, 20], [1, 1], [90, 5], waited_s=[16.0, 1])) == [1, 0]


def test_an_overdue_request_that_fits_nowhere_is_held_and_blocks_nobody():
    view = moment([9, 0], [1, 1], [50, 5], waited_s=[90.0, 1.0], kv_free=[10.0, 10.0])
    assert routed(BR0(age_limit=15), view) == [-1, 1]


def test_margins_are_those_of_the_workers_own_group():
    # worker 2 is alone in its group: it has no margin and nothing it gets makes another wait
    view = moment([100, 40, 10], [0, 1, 0], [60, 500], group=[0, 0, 1])
    assert routed(BR0(**PAPER), view) == [1, -1]


def test_a_horizon_sees_a_margin_that_closes():
    ahead = [[100.0, 100.0], [40.0, 95.0], [100.0, 90.0]]
    view = moment([100, 40, 100], [0, 1, 0], [60, 5], projections=ahead)
    assert routed(BRH(horizon=1, discount=1.0, **PAPER), view) == [-1, 1]
    assert routed(BR0(**PAPER), view) == [1, -1]


def test_requests_sent_and_not_yet_decoding_count():
    view = moment([100, 40], [0, 1], [60, 5], queued=[0, 1], queued_load=[0.0, 55.0])
    assert routed(BR0(**PAPER), view) == [-1, 1]
