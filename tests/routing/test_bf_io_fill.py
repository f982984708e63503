"""How the slots of a BF-IO plan are filled before the search."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.routing.test_bf_io_plan import blank

from evenstep.compiled import as_plain
from evenstep.routing.bf_io import fill as fills
from evenstep.routing.bf_io.plan import Plan

fill, refill, largest_of = as_plain(fills.fill), as_plain(fills.refill), as_plain(fills.largest_of)
#: The third starting order has no name there.
SMALLEST = 2


def pool(sizes: list[float], free: list[int], slots: int | None = None, **more: object) -> Plan:
    """One group, no loads, one step, ends unknown. `sizes` in order of arrival; fields of `more` go by rank or worker."""
    plan = blank(len(free), len(sizes), 1, 1, sum(free) if slots is None else slots)
    order = np.argsort(sizes, kind="stable")
    plan.size[:], plan.position[:], plan.stays[:] = np.array(sizes)[order], order, np.inf
    plan.rank[order] = np.arange(len(sizes))
    plan.weight[:], plan.speed[:], plan.members[:], plan.floor[:] = 1.0, 1.0, len(free), -np.inf
    plan.place[:], plan.free[:], plan.kv[:] = np.arange(len(free)), free, np.inf
    plan.quota[:] = len(sizes)
    for name, values in more.items():
        getattr(plan, name)[: len(np.atleast_1d(values))] = values
    return plan


def sizes_of(plan: Plan, count: int) -> list[float]:
    """Sizes of the admitted, in order."""
    return plan.size[plan.request[:count]].tolist()


@pytest.mark.parametrize(
    ("start", "sizes"),
    [(fills.LARGEST, [9.0, 5.0, 4.0]), (fills.ARRIVAL, [4.0, 9.0, 1.0]), (SMALLEST, [1.0, 4.0, 5.0])],
)
def test_the_starting_order_says_who_goes_first(start: int, sizes: list[float]) -> None:
    plan = pool([4.0, 9.0, 1.0, 5.0], [3])
    assert fill(start, 0, 1, 1, plan) == (0, 3)
    assert sizes_of(plan, 3) == sizes
    assert plan.envelope[0, 0] == sum(sizes)


def test_overdue_requests_go_before_the_order_and_are_pinned() -> None:
    plan = pool([4.0, 9.0, 1.0, 5.0], [3])
    assert fill(fills.LARGEST, 1, 1, 1, plan) == (1, 3)
    assert sizes_of(plan, 3) == [4.0, 9.0, 5.0]


def test_an_overdue_request_that_fits_nowhere_pins_nothing() -> None:
    plan = pool([9.0, 4.0], [1], kv=[5.0])
    assert fill(fills.LARGEST, 1, 1, 1, plan) == (0, 1)
    assert sizes_of(plan, 1) == [4.0]


def test_each_goes_to_the_least_burdened_worker_with_room() -> None:
    """3 goes to the lighter worker, 2 to the other, then the heavier one has no slot left."""
    plan = pool([3.0, 2.0, 1.0], [2, 1], base=[[4.0], [6.0]])
    assert fill(fills.LARGEST, 0, 1, 1, plan) == (0, 3)
    assert plan.worker[:3].tolist() == [0, 1, 0]
    plan = pool([3.0], [1, 1], base=[[4.0], [4.0]])
    assert fill(fills.LARGEST, 0, 1, 1, plan) == (0, 1)
    assert plan.worker[0] == 0, "the first of equals"


def test_a_burden_weighs_every_step_and_the_speed_of_its_worker() -> None:
    """Of two steps the second counts half: 6 + 2 / 2 = 7 and 4 + 8 / 2 = 8, so the first worker is lighter, and then 9.5."""
    plan = blank(2, 2, 2, 1, 2)
    plan.size[:], plan.stays[:], plan.rank[:] = [1.0, 2.0], np.inf, [0, 1]
    plan.weight[:], plan.growth[:], plan.speed[:] = [1.0, 0.5], [0.0, 1.0], [0.5, 1.0]
    plan.base[:], plan.members[:], plan.floor[:] = [[6.0, 2.0], [4.0, 8.0]], 2.0, -np.inf
    plan.place[:], plan.free[:], plan.kv[:], plan.quota[:] = [0, 1], [2, 1], np.inf, 2
    assert fill(fills.LARGEST, 0, 1, 1, plan) == (0, 2)
    assert plan.worker[:2].tolist() == [0, 1]
    assert plan.burden.tolist() == [7.0 + 0.5 * (2.0 + 0.5 * 3.0), 8.0 + 1.0 + 0.5 * 2.0]


def test_kv_memory_decides_where_a_request_fits() -> None:
    plan = pool([5.0, 5.0], [2, 1], base=[[0.0], [9.0]], kv=[6.0, 5.0])
    assert fill(fills.LARGEST, 0, 1, 1, plan) == (0, 2)
    assert plan.worker[:2].tolist() == [0, 1]
    assert plan.kv_left.tolist() == [1.0, 0.0]


def test_the_largest_that_fits_of_the_oldest_goes_before_the_order() -> None:
    """Of the two oldest 4 is larger; then 6 and 3 are the oldest, and 6 is too large; then the order of arrival."""
    plan = pool([3.0, 4.0, 6.0, 2.0], [4], kv=[9.0])
    assert fill(fills.ARRIVAL, 0, 1, 2, plan) == (0, 3)
    assert sizes_of(plan, 3) == [4.0, 3.0, 2.0]


@pytest.mark.parametrize(("oldest", "largest"), [(1, 3.0), (2, 4.0), (3, 4.0), (4, 5.0), (5, 5.0)])
def test_the_largest_that_fits_is_of_those_that_still_wait(oldest: int, largest: float) -> None:
    """The first has a slot already, 6 does not fit."""
    plan = pool([7.0, 3.0, 4.0, 6.0, 5.0], [2], kv=[12.5])
    plan.room[:], plan.kv_left[:], plan.left[:] = [1], [5.5], 5
    plan.taken[plan.rank[0]] = 1
    assert plan.size[largest_of(oldest, plan)] == largest


def test_no_request_is_largest_where_none_fits_or_none_has_a_quota() -> None:
    plan = pool([3.0, 4.0], [1])
    plan.room[:], plan.kv_left[:], plan.left[:] = [1], [2.0], 2
    assert largest_of(2, plan) == -1
    plan.kv_left[:], plan.left[:] = [9.0], 0
    assert largest_of(2, plan) == -1
    plan.left[:], plan.room[:] = 2, [0]
    assert largest_of(2, plan) == -1, "no slot"


def test_a_request_that_fits_exactly_and_has_the_last_of_its_quota_may_go() -> None:
    plan = pool([3.0, 4.0], [1])
    plan.room[:], plan.kv_left[:], plan.left[:] = [1], [4.0], 1
    assert plan.size[largest_of(2, plan)] == 4.0


def test_the_largest_of_the_oldest_stop_where_all_slots_are_filled() -> None:
    """A request without tokens fits anywhere."""
    plan = pool([0.0, 0.0, 5.0], [1])
    assert fill(fills.ARRIVAL, 0, 1, 2, plan) == (0, 1)
    assert plan.taken.sum() == 1


def test_the_older_of_equals_is_the_largest() -> None:
    plan = pool([3.0, 4.0, 4.0], [1])
    plan.room[:], plan.kv_left[:], plan.left[:] = [1], [9.0], 3
    assert largest_of(3, plan) == plan.rank[1]
    plan = pool([4.0, 4.0], [1])
    plan.room[:], plan.kv_left[:], plan.left[:] = [1], [9.0], 2
    assert largest_of(2, plan) == plan.rank[0] == 0


def test_the_smallest_of_all_goes_first_where_only_it_fits_of_the_oldest() -> None:
    plan = pool([1.0, 9.0, 1.5], [2], kv=[3.0])
    assert fill(fills.LARGEST, 0, 1, 2, plan) == (0, 2)
    assert sizes_of(plan, 2) == [1.0, 1.5]


def test_a_class_does_not_exceed_its_quota_unless_slots_would_stay_empty() -> None:
    """Kinds go by rank: 1 and 2 are of class 0, 3 and 4 of class 1, which may have one slot."""
    plan = pool([1.0, 2.0, 3.0, 4.0], [2], kind=[0, 0, 1, 1], quota=[1, 1])
    assert fill(fills.LARGEST, 0, 2, 1, plan) == (0, 2)
    assert sizes_of(plan, 2) == [4.0, 2.0]
    plan = pool([1.0, 2.0, 3.0, 4.0], [3], kind=[0, 0, 1, 1], quota=[0, 1])
    assert fill(fills.LARGEST, 0, 2, 1, plan) == (0, 3)
    assert sizes_of(plan, 3) == [4.0, 3.0, 2.0]


@pytest.mark.parametrize(("start", "first"), [(fills.LARGEST, 9.0), (fills.ARRIVAL, 4.0), (SMALLEST, 1.0)])
def test_the_first_of_the_order_gets_an_empty_slot_though_its_class_has_no_quota(start: int, first: float) -> None:
    """Sizes 1, 4, 5, 9 by rank. Only the class of size 5 has a quota; the other slot goes to the first of the order."""
    plan = pool([4.0, 9.0, 1.0, 5.0], [2], kind=[0, 0, 1, 0])
    plan.quota[:2] = [0, 1]
    assert fill(start, 0, 2, 1, plan) == (0, 2)
    assert sizes_of(plan, 2) == [5.0, first]


def test_an_overdue_request_uses_up_the_quota_of_its_class() -> None:
    plan = pool([4.0, 3.0, 2.0], [2], kind=[0, 1, 1], quota=[1, 1])
    assert fill(fills.LARGEST, 1, 2, 1, plan) == (1, 2)
    assert sizes_of(plan, 2) == [4.0, 2.0], "4 is of class 1, so the next is of class 0"
    plan = pool([2.0, 3.0, 4.0], [2], kind=[0, 1, 1], quota=[0, 2])
    assert fill(fills.LARGEST, 1, 2, 1, plan) == (1, 2)
    assert (sizes_of(plan, 2), plan.left[:2].tolist()) == ([2.0, 4.0], [0, 1]), "a quota is never negative"


def test_slots_left_empty_for_lack_of_memory_go_to_the_oldest_that_fit() -> None:
    plan = pool([6.0, 3.0, 5.0, 1.0], [3], kv=[9.0])
    _, count = fill(fills.LARGEST, 0, 1, 1, plan)
    assert (count, sizes_of(plan, 2)) == (2, [6.0, 3.0])
    assert refill(count, plan) == 2, "nothing fits"
    plan.kv_left[:] = 6.0
    assert refill(count, plan) == 3
    assert sizes_of(plan, 3) == [6.0, 3.0, 5.0]
    assert plan.envelope[0, 0] == 14.0
    assert refill(3, plan) == 3


@given(st.lists(st.integers(1, 9).map(float), min_size=1, max_size=8), st.lists(st.integers(1, 3), min_size=1, max_size=3))
def test_without_limits_all_slots_are_filled_once_each(sizes: list[float], free: list[int]) -> None:
    slots = min(sum(free), len(sizes))
    for start in (fills.LARGEST, fills.ARRIVAL, SMALLEST):
        plan = pool(sizes, free, slots)
        assert fill(start, 0, 1, 1, plan) == (0, slots)
        assert len(set(plan.request.tolist())) == slots
        assert (plan.free - plan.room).tolist() == [int((plan.worker == o).sum()) for o in range(len(free))]
