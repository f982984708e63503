"""The parts of BalanceRoute's two stages, by hand."""

from __future__ import annotations

import math

import pytest
from tests.routing._balance_route import settings, started
from tests.routing._routed import moment, routed, rule_view

from evenstep.compiled import as_plain
from evenstep.routing.balance_route.assign import (
    PREPARATION,
    STAGE_ONE,
    STAGE_TWO,
    best_candidate,
    best_single,
    decide,
    first_in_queue,
    grow,
    height,
    key_of,
    list_candidates,
    peak_of,
    pick_for_one_slot,
    score_of,
    send_alone,
    send_one,
    send_subset,
    set_margins,
    stage_one,
    tokens_of,
)
from evenstep.routing.balance_route.keys import NONE
from evenstep.routing.policies.br_0 import BR0
from evenstep.routing.policies.br_h import BRH

PAPER = {"age_limit": 0.0}


def key(size: float) -> int:
    return as_plain(key_of)(size)


def sent(work) -> list[int]:
    return work.worker.tolist()


def decided(view, until=STAGE_TWO, alone=0, **options):
    """The answer after so many stages, the oldest `alone` placed by themselves."""
    chosen = settings(**options)
    work = started(view, candidates=chosen.candidates)
    as_plain(decide)(until, alone, 1.0, chosen, rule_view(view), work)
    return sent(work)


# --- what a decision starts from -----------------------------------------------------------------------------


def test_loads_count_what_was_sent_and_envelopes_are_per_group():
    view = moment(
        [100, 40, 70],
        [2, 0, 1],
        [5, 9],
        group=[0, 1, 0],
        queued_load=[0.0, 7.0, 50.0],
        kv_free=[1.0, 2.0, 3.0],
    )
    work = started(view)
    assert work.load.tolist() == [100, 47, 120]
    assert work.envelope.tolist()[:2] == [120, 47]
    assert work.members.tolist() == [2, 1, 0]
    assert (work.free.tolist(), work.kv.tolist()) == ([2, 0, 1], [1, 2, 3])
    assert work.keys.tolist() == [key(5), key(9)]


def test_loads_ahead_are_the_projections_with_what_was_sent():
    ahead = [[100.0, 90.0, 10.0], [40.0, 60.0, 80.0]]
    view = moment([100, 40], [1, 1], [5], projections=ahead, queued_load=[0.0, 5.0])
    work = started(view, horizon=2, discount=0.5)
    assert work.weights.tolist() == [1.0, 0.5, 0.25]
    assert work.load.tolist() == [100, 90, 10, 45, 65, 85]
    assert work.envelope.tolist()[:3] == [100, 90, 85]
    assert as_plain(set_margins)(1, work) == 0
    assert work.margins.tolist() == [55, 25, 0]
    assert as_plain(set_margins)(0, work) == 0
    assert work.margins.tolist() == [0, 0, 75]


def test_a_horizon_of_one_group_s_steps_is_not_another_s():
    view = moment([9, 4], [1, 1], [5], projections=[[9.0, 1.0], [4.0, 8.0]], group=[0, 1])
    work = started(view, horizon=1)
    assert work.envelope.tolist() == [9, 1, 4, 8]
    as_plain(set_margins)(1, work)
    assert work.margins.tolist() == [0, 0]


def test_what_is_sent_counts_at_every_step_ahead_and_lifts_envelopes():
    view = moment([10, 4], [1, 2], [5], projections=[[10.0, 20.0], [4.0, 8.0]], kv_free=[50.0, 50.0])
    work = started(view, horizon=1)
    assert not as_plain(grow)(1, 6.0, work)
    assert (work.load.tolist(), work.envelope.tolist()[:2]) == ([10, 20, 10, 14], [10, 20])
    assert as_plain(grow)(1, 1.0, work)
    assert (work.load.tolist(), work.envelope.tolist()[:2]) == ([10, 20, 11, 15], [11, 20])
    assert work.kv.tolist() == [50, 43]


def test_what_is_sent_lifts_each_step_of_the_envelope_of_its_group():
    view = moment([10, 4], [1, 2], [5], projections=[[10.0, 20.0], [4.0, 8.0]], group=[0, 1])
    work = started(view, horizon=1)
    assert as_plain(grow)(1, 6.0, work)
    assert (work.load.tolist(), work.envelope.tolist()) == ([10, 20, 10, 14], [10, 20, 10, 14])


