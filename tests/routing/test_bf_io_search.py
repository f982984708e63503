"""The local search of BF-IO: it never loses, keeps to its limits, and ends where no single change gains."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.routing.test_bf_io_plan import (
    QUARTERS,
    Case,
    admit,
    assert_consistent,
    blank,
    change,
    clear,
    copied,
    filled,
    survey,
    value,
    waits,
)
from tests.strategies import examples

from evenstep.compiled import as_plain
from evenstep.routing.bf_io import gains
from evenstep.routing.bf_io import search as searching
from evenstep.routing.bf_io.plan import Plan

rank_from, waiting_below, waiting_from = (
    as_plain(getattr(searching, name)) for name in ("rank_from", "waiting_below", "waiting_from")
)
search, replace, replace_pair, best_replacement, best_of_oldest = (
    as_plain(getattr(searching, name))
    for name in ("search", "replace", "replace_pair", "best_replacement", "best_of_oldest")
)
transfer, nearest_pairs = (as_plain(getattr(searching, name)) for name in ("transfer", "nearest_pairs"))
set_others, transfer_gain, most_gain, pulled_apart, is_bounded = (
    as_plain(getattr(gains, name)) for name in ("set_others", "transfer_gain", "most_gain", "pulled_apart", "is_bounded")
)
#: Gains that count, in tokens.
LEAST = 1e-5
ENOUGH = 100_000


def best_transfer(k: int, filled: int, plan: Plan, cached: np.ndarray) -> tuple[int, int, int]:
    """The answer of the function without a bound, which is the one with a bound where that holds."""
    found = as_plain(searching.best_transfer)(k, filled, np.inf, plan, cached)
    if is_bounded(plan):
        set_others(int(plan.worker[k]), plan)
        most = most_gain(int(plan.worker[k]), plan)
        assert as_plain(searching.best_transfer)(k, filled, most, plan, cached) == found
    return found


def below_another(sizes: list[float], admitted: list[int]) -> Case:
    """Three workers with two slots each, far below a fourth without a slot, so that a larger request gains what it is larger.

    Request admitted[k] has slot k, of worker k modulo 3.
    """
    plan = blank(3, len(sizes), 1, 1, len(admitted))
    plan.size[:], plan.stays[:], plan.position[:] = sizes, np.inf, np.arange(len(sizes))
    plan.rank[:], plan.place[:] = np.arange(len(sizes)), np.arange(3)
    plan.weight[:], plan.speed[:], plan.members[:], plan.reward[:] = 1.0, 1.0, 4.0, 1.0
    plan.floor[:], plan.base_total[:], plan.free[:], plan.kv[:] = 100.0, 100.0, 2, np.inf
    clear(plan)
    for k, r in enumerate(admitted):
        admit(k % 3, r, k, plan)
    survey(0, plan)
    return Case(plan, {0: np.array([[100.0]])}, len(admitted))


#: Cached tokens where none are known.
NOTHING = np.zeros((0, 0))


def test_a_replacement_counts_its_tries() -> None:
    """One for the slot, and one for each later slot of its worker, until one gains."""
    case = below_another([1.0, 4.0, 4.0, 4.0, 4.0, 4.0], [1, 2, 3, 4])
    assert replace(0, 4, False, case.plan, NOTHING) == (False, 2), "slots 0 and 3 are of one worker"
    assert replace(1, 4, False, case.plan, NOTHING) == (False, 1)
    assert replace(3, 4, False, case.plan, NOTHING) == (False, 1)
    assert replace(0, 4, True, case.plan, NOTHING) == (False, 1), "no pairs where all are tried"
    case = below_another([1.0, 4.0, 4.0, 4.0, 9.0], [1, 2, 3, 0])
    assert replace(0, 4, False, case.plan, NOTHING) == (True, 1)
    assert case.plan.request.tolist() == [4, 2, 3, 0]


def test_a_transfer_counts_each_move_and_swap_that_it_tries() -> None:
    """5 may move to both other workers, and swap with 1 and 2, but not with an equal or a larger one, or one of its worker."""
    case = below_another([1.0, 2.0, 3.0, 5.0, 5.0, 6.0], [3, 1, 0, 2, 4, 5])
    set_others(0, case.plan)
    case.plan.room[:] = [1, 1, 1]
    assert best_transfer(0, 6, case.plan, NOTHING) == (-1, -1, 4)
    case.plan.room[:] = 0
    assert best_transfer(0, 6, case.plan, NOTHING) == (-1, -1, 2)
    case.plan.kv_left[:] = [9.0, 3.0, 3.5]
    assert best_transfer(0, 6, case.plan, NOTHING) == (-1, -1, 1), "4 more do not fit, 3 more do"
    case.plan.room[:], case.plan.kv_left[:] = [0, 1, 1], [9.0, 5.0, 4.5]
    assert best_transfer(0, 6, case.plan, NOTHING) == (-1, -1, 3), "5 fits on one of two, and both swaps do"


def test_a_search_stops_after_the_slot_that_used_up_its_tries() -> None:
    """A nine waits for each of three slots."""
    found = [below_another([1.0, 1.0, 1.0, 9.0, 9.0, 9.0], [0, 1, 2]) for _ in range(5)]
    for tries, case in enumerate(found):
        search(0, 3, tries, False, case.plan, NOTHING)
    assert [int((case.plan.request >= 3).sum()) for case in found] == [0, 1, 2, 3, 3]


def test_a_pair_counts_for_the_tries_of_its_slot() -> None:
    """Five and five for six and three: no single replacement gains below the envelope, the pair does."""
    case = below_another([3.0, 5.0, 5.0, 6.5, 8.0, 8.0], [1, 4, 5, 2])
    case.plan.kv_left[:] = 0.0
    assert replace(0, 4, False, case.plan, NOTHING) == (False, 2), "6.5 and 3 are less than 10"
    case = below_another([3.0, 5.0, 5.0, 7.5, 8.0, 8.0], [1, 4, 5, 2])
    case.plan.kv_left[:] = 0.5
    assert replace(0, 4, False, case.plan, NOTHING) == (True, 2)
    assert case.plan.request.tolist() == [0, 4, 5, 3]
    assert_consistent(case)


@given(st.lists(QUARTERS, max_size=8).map(sorted), QUARTERS)
def test_ranks_are_found_where_sizes_begin_and_end(sizes: list[float], size: float) -> None:
    assert rank_from(np.array(sizes), size) == np.searchsorted(sizes, size, side="left")
    assert rank_from(np.array(sizes), size, beyond=True) == np.searchsorted(sizes, size, side="right")


def test_the_next_waiting_rank_is_looked_for_both_ways() -> None:
    taken = np.array([0, 1, 1, 0, 1])
    assert [waiting_below(r, taken) for r in range(6)] == [-1, 0, 0, 0, 3, 3]
    assert [waiting_from(r, taken) for r in range(6)] == [0, 3, 3, 3, 5, 5]
    assert waiting_below(1, np.array([1, 0])) == -1


def of_sizes(sizes: list[float], taken: list[int]) -> Plan:
    """A plan of one worker without load."""
    plan = blank(1, len(sizes), 1, 1, 1)
    plan.size[:], plan.taken[:], plan.stays[:], plan.rank[:] = sizes, taken, np.inf, np.arange(len(sizes))
    plan.weight[:], plan.speed[:], plan.members[:], plan.kv_left[:] = 1.0, 1.0, 2.0, np.inf
    plan.position[:] = np.arange(len(sizes))
    return plan


@pytest.mark.parametrize(
    ("ideal", "limit", "pairs"),
    [
        (8.0, 99.0, (0, 2, 1, 2)),  # 1 + 5 = 6 and 3 + 5 = 8
        (7.0, 7.0, (0, 2, -1, -1)),  # 8 is too large
        (3.0, 99.0, (-1, -1, 0, 1)),
        (99.0, 99.0, (2, 4, -1, -1)),
        (3.5, 3.5, (-1, -1, -1, -1)),
        (6.0, 6.0, (0, 1, 0, 2)),
    ],
)
def test_the_nearest_pairs_are_those_on_both_sides_of_the_ideal_sum(ideal: float, limit: float, pairs: tuple) -> None:
    """Waiting: 1, 3, 5 and 9; the 6 has a slot."""
    assert nearest_pairs(ideal, limit, of_sizes([1.0, 3.0, 5.0, 6.0, 9.0], [0, 0, 0, 1, 0])) == pairs


def test_of_pairs_with_equal_sums_the_two_further_apart_are_nearest() -> None:
    """1 and 4 make 5 as 2 and 3 do."""
    plan = of_sizes([1.0, 2.0, 3.0, 4.0], [0, 0, 0, 0])
    assert nearest_pairs(6.0, 99.0, plan) == (0, 3, 1, 3)
    assert nearest_pairs(5.0, 99.0, plan) == (0, 2, 0, 3)


@given(st.lists(st.tuples(QUARTERS, st.integers(0, 1)), min_size=1, max_size=7), QUARTERS, QUARTERS)
def test_no_waiting_pair_is_nearer_than_the_nearest(requests: list[tuple[float, int]], ideal: float, room: float) -> None:
    requests.sort()
    plan = of_sizes([size for size, _ in requests], [taken for _, taken in requests])
    limit = ideal + room
    a, b, c, d = nearest_pairs(ideal, limit, plan)
    sums = [plan.size[x] + plan.size[y] for x, y in combinations(waits(plan), 2)]
    below, above = [x for x in sums if x < ideal], [x for x in sums if ideal <= x <= limit]
    assert (plan.size[a] + plan.size[b] if a >= 0 else None) == max(below, default=None)
    assert (plan.size[c] + plan.size[d] if c >= 0 else None) == min(above, default=None)


def test_the_oldest_are_tried_for_what_they_are_worth_and_no_more_than_four() -> None:
    """All are as large as the one that has the slot, so only worth counts; the fifth, worth most, is not looked at."""
    plan = of_sizes([2.0] * 7, [1, 0, 0, 0, 0, 0, 0])
    plan.worth[:] = [1.0, 1.0, 4.0, 2.0, 4.0, 9.0, 9.0]
    set_others(0, plan)
    assert best_of_oldest(0, 0, -1, LEAST, plan) == 2, "the first of equals"
    assert best_of_oldest(0, 0, 5, 3.0, plan) == 5, "no better than the one that is known"
    assert best_of_oldest(0, 0, 5, 3.5, plan) == 5, "one is known that gains more"
    plan.kv_left[:] = 0.0
    plan.size[2:] = 2.5
    assert best_of_oldest(0, 0, -1, LEAST, plan) == -1, "the others do not fit, and the first gains nothing"
    plan.worth[:] = 9.0
    plan.worth[0] = 1.0
    assert best_of_oldest(0, 0, -1, LEAST, plan) == 1, "what fits exactly fits"


# --- one request for another, by hand: one worker, which makes room for the size it lacks --------------------------


def one_slot(sizes: list[float], admitted: int, **more: object) -> Plan:
    """A worker with one of these requests, 10 tokens below another worker. Its best size is 10 more than it has."""
    plan = of_sizes(sizes, [0] * len(sizes))
    plan.floor[:], plan.base_total[:], plan.reward[:], plan.tie[:] = 10.0 + sizes[admitted], 0.0, 1.0, 0.0
    plan.free[:], plan.kv[:] = 1, np.inf
    clear(plan)
    admit(0, admitted, 0, plan)
    survey(0, plan)
    for name, values in more.items():
        getattr(plan, name)[:] = values
    set_others(0, plan)
    return plan


def replacement(plan: Plan, tries_all: bool = False, cached: np.ndarray = NOTHING) -> int:
    return best_replacement(0, int(plan.request[0]), tries_all, plan, cached)


@pytest.mark.parametrize("tries_all", [False, True])
def test_the_size_nearest_to_the_envelope_is_the_best_replacement(tries_all: bool) -> None:
    """Beyond the envelope a token costs two workers one each and gains one, so 13 is as good as 11."""
    assert replacement(one_slot([2.0, 5.0, 8.0, 16.0], 0), tries_all) == 2
    assert replacement(one_slot([2.0, 5.0, 9.0, 13.0], 0), tries_all) == 3, "12 is ideal"
    assert replacement(one_slot([2.0, 5.0, 11.0, 13.0], 0), tries_all) == 2, "the first of equals"
    assert replacement(one_slot([2.0, 5.0, 11.0, 12.0], 0), tries_all) == 3
    assert replacement(one_slot([1.0, 2.0, 2.0, 30.0], 1), tries_all) == -1, "none gains"
    assert replacement(one_slot([2.0, 2.0 + 5e-7], 0), tries_all) == -1, "so little is rounding"


@pytest.mark.parametrize("tries_all", [False, True])
def test_a_replacement_fits_in_what_is_left_with_what_it_replaces(tries_all: bool) -> None:
    assert replacement(one_slot([2.0, 5.0, 6.0, 12.0], 0, kv_left=4.0), tries_all) == 2
    assert replacement(one_slot([2.0, 5.0, 6.0, 12.0], 0, kv_left=3.5), tries_all) == 1
    assert replacement(one_slot([2.0, 5.0, 6.0, 12.0], 0, kv_left=2.5), tries_all) == -1


def test_the_smallest_and_the_largest_of_all_may_be_the_best_replacement() -> None:
    assert replacement(one_slot([2.0, 5.0], 0)) == 1
    plan = one_slot([5.0, 30.0], 1, others=0.0)
    plan.base[:] = plan.floor[:] = 0.0
    survey(0, plan)
    set_others(0, plan)
    assert plan.others.tolist() == [0.0]
    assert replacement(plan) == 0


def test_a_request_of_another_class_is_no_replacement() -> None:
    assert replacement(one_slot([2.0, 5.0, 12.0], 0, kind=[1, 1, 0]), True) == 1


def test_cached_tokens_count_where_they_have_worth() -> None:
    """12 gains 10, and 5 gains 3; 32 more tokens of it are cached here, each worth a quarter, in place of 2 of the first."""
    plan = one_slot([2.0, 5.0, 12.0], 0, hit=0.25)
    plan.place[:] = 1
    assert replacement(plan, True, np.array([[9.0, 2.0], [0.0, 34.0], [99.0, 2.0]])) == 1
    assert replacement(plan, True, np.array([[9.0, 2.0], [0.0, 26.0], [99.0, 2.0]])) == 2
    assert replacement(plan, True, np.array([[0.0, 50.0], [9.0, 0.0], [9.0, 0.0]])) == -1, "it stays where it is cached"


def test_worth_counts_in_a_replacement() -> None:
    """12 gains 10, and 5 gains 3 and what it is worth more than the 2."""
    assert replacement(one_slot([2.0, 5.0, 12.0], 0, worth=[1.0, 9.0, 1.0]), True) == 1
    assert replacement(one_slot([2.0, 5.0, 12.0], 0, worth=[1.0, 7.0, 1.0]), True) == 2
    assert replacement(one_slot([2.0, 5.0, 12.0], 0, worth=[20.0, 9.0, 1.0]), True) == -1
    assert replacement(one_slot([2.0, 5.0, 12.0], 0, worth=[0.0, 0.0, -8.0])) == 1
    assert replacement(one_slot([2.0, 5.0, 12.0], 0, worth=[0.0, -4.0, -11.0])) == -1


@pytest.mark.parametrize(("worth", "found"), [(0.0, 2), (0.5, 1)])
def test_the_oldest_are_tried_where_the_very_oldest_is_worth_anything(worth: float, found: int) -> None:
    """The oldest is 11.5, no neighbour of the ideal 12."""
    plan = one_slot([2.0, 11.5, 11.75, 12.5], 0, rank=[1, 3, 2, 0], worth=[0.0, worth, 0.0, 0.0])
    assert replacement(plan) == found


# --- two requests for two -----------------------------------------------------------------------------------------


def two_slots(sizes: list[float], lacks: float, **more: object) -> Plan:
    """A worker with the first two of these requests, which lie `lacks` tokens below another worker."""
    plan = blank(1, len(sizes), 1, 1, 2)
    plan.size[:], plan.stays[:], plan.rank[:] = sizes, np.inf, np.arange(len(sizes))
    plan.weight[:], plan.speed[:], plan.members[:], plan.reward[:] = 1.0, 1.0, 2.0, 1.0
    plan.floor[:] = sizes[0] + sizes[1] + lacks
    plan.free[:], plan.kv[:] = 2, np.inf
    for name, values in more.items():
        getattr(plan, name)[:] = values
    clear(plan)
    admit(0, 0, 0, plan)
    admit(0, 1, 1, plan)
    survey(0, plan)
    set_others(0, plan)
    return plan


@pytest.mark.parametrize(
    ("sizes", "lacks", "pair"),
    [
        ([1.0, 2.0, 3.0, 4.0], 5.0, [2, 3]),  # 7 of 8, with none above
        ([1.0, 2.0, 3.0, 4.0], 4.0, [2, 3]),  # 7 of 7
        ([1.0, 2.0, 3.0, 4.0], 3.0, [1, 3]),  # 6 of 6: one of both stays
        ([1.0, 2.0, 3.0, 4.5, 5.0], 5.5, [2, 4]),  # 8 and 9.5 next to 8.5
        ([1.0, 2.0, 3.0, 5.0, 5.5], 6.5, [2, 4]),  # 8.5 and 10.5 next to 9.5: the first of equals
    ],
)
def test_a_pair_nearest_to_the_envelope_takes_both_slots(sizes: list[float], lacks: float, pair: list[int]) -> None:
    plan = two_slots(sizes, lacks)
    assert replace_pair(0, 1, plan)
    assert sorted(plan.request.tolist()) == pair
    assert plan.taken.tolist() == [int(r in pair) for r in range(len(sizes))]
    assert plan.load[0, 0] == plan.size[pair].sum()


def test_a_pair_that_gains_nothing_leaves_both_where_they_are() -> None:
    for plan in (two_slots([1.0, 2.0, 3.0, 4.0], 0.0), two_slots([1.0, 2.0, 3.0, 4.0], 4.0, kv=[3.0])):
        assert not replace_pair(0, 1, plan)
        assert plan.request.tolist() == [0, 1]
        assert plan.taken.tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize(
    ("worth", "pair"),
    [
        ([0.0, 0.0, 0.0, 0.0], [2, 3]),
        ([9.0, 9.0, 9.0, 9.0], [2, 3]),
        ([0.0, 2.0, 0.0, 0.0], [1, 3]),
        ([2.0, 9.0, 0.0, 0.0], [1, 3]),
        ([4.0, 0.0, 0.0, 0.0], [0, 1]),
        ([3.5, 1.0, 0.0, 0.0], [0, 1]),
        ([4.0, 0.0, 0.5, 0.0], [2, 3]),
        ([4.0, 0.0, 0.0, 0.5], [2, 3]),
    ],
)
def test_worth_counts_in_a_replacement_of_two(worth: list[float], pair: list[int]) -> None:
    """1 and 2 leave 4 tokens below the envelope: 3 and 4 gain these, 2 and 4 gain 3, less what is lost in worth."""
    plan = two_slots([1.0, 2.0, 3.0, 4.0], 4.0, worth=worth)
    assert replace_pair(0, 1, plan) == (pair != [0, 1])
    assert sorted(plan.request.tolist()) == pair


# --- to another worker --------------------------------------------------------------------------------------------


def uneven(loads: list[float], sizes: list[float], admitted: list[tuple[int, int]], **more: object) -> Plan:
    """Workers of these loads with requests (worker, rank) on top; nothing else in the group. Each has one more slot."""
    plan = blank(len(loads), len(sizes), 1, 1, len(admitted))
    plan.size[:], plan.stays[:], plan.rank[:] = sizes, np.inf, np.arange(len(sizes))
    plan.position[:], plan.place[:] = np.arange(len(sizes)), np.arange(len(loads))
    plan.weight[:], plan.speed[:], plan.members[:], plan.reward[:] = 1.0, 1.0, len(loads), 1.0
    plan.base[:, 0], plan.floor[:], plan.base_total[:] = loads, -np.inf, sum(loads)
    plan.free[:], plan.kv[:] = [1 + sum(o == p for p, _ in admitted) for o in range(len(loads))], np.inf
    clear(plan)
    for k, (o, r) in enumerate(admitted):
        admit(o, r, k, plan)
    survey(0, plan)
    for name, values in more.items():
        getattr(plan, name)[:] = values
    set_others(0, plan)
    return plan


def test_a_request_moves_to_where_the_envelope_falls_most() -> None:
    """10 + 5 on the first worker: on the second it ends at 12, on the third at 11."""
    plan = uneven([10.0, 7.0, 6.0], [5.0], [(0, 0)])
    assert best_transfer(0, 1, plan, NOTHING) == (2, -1, 2)
    assert best_transfer(0, 1, uneven([10.0, 6.0, 6.0], [5.0], [(0, 0)]), NOTHING)[:2] == (1, -1), "the first of equals"
    assert best_transfer(0, 1, uneven([10.0, 7.0, 6.0], [5.0], [(0, 0)], room=[1, 1, 0]), NOTHING)[:2] == (1, -1)
    assert best_transfer(0, 1, uneven([10.0, 7.0, 6.0], [5.0], [(0, 0)], kv_left=[9, 5, 4.5]), NOTHING)[:2] == (1, -1)
    assert best_transfer(0, 1, uneven([10.0, 10.0, 11.0], [5.0], [(0, 0)]), NOTHING)[:2] == (-1, -1)
    transfer(0, 2, -1, plan)
    assert plan.worker.tolist() == [2]
    assert plan.load[:, 0].tolist() == [10.0, 7.0, 11.0]
    assert plan.taken.tolist() == [1]


def test_a_request_swaps_with_a_smaller_one_where_that_is_better() -> None:
    """15 and 11: a move of 5 leaves 16, a swap with 4.25 leaves 14.25, one with 3 leaves 13."""
    plan = uneven([10.0, 3.75], [3.0, 4.25, 5.0], [(0, 2), (1, 0), (1, 1)])
    assert best_transfer(0, 3, plan, NOTHING) == (1, 1, 3)
    assert best_transfer(0, 2, uneven([10.0, 6.0], [4.25, 5.0], [(0, 1), (1, 0)]), NOTHING)[:2] == (1, 1), "less than 1"
    assert best_transfer(0, 3, uneven([10.0, 3.75], [3.0, 3.0, 5.0], [(0, 2), (1, 0), (1, 1)]), NOTHING)[:2] == (1, 1)
    transfer(0, 1, 1, plan)
    assert plan.worker.tolist() == [1, 0, 1]
    assert plan.load[:, 0].tolist() == [13.0, 13.0]
    assert plan.taken.tolist() == [1, 1, 1]


@given(filled(), st.data())
def test_no_transfer_gains_more_than_its_bound(case: Case, data: st.DataObject) -> None:
    """Exactly, as a transfer that is passed over must not have gained the last bit more."""
    plan = case.plan
    plan.pull[:], plan.reward[:], plan.tie[:] = 0.3, 0.0, 0.0
    plan.weight[:] = 0.88 ** np.arange(plan.weight.size)
    plan.weight[data.draw(st.integers(0, plan.weight.size - 1))] *= data.draw(st.sampled_from((0.0, 1.0)))
    for column in (plan.load, plan.envelope, plan.runner_up, plan.size, plan.growth, plan.target):
        column /= 3.0  # so that sums and products are rounded
    assert is_bounded(plan)
    k = data.draw(st.integers(0, case.filled - 1))
    o, out = int(plan.worker[k]), int(plan.request[k])
    above = set_others(o, plan)
    most = most_gain(o, plan)
    assert not np.isnan(most), "a worker alone in its group, and a step that does not count"
    assert above or most == 0.0
    for p in range(plan.place.size):
        if p != o:
            backs = [int(plan.request[m]) for m in range(case.filled) if plan.worker[m] == p]
            for back in [-1, *(r for r in backs if plan.size[r] < plan.size[out])]:
                assert transfer_gain(o, p, out, back, plan) <= most - pulled_apart(o, p, out, back, plan)
    best_transfer(k, case.filled, plan, NOTHING)


def test_a_bound_is_known_where_only_envelopes_and_targets_count() -> None:
    plan = uneven([10.0, 7.0], [5.0], [(0, 0)])
    plan.pull[:], plan.reward[:] = 0.5, 0.0
    assert is_bounded(plan)
    for name in ("reward", "tie", "hit"):
        other = Plan(*(array.copy() for array in plan))
        getattr(other, name)[:] = 0.5
        assert not is_bounded(other), name
    plan.pull[:] = 0.0
    assert not is_bounded(plan)


def test_cached_tokens_draw_a_request_to_their_worker() -> None:
    """No load counts here: all lie below a worker without a slot."""
    far, half = {"floor": 100.0, "envelope": 100.0, "runner_up": 20.0}, 0.5
    cached = np.array([[0.0, 8.0, 6.0]])
    assert best_transfer(0, 1, uneven([1.0] * 3, [5.0], [(0, 0)], hit=half, **far), cached)[:2] == (1, -1)
    cached = np.array([[8.0, 8.0, 6.0]])
    assert best_transfer(0, 1, uneven([1.0] * 3, [5.0], [(0, 0)], hit=half, **far), cached)[:2] == (-1, -1)


@pytest.mark.parametrize(
    ("cached", "swaps"),
    [
        ([[9.0, 9.0], [9.0, 9.0]], False),
        ([[1.0, 0.0], [0.0, 0.0]], True),
        ([[0.0, 0.0], [0.0, 1.0]], True),
        ([[2.0, 3.0], [0.0, 0.0]], False),
        ([[2.0, 3.0], [1.0, 3.0]], True),
        ([[3.0, 1.0], [1.0, 0.0]], True),
        ([[3.0, 1.0], [2.5, 0.0]], False),
        ([[0.0, 1.0], [1.0, 3.0]], True),
        ([[0.0, 1.0], [2.5, 3.0]], False),
    ],
)
def test_both_cached_prefixes_count_in_a_swap(cached: list[list[float]], swaps: bool) -> None:
    """Request 0 is on worker 1 and request 1 on worker 0, and the other way round after a swap. Loads do not count."""
    more = {"floor": 100.0, "envelope": 100.0, "runner_up": 20.0, "room": 0, "hit": 0.5}
    plan = uneven([1.0, 1.0], [4.0, 5.0], [(0, 1), (1, 0)], **more)
    assert best_transfer(0, 2, plan, np.array(cached))[:2] == ((1, 1) if swaps else (-1, -1))


@pytest.mark.parametrize(("tries", "workers"), [(0, [0, 1]), (1, [2, 1]), (3, [2, 1]), (4, [2, 2])])
def test_transfers_use_up_the_tries_of_a_search(tries: int, workers: list[int]) -> None:
    """15, 12 and 0: two moves and a swap of the 5 are tried, and it moves to the third worker; then the 4 follows it."""
    plan = uneven([10.0, 8.0, 0.0], [4.0, 5.0, 9.0], [(0, 1), (1, 0)], room=[1, 1, 2])
    search(2, 2, tries, False, plan, NOTHING)
    assert plan.worker.tolist() == workers


def test_a_search_of_no_slots_changes_nothing() -> None:
    case = below_another([1.0, 9.0], [])
    search(0, 0, ENOUGH, False, case.plan, NOTHING)
    assert case.plan.taken.tolist() == [0, 0]


# --- where a search ends ----------------------------------------------------------------------------------------


@st.composite
def searched(draw: st.DrawFn, *, knows_more: bool) -> tuple[Case, np.ndarray, int]:
    """A filled plan, cached tokens, and how many are pinned. Unless more is known, size is all that tells requests apart."""
    case = draw(filled(ends=knows_more))
    plan, waiting = case.plan, case.plan.size.size

    def several(values: st.SearchStrategy[float], count: int) -> list[float]:
        return draw(st.lists(values, min_size=count, max_size=count))

    cached = np.zeros((waiting, plan.place.size))
    if knows_more:
        plan.worth[:] = several(QUARTERS, waiting)
        plan.kind[:] = several(st.integers(0, 1), waiting)
        plan.hit[:] = draw(st.sampled_from([0.0, 0.5]))
        cached[:] = np.reshape(several(QUARTERS, cached.size), cached.shape)
    if draw(st.booleans()):
        plan.kv_left[:] = several(st.sampled_from([0.0, 0.25, 1.0, 5.0, 20.0]), plan.place.size)
    return case, cached, draw(st.integers(0, case.filled))


def loss(case: Case, cached: np.ndarray) -> float:
    """The objective, less what the admitted are worth and what is cached of them."""
    plan, found = case.plan, value(case)
    for k in range(case.filled):
        o, r = int(plan.worker[k]), int(plan.request[k])
        found -= plan.worth[r] + plan.hit[o] * cached[plan.position[r], plan.place[o]]
    return found


def replaced(case: Case, k: int, into: int) -> Case:
    """The plan with another request in slot k."""
    after = copied(case)
    change(int(after.plan.worker[k]), int(after.plan.request[k]), into, after.plan)
    after.plan.request[k] = into
    return after


def transferred(case: Case, k: int, to: int, swap: int) -> Case:
    """The plan with the request of slot k on worker `to`, in exchange for that of slot `swap` unless that is -1."""
    after, o, out = copied(case), int(case.plan.worker[k]), int(case.plan.request[k])
    back = int(case.plan.request[swap]) if swap >= 0 else -1
    change(o, out, back, after.plan)
    change(to, back, out, after.plan)
    after.plan.worker[k] = to
    if swap >= 0:
        after.plan.worker[swap] = o
    return after


def assert_keeps_its_limits(before: Case, after: Case, pinned: int) -> None:
    assert_consistent(after)
    was, now = before.plan, after.plan
    assert now.request[:pinned].tolist() == was.request[:pinned].tolist(), "the overdue keep their slots"
    assert len(set(now.request.tolist())) == after.filled
    assert now.taken.tolist() == [int(r in now.request) for r in range(now.taken.size)]
    assert sorted(now.kind[now.request].tolist()) == sorted(was.kind[was.request].tolist())
    assert (now.kv_left >= 0).all()


def assert_no_replacement_gains(case: Case, cached: np.ndarray, pinned: int) -> None:
    plan, found = case.plan, loss(case, cached)
    for k in range(pinned, case.filled):
        out = int(plan.request[k])
        for r in waits(plan):
            if plan.kind[r] == plan.kind[out] and plan.size[r] <= plan.kv_left[int(plan.worker[k])] + plan.size[out]:
                assert loss(replaced(case, k, r), cached) > found - LEAST


def assert_no_transfer_gains(case: Case, cached: np.ndarray) -> None:
    """Of those that are tried; where one request outlasts the other, only a bound of the gain is known."""
    plan, found = case.plan, loss(case, cached)
    for k in range(case.filled):
        o, out = int(plan.worker[k]), int(plan.request[k])
        above = set_others(o, plan)
        if not (above or plan.tie[plan.group[o]] > 0 or plan.pull[o] > 0 or plan.hit[o] > 0):
            continue
        for p in range(plan.place.size):
            if p != o and plan.room[p] > 0 and plan.size[out] <= plan.kv_left[p]:
                assert loss(transferred(case, k, p, -1), cached) > found - LEAST
        for m in range(case.filled):
            p, back = int(plan.worker[m]), int(plan.request[m])
            more = plan.size[out] - plan.size[back]
            if p != o and 0 < more <= plan.kv_left[p] and plan.stays[back] <= plan.stays[out]:
                assert loss(transferred(case, k, p, m), cached) > found - LEAST


@pytest.mark.slow
@examples(400, fast=150)
@given(searched(knows_more=True))
def test_a_search_that_tries_all_ends_where_no_change_gains(given_plan: tuple[Case, np.ndarray, int]) -> None:
    case, cached, pinned = given_plan
    after = copied(case)
    search(pinned, case.filled, ENOUGH, True, after.plan, cached)
    assert_keeps_its_limits(case, after, pinned)
    assert loss(after, cached) <= loss(case, cached) + LEAST
    assert_no_replacement_gains(after, cached, pinned)
    assert_no_transfer_gains(after, cached)


@pytest.mark.slow
@examples(400, fast=150)
@given(searched(knows_more=False))
def test_where_only_sizes_differ_the_neighbours_of_the_ideal_size_will_do(given_plan: tuple[Case, np.ndarray, int]) -> None:
    case, cached, pinned = given_plan
    after = copied(case)
    search(pinned, case.filled, ENOUGH, False, after.plan, cached)
    assert_keeps_its_limits(case, after, pinned)
    assert loss(after, cached) <= loss(case, cached) + LEAST
    assert_no_replacement_gains(after, cached, pinned)
    assert_no_transfer_gains(after, cached)
    assert_no_pair_gains(after, cached, pinned)


def assert_no_pair_gains(case: Case, cached: np.ndarray, pinned: int) -> None:
    """Neither does any waiting pair in place of two requests of one worker, of which the first is not overdue."""
    plan, found = case.plan, loss(case, cached)
    for k, m in combinations(range(pinned, case.filled), 2):
        x, y, o = int(plan.request[k]), int(plan.request[m]), int(plan.worker[k])
        if plan.worker[m] != o:
            continue
        limit = plan.kv_left[o] + plan.size[x] + plan.size[y]
        for a, b in combinations(sorted([*waits(plan), x, y]), 2):
            if plan.size[a] + plan.size[b] <= limit and {a, b} != {x, y}:
                after = copied(case)
                for out, into in zip(sorted({x, y} - {a, b}), sorted({a, b} - {x, y}), strict=True):
                    change(o, out, into, after.plan)
                after.plan.request[k], after.plan.request[m] = a, b
                assert loss(after, cached) > found - LEAST
