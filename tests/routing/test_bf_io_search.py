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

rank_from, rank_beyond, waiting_below, waiting_from = (
    as_plain(getattr(searching, name)) for name in ("rank_from", "rank_beyond", "waiting_below", "waiting_from")
)
search, replace, best_transfer, nearest_pairs, best_of_oldest = (
    as_plain(getattr(searching, name)) for name in ("search", "replace", "best_transfer", "nearest_pairs", "best_of_oldest")
)
set_others = as_plain(gains.set_others)
#: Gains that count, in tokens.
LEAST = 1e-5
ENOUGH = 100_000


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


NOTHING = np.zeros((9, 3))


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
    """5 may move to both other workers, and swap with 1 and 2, but not with an equal or a larger one."""
    case = below_another([1.0, 2.0, 5.0, 5.0, 6.0], [3, 1, 0, 2, 4])
    set_others(0, case.plan)
    case.plan.room[:] = [0, 1, 1]
    assert best_transfer(0, 5, case.plan, NOTHING) == (-1, -1, 4)
    case.plan.room[:] = 0
    assert best_transfer(0, 5, case.plan, NOTHING) == (-1, -1, 2)
    case.plan.kv_left[:] = [9.0, 3.0, 3.5]
    assert best_transfer(0, 5, case.plan, NOTHING) == (-1, -1, 1), "4 more do not fit, 3 more do"


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
    assert rank_beyond(np.array(sizes), size) == np.searchsorted(sizes, size, side="right")


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
        (4.0, 3.5, (-1, -1, -1, -1)),
    ],
)
def test_the_nearest_pairs_are_those_on_both_sides_of_the_ideal_sum(ideal: float, limit: float, pairs: tuple) -> None:
    """Waiting: 1, 3, 5 and 9; the 6 has a slot."""
    assert nearest_pairs(ideal, limit, of_sizes([1.0, 3.0, 5.0, 6.0, 9.0], [0, 0, 0, 1, 0])) == pairs


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
    plan.worth[:] = [1.0, 1.0, 4.0, 2.0, 3.0, 9.0, 9.0]
    set_others(0, plan)
    assert best_of_oldest(0, 0, -1, LEAST, plan) == 2
    assert best_of_oldest(0, 0, 5, 3.5, plan) == 5, "one is known that gains more"
    plan.kv_left[:] = 0.0
    plan.size[2:] = 2.5
    assert best_of_oldest(0, 0, -1, LEAST, plan) == -1, "the others do not fit, and the first gains nothing"