def test_the_envelope_of_an_empty_fleet_is_zero():
    assert started(moment([0, 0], [1, 1], [5])).envelope.tolist() == [0, 0]


def test_envelopes_ahead_are_added_up():
    view = moment([10, 4], [1, 2], [5], projections=[[10.0, 20.0], [4.0, 8.0]], group=[0, 1])
    work = started(view, horizon=1)
    assert [as_plain(height)(g, work) for g in (0, 1)] == [30, 12]


def test_a_request_that_is_sent_leaves_the_pool():
    work = started(moment([10, 4], [1, 2], [5, 6]))
    assert as_plain(send_one)(1, 0, work) == 1
    assert (sent(work), work.keys.tolist(), work.free.tolist()) == ([1, -1], [-1, key(6)], [1, 1])
    assert work.load.tolist() == [10, 9]
    assert as_plain(send_one)(1, -1, work) == 0
    assert sent(work) == [1, -1]


def test_the_penalty_is_the_size_of_the_group_unless_it_is_given():
    work = started(moment([10, 4, 7], [1, 1, 1], [5], group=[0, 1, 1]))
    assert [as_plain(score_of)(g, settings(), work).penalty for g in range(3)] == [1, 2, 2]
    score = as_plain(score_of)(1, settings(penalty=0.5, reward=3.0), work)
    assert (score.penalty, score.reward) == (0.5, 3.0)


# --- one request ---------------------------------------------------------------------------------------------


def single(margin, waiting, kv_free=math.inf, **options):
    """The best single request for worker 1 of two, of so wide a margin."""
    view = moment([100, 100 - margin], [0, 1], waiting, kv_free=[math.inf, kv_free])
    work, chosen = started(view), settings(**options)
    low, high, _ = as_plain(peak_of)(1, chosen, work)
    return as_plain(best_single)(1, low, high, chosen, work)


def test_the_best_single_is_a_neighbour_of_the_peak():
    """Margin 60, penalty 2: 50 is worth 50; 70 is worth 50 as well, 71 is worth 49 and 69 is worth 51."""
    assert single(60, [50, 71, 90]) == (0, key(71), 2)
    assert single(60, [50, 69, 90]) == (1, key(69), 2)
    assert single(60, [70, 50]) == (0, key(70), 1)  # the older one
    assert single(60, [50, 70]) == (0, key(70), 1)
    assert single(60, [60, 59, 61, 60]) == (0, key(61), 1)
    assert single(60, [59, 30, 59]) == (0, NONE, 0)
    assert single(60, [90, 80, 80]) == (1, key(80), 3)


def test_the_best_single_fits_the_memory():
    assert single(60, [50, 69, 90], kv_free=68.0) == (0, NONE, 0)
    assert single(60, [50, 69, 90], kv_free=69.0) == (1, key(69), 1)
    assert single(60, [50, 69], kv_free=49.0) == (-1, NONE, 0)


def test_on_a_level_stretch_the_oldest_is_taken():
    """A penalty of 1 makes every total from the margin on worth as much."""
    assert single(60, [50, 70, 60], penalty=1.0)[0] == 1
    assert single(60, [50, 70, 60], kv_free=65.0, penalty=1.0)[0] == 2
    assert single(60, [50, 60, 70], penalty=1.0)[0] == 1
    assert single(60, [50, 40, 59], penalty=1.0)[0] == 2


def test_where_the_score_never_falls_the_largest_is_taken():
    assert single(60, [50, 700, 60], penalty=0.0)[0] == 1


def test_a_request_without_tokens_is_a_request():
    assert single(60, [0]) == (0, NONE, 0)
    assert single(60, [190, 0]) == (1, key(190), 1)  # 190 is worth less than nothing
    assert single(0, [50, 0]) == (1, key(50), 1)


def test_a_request_by_itself_goes_to_the_worker_of_largest_score():
    def alone(load, free, waiting, kv_free=None, **options):
        more = {} if kv_free is None else {"kv_free": kv_free}
        work = started(moment(load, free, waiting, **more))
        count = as_plain(send_alone)(0, settings(**options), work)
        assert work.keys[0] == -1
        return count, work.worker[0]

    assert alone([100, 20, 60], [1, 1, 1], [70]) == (1, 1)
    assert alone([20, 100, 60], [1, 1, 1], [70]) == (1, 0)
    assert alone([100, 20, 60], [1, 0, 1], [70]) == (1, 2)
    assert alone([100, 20, 60], [1, 1, 1], [70], kv_free=[99, 69, 99]) == (1, 2)
    assert alone([100, 20, 60], [1, 1, 1], [70], kv_free=[99, 70, 99]) == (1, 1)
    assert alone([100, 20, 60], [1, 1, 1], [70], kv_free=[9, 9, 9]) == (0, -1)
    # equal scores: most free slots, then the widest margin, then the lowest worker; or the widest margin at once
    assert alone([100, 20, 60], [1, 1, 1], [30]) == (1, 1)
    assert alone([100, 20, 60], [1, 1, 2], [30]) == (1, 2)
    assert alone([100, 60, 20], [1, 2, 1], [30]) == (1, 1)
    assert alone([100, 60, 20], [1, 2, 2], [30]) == (1, 2)
    assert alone([100, 60, 60], [1, 2, 2], [30]) == (1, 1)
    assert alone([100, 20, 60], [1, 1, 2], [30], ties_by_margin=True) == (1, 1)
    assert alone([100, 60, 20], [1, 1, 1], [30], ties_by_margin=True) == (1, 2)
    assert alone([100, 60, 60], [1, 1, 2], [30], ties_by_margin=True) == (1, 1)


def test_a_request_by_itself_goes_by_score_before_margin():
    """Alone in its group worker 0 makes no other wait: 60 is worth 0 there, and 60 - 2 * 50 in the wider margin of 10."""
    view = moment([100, 90, 100], [1, 1, 0], [60], group=[0, 1, 1])
    assert [decided(view, alone=1, ties_by_margin=by_margin) for by_margin in (False, True)] == [[0], [0]]


def test_one_without_a_place_takes_none_of_the_slots():
    """The first goes by itself and fits nowhere: both slots are left for the others."""
    view = moment([9, 0], [1, 1], [50, 5, 6], waited_s=[90.0, 1.0, 1.0], kv_free=[10.0, 10.0])
    assert routed(BR0(age_limit=15), view) == [-1, 0, 1]


# --- stage 1 -------------------------------------------------------------------------------------------------


def after_stage_one(load, free, waiting, kv_free=None, **options):
    """Requests and slots that stage 1 leaves, and its answer."""
    more = {} if kv_free is None else {"kv_free": kv_free}
    work = started(moment(load, free, waiting, **more))
    left, slots = as_plain(stage_one)(len(waiting), sum(free), settings(**options), work)
    return left, slots, sent(work)


def test_stage_one_serves_the_worker_of_most_slots_then_of_least_load():
    """Worker 2 gets 60 and worker 1 gets 50, both of margins wider; then each has two slots, and worker 1 is the first of load 90."""
    assert after_stage_one([100, 40, 30], [2, 3, 3], [60, 50, 40, 9], threshold=5.0) == (1, 5, [2, 1, -1, 1])
    view = moment([100, 40, 30], [2, 3, 3], [60, 50, 40, 9])
    work = started(view)
    work.key[:] = -work.load
    assert as_plain(first_in_queue)(settings(), work) == 2
    work.key[2] = -40.0
    assert as_plain(first_in_queue)(settings(), work) == 1
    work.free[0] = 4
    assert as_plain(first_in_queue)(settings(), work) == 0
    work.free[:] = 0, 0, 1
    assert as_plain(first_in_queue)(settings(), work) == 2
    work.free[:] = 0
    assert as_plain(first_in_queue)(settings(), work) == -1


def test_stage_one_serves_the_least_load_as_it_is_after_what_was_sent():
    """Worker 1 has most slots. With 60 tokens it then has as many as worker 2 with 50, which is next."""
    assert after_stage_one([100, 40, 50], [1, 3, 2], [20, 20, 20], threshold=3.0) == (0, 3, [1, 2, 1])


def test_least_load_is_that_of_the_next_step():
    view = moment([9, 5, 7], [1, 1, 1], [5], projections=[[9.0, 1.0], [5.0, 8.0], [7.0, 2.0]])
    work = started(view, horizon=1)
    as_plain(stage_one)(1, 3, settings(threshold=2.0), work)
    assert sent(work) == [1]


def test_workers_may_stand_in_order_of_margin():
    work, chosen = started(moment([0] * 4, [1, 2, 2, 0], [5])), settings(margin_first=True)
    work.key[:] = 5, 4, 4, 9
    assert as_plain(first_in_queue)(chosen, work) == 0
    work.key[:] = 4, 4, 4, 9
    assert as_plain(first_in_queue)(chosen, work) == 1
    work.key[:] = 4, 4, 6, 9
    assert as_plain(first_in_queue)(chosen, work) == 2
    work.free[:] = 0
    assert as_plain(first_in_queue)(chosen, work) == -1


def test_stage_two_serves_the_worker_of_most_slots_then_of_widest_margin():
    work = started(moment([0] * 4, [1, 2, 2, 0], [5]))
    work.key[:] = 9, 4, 5, 9
    assert as_plain(first_in_queue)(settings(), work) == 2
    work.key[:] = 9, 5, 5, 9
    assert as_plain(first_in_queue)(settings(), work) == 1
    work.free[:] = 3, 2, 2, 0
    assert as_plain(first_in_queue)(settings(), work) == 0
    work.free[:] = 0
    assert as_plain(first_in_queue)(settings(), work) == -1


def test_stage_one_ends_where_as_many_slots_are_left_as_workers():
    """Worker 1 has the wider margin of 60: it gets 60, then the other, which is the envelope, the smallest."""
    assert after_stage_one([100, 40], [2, 2], [9, 60, 7, 8]) == (2, 2, [-1, 1, 0, -1])
    assert after_stage_one([100, 40], [2, 2], [9, 60, 7, 8], threshold=3.0) == (3, 3, [-1, 1, -1, -1])
    assert after_stage_one([100, 40], [2, 2], [9, 60, 7, 8], threshold=4.0) == (4, 4, [-1, -1, -1, -1])
    assert after_stage_one([100, 40], [2, 2], [9, 60], threshold=0.0) == (0, 2, [0, 1])


def test_a_worker_without_memory_for_any_gives_up_its_slots_in_stage_one():
    assert after_stage_one([100, 40], [2, 3], [9, 60, 7], kv_free=[99, 6]) == (3, 2, [-1, -1, -1])
    assert after_stage_one([100, 40], [2, 3], [9, 60, 7], kv_free=[99, 6], threshold=1.0) == (
        2,
        1,
        [-1, -1, 0],
    )
    assert after_stage_one([100, 40], [2, 3], [9], kv_free=[6, 6], threshold=0.0) == (1, 0, [-1])
    assert after_stage_one([100, 40], [2, 3], [9], kv_free=[6, 6], threshold=-1.0) == (1, 0, [-1])


def test_in_order_of_margin_a_worker_that_lifts_the_envelope_widens_the_others():
    """Margins 0, 10, 20: worker 2 gets 50 and lifts the envelope by 30; then worker 1 has the widest, 40, and gets 45."""
    found = after_stage_one([100, 90, 80], [2, 2, 2], [50, 45, 30], threshold=3.0, margin_first=True, penalty=0.0)
    assert found == (0, 3, [2, 1, 0])


# --- stage 2 -------------------------------------------------------------------------------------------------


def one_slot(margin, waiting, **options):
    view = moment([100, 100 - margin], [0, 1], waiting)
    work, chosen = started(view), settings(**options)
    low, high, slope = as_plain(peak_of)(1, chosen, work)
    assert low == high
    return as_plain(pick_for_one_slot)(1, low, slope, chosen, work)


def test_for_one_slot_the_kth_largest_is_taken_where_it_is_worth_anything():
    """Margin 60, penalty 2: 119 is worth 1, 120 nothing. With two candidates above, the pool's 61 is passed over."""
    assert one_slot(60, [61, 119, 130], candidates=2) == 1
    assert one_slot(60, [61, 120, 130], candidates=2) == 0
    assert one_slot(60, [61, 121, 130], candidates=2) == 0
    assert one_slot(60, [61, 119, 130], candidates=3) == 0
    assert one_slot(60, [61, 119, 130], candidates=4) == 0
    assert one_slot(60, [50, 119, 130], candidates=2) == 1
    assert one_slot(60, [61, 119, 119, 130], candidates=2) == 1
    assert one_slot(60, [61, 119, 130], candidates=2, fit=True) == 0
    assert one_slot(60, [61, 180, 190], candidates=2) == 0
    assert one_slot(0, [7, 9, 8], candidates=2) == 0
    assert one_slot(60, [61, 100, 110], candidates=2, penalty=1.5) == 1  # 100 is worth 40: half a token is lost a token


def test_a_kth_largest_that_is_worth_next_to_nothing_is_taken():
    """The bound on where the score is worth anything leaves room for rounding."""
    assert one_slot(60, [61, 119.95, 130], candidates=2) == 1
    assert one_slot(60, [119.5, 119.9998, 130], candidates=2) == 1


def subset(margin, free, waiting, kv_free=math.inf, **options):
    """The answer of `send_subset` for worker 1 of two, and how many it sent."""
    view = moment([100, 100 - margin], [0, free], waiting, kv_free=[math.inf, kv_free])
    chosen = settings(**options)
    work = started(view, candidates=chosen.candidates)
    low, high, _ = as_plain(peak_of)(1, chosen, work)
    count = as_plain(send_subset)(1, low, high, chosen, work)
    assert count == sum(g >= 0 for g in sent(work)) == free - work.free[1]
    tokens = sum(size for size, g in zip(waiting, sent(work), strict=True) if g >= 0)
    assert work.load[1] == 100 - margin + tokens
    return [i for i, g in enumerate(sent(work)) if g >= 0]


@pytest.mark.parametrize("bits", [False, True])
def test_the_subset_that_fills_the_margin_is_sent(bits):
    assert subset(60, 2, [50, 35, 25], bits=bits) == [1, 2]
    assert subset(60, 3, [50, 35, 20, 5], bits=bits) == [1, 2, 3]
    assert subset(60, 4, [50, 35, 20, 5, 4], bits=bits) == [1, 2, 3]
    assert subset(60, 3, [50, 35, 20], kv_free=54.0, bits=bits) == [0]
    assert subset(60, 2, [9], bits=bits) == [0]
    assert subset(60, 3, [9, 8], bits=bits) == [0, 1]
    assert subset(60, 2, [30, 20, 10], bits=bits) == [0, 1]  # all three would fill the margin
    assert subset(60, 2, [60, 20, 50], bits=bits) == [0]
    assert subset(60, 2, [50, 35], bits=bits) == [0]
    assert subset(60, 2, [50, 12], bits=bits) == [0, 1]  # 2 above the margin


def test_of_two_neighbours_the_better_one_is_sent_and_of_equal_ones_the_smaller_number():
    """Margin 60, penalty 2: 58 is worth 58, 61 is worth 59, 62 is worth 58."""
    assert subset(60, 2, [61, 58]) == [0]
    assert subset(60, 2, [63, 58]) == [1]
    assert subset(60, 2, [62, 58]) == [0]
    assert subset(60, 3, [31, 31, 29, 29]) == [0, 2]
    assert subset(60, 3, [31, 32, 27]) == [1, 2]  # 59 against 58 and 63
    assert subset(60, 2, [90, 1]) == [0]  # worth 30, the other 1


def test_candidates_are_the_largest_or_those_around_the_peak():
    assert subset(60, 2, [60, 70, 71], candidates=2) == [1]
    assert subset(60, 2, [60, 70, 71], candidates=2, fit=True) == [0]
    assert subset(60, 1, [60, 70, 71], candidates=2, fit=True) == [0]
    assert subset(60, 1, [61, 70, 71], candidates=1, fit=True) == [0]


def test_a_subset_worth_nothing_gives_way_to_the_best_single_of_the_pool():
    for free, bits in ((1, False), (2, False), (2, True), (3, False)):
        assert subset(0, free, [50, 7, 9], candidates=2, bits=bits) == [1]
        assert subset(10, free, [20, 21, 11], candidates=2, bits=bits) == [2]
    assert subset(10, 2, [20, 19, 11], candidates=2) == [1]


@pytest.mark.parametrize(("free", "bits"), [(1, False), (2, False), (2, True), (3, False)])
def test_a_subset_worth_anything_is_sent_though_the_pool_has_a_better_single(free, bits):
    """119 is worth 1; the third candidate of two, 61, would be worth 59."""
    assert subset(60, free, [119, 130, 61], candidates=2, bits=bits) == [0]


def test_nothing_is_sent_where_nothing_fits():
    assert subset(60, 2, [50, 35], kv_free=34.0) == []


def test_sums_in_bits_need_whole_sizes():
    assert subset(60, 2, [50, 35.5, 24.5], bits=True) == [1, 2]
    assert subset(60, 2, [50.5, 35, 25, 24], candidates=3, bits=True) == [1, 2]


def test_bits_take_more_candidates_than_are_enumerated():
    waiting = [*[70.0] * 16, 60.0]
    assert subset(60, 2, waiting, candidates=17, bits=True) == [16]
    assert subset(60, 2, [*[70.5] * 16, 60.0], candidates=17, bits=True) == [0]


@pytest.mark.parametrize(
    ("low", "high", "sizes", "best"),
    [
        (50.0, 70.0, [40, 60, 55], 1),  # the oldest that is level, though not the first candidate
        (50.0, 70.0, [40, 50, 60], 1),
        (60.0, 60.0, [40, 50, 50], 1),
        (60.0, 60.0, [90, 80, 80], 1),
        (60.0, 60.0, [58, 63], 0),
        (60.0, 60.0, [58, 61], 1),
        (60.0, 60.0, [58, 62], 0),
        (60.0, 60.0, [62, 58], 0),
        (60.0, 60.0, [60, 61, 60], 0),
        (60.0, 60.0, [63, 58, 59], 2),
        (60.0, 60.0, [50, 40], 0),
        (60.0, 60.0, [80, 80], 0),
        (60.0, 60.0, [61, 90], 0),
        (50.0, 70.0, [60, 55], 0),
    ],
)
def test_the_best_candidate_is_the_best_single_of_them(low, high, sizes, best):
    work = started(moment([100, 40], [0, 1], sizes))
    as_plain(set_margins)(1, work)
    n = as_plain(list_candidates)(1, high, settings(), work)
    assert n == len(sizes)
    work.row_sizes[:n] = [as_plain(tokens_of)(k) for k in work.row_keys[:n]]
    assert as_plain(best_candidate)(1, n, low, high, settings(), work) == best


def test_a_worker_queues_again_with_its_margin_after_what_it_was_sent():
    """Two slots each, margins 60 and 50: worker 1 is filled first, then worker 2; both by two requests."""
    view = moment([100, 40, 50], [0, 2, 2], [30, 30, 25, 25])
    assert routed(BR0(**PAPER, stage_two_below=9), view) == [1, 1, 2, 2]


def test_a_worker_with_slots_left_queues_again_with_its_narrower_margin():
    """One request a turn. Worker 1 gets 40 of 60; worker 2, which has two slots, gets 10 of 50; 40 is wider than 20."""
    view = moment([100, 40, 50], [0, 2, 2], [40, 10, 9, 8])
    assert decided(view, candidates=1, threshold=9.0) == [1, 2, 2, 1]


@pytest.mark.parametrize(("margin_first", "answer"), [(True, [1, 2, 4]), (False, [1, 4, 2])])
def test_in_order_of_margin_the_margins_of_stage_two_are_those_of_now(margin_first, answer):
    """Margins 60 and 10, and 20 in the other group. The first takes 100, so the second is 50 wide.

    In order of free slots it is still taken for 10.
    """
    view = moment([100, 40, 90, 50, 30], [0, 1, 1, 0, 1], [100, 45, 18], group=[0, 0, 0, 1, 1])
    assert decided(view, margin_first=margin_first, penalty=0.5) == answer


def test_one_candidate_around_the_peak_is_the_smallest_above():
    """59 is worth 59, 90 is worth 30, 125 less than nothing."""
    assert decided(moment([100, 40], [0, 1], [59, 90]), fit=True, candidates=1) == [-1, 1]
    assert decided(moment([100, 40], [0, 1], [59, 90]), candidates=1) == [-1, 1]
    assert decided(moment([100, 40], [0, 1], [59, 125]), candidates=1) == [1, -1]


def test_a_worker_without_memory_for_any_gives_up_its_slots_in_stage_two():
    view = moment([100, 40, 50], [0, 2, 1], [30, 25], kv_free=[9.0, 9.0, 99.0])
    assert routed(BR0(**PAPER, stage_two_below=9), view) == [2, -1]
    view = moment([100, 40, 50], [0, 1, 1], [30, 25], kv_free=[9.0, 9.0, 99.0])
    assert routed(BR0(**PAPER), view) == [2, -1]


def test_two_slots_with_one_candidate_are_filled_one_after_the_other():
    view = moment([100, 40], [0, 2], [50, 10, 9])
    assert routed(BR0(**PAPER, candidates=1), view) == [1, 1, -1]


# --- the whole -----------------------------------------------------------------------------------------------


def test_stage_two_fills_what_stage_one_leaves():
    """Stage one leaves loads of 107 and 100: 8 fits the margin of 7 better than 9, and 9 goes to the other."""
    view = moment([100, 40], [2, 2], [9, 60, 7, 8])
    found = [decided(view, until) for until in (PREPARATION, STAGE_ONE, STAGE_TWO)]
    assert found == [[-1, -1, -1, -1], [-1, 1, 0, -1], [0, 1, 0, 1]]


def test_the_last_request_gets_the_last_slot():
    assert decided(moment([100, 40], [0, 1], [5])) == [1]


def test_stage_two_sends_a_subset_where_a_worker_has_two_slots():
    assert decided(moment([100, 40, 99], [0, 2, 0], [50, 35, 25])) == [-1, 1, 1]


def test_requests_by_themselves_take_slots_that_stage_one_does_not_have():
    """1 takes the fourth slot, so stage one has none above 3; stage two fills the margin of 59 with 35 and 24."""
    assert decided(moment([100, 40], [1, 3], [1, 50, 35, 24]), alone=1, threshold=3.0) == [1, 0, 1, 1]


def test_the_marginal_reading_rewards_a_token_at_each_step():
    """Margins 10 and 50 ahead, penalty 1, reward 1: 50 costs 40 at the first step. Worth 60 with a reward at each step, 10 with one."""
    ahead = [[100.0, 100.0], [90.0, 50.0]]
    view = moment([100, 90], [0, 1], [50, 11], projections=ahead)
    options = {"horizon": 1, "discount": 1.0, "penalty": 1.0, **PAPER}
    assert routed(BRH(**options), view) == [1, -1]
    assert routed(BRH(**options, score="single"), moment([100, 90], [0, 1], [50, 11, 8], projections=ahead)) == [1, -1, -1]
    assert routed(BRH(**options | {"penalty": 3.0}, score="single"), view) == [-1, 1]


def test_steps_further_ahead_count_less():
    """Margins 60 and 10 ahead, penalty 2: each token over the second costs 2 * discount, and is worth 1 + discount."""
    view = moment([100, 40], [0, 1], [60, 10], projections=[[100.0, 50.0], [40.0, 40.0]])
    assert routed(BRH(horizon=1, discount=1.0, **PAPER), view)[0] == 1
    assert routed(BRH(horizon=1, discount=1.0, penalty=3.0, **PAPER), view) == [-1, 1]
    assert routed(BRH(horizon=1, discount=0.5, penalty=2.5, **PAPER), view) == [1, -1]


def test_nothing_is_decided_without_a_slot_or_a_request():
    assert routed(BR0(), moment([100, 40], [0, 0], [60, 10])) == [-1, -1]
    assert routed(BR0(), moment([100, 40], [1, 1], [])) == []


def test_only_requests_that_wait_too_long_are_placed_by_themselves():
    view = moment([100, 20, 60], [1, 1, 1], [5, 80, 80, 80], waited_s=[16.0, 1, 1, 1])
    assert [routed(BR0(age_limit=limit), view)[0] for limit in (15, 16)] == [1, 2]


def test_bypass_places_all_by_themselves_oldest_first():
    """The first goes to the widest margin, the next where it lifts the envelope least, the third to what is left."""
    assert routed(BR0(bypass=True), moment([100, 20, 60], [1, 1, 1], [5, 80, 80, 80])) == [1, 2, 0, -1]
