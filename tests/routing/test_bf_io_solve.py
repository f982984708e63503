"""How BF-IO solves a plan: which starting order, search, level or pair gives the answer, and within which effort."""

from __future__ import annotations

import numpy as np
import pytest
from tests.routing.test_bf_io_fill import pool
from tests.routing.test_bf_io_plan import admit, survey

from evenstep.compiled import as_plain
from evenstep.routing.bf_io import solve as solving
from evenstep.routing.bf_io.solve import Effort
from evenstep.routing.view import HOLD

solve, value_of = as_plain(solving.solve), as_plain(solving.value_of)
inf = float("inf")
#: Cached tokens where none are known.
NOTHING = np.zeros((0, 0))


def solved(
    sizes: list[float],
    free: list[int],
    base: list[float],
    effort: Effort,
    forced: int = 0,
    tries_all: bool = False,
    **more: object,
) -> list[int]:
    """The worker of each request, in order of arrival, on workers of these free slots and loads."""
    slots = min(sum(free), len(sizes))
    loads = {"base": np.reshape(base, (-1, 1)), "base_total": float(sum(base))}
    plan = pool(sizes, free, slots, **({"reward": 1.0} | loads | more))
    worker = np.full(len(sizes), HOLD)
    solve(effort, forced, 1, tries_all, plan, NOTHING, worker)
    return worker.tolist()


def idle(sizes: list[float], base: list[float], worker: list[int]) -> float:
    """What all workers together lie below the largest load."""
    load = np.array(base)
    for size, g in zip(sizes, worker, strict=True):
        if g >= 0:
            load[g] += size
    return float((load.max() - load).sum())


def effort(starts: int = 3, moves: int = 500, rounds: int = 2, oldest: int = 1) -> Effort:
    return Effort(starts, moves, rounds, oldest)


# --- what a plan is worth -----------------------------------------------------------------------------------------


def test_the_value_of_a_plan_is_its_idle_load_less_what_its_requests_and_their_cached_tokens_are_worth() -> None:
    """5 on worker 0 and 2 on worker 1: 2 * 5 - 7 = 3 idle tokens."""
    plan = pool([5.0, 2.0, 4.0], [2, 2], reward=1.0)
    admit(0, 2, 0, plan)
    admit(1, 0, 1, plan)
    survey(0, plan)
    assert value_of(2, plan, NOTHING) == 3.0
    plan.worth[:] = [0.25, 8.0, 0.5]
    assert value_of(2, plan, NOTHING) == 3.0 - 0.25 - 0.5
    plan.hit[:] = 0.5
    cached = np.array([[4.0, 32.0], [32.0, 6.0], [32.0, 32.0]])
    assert value_of(2, plan, cached) == 3.0 - 0.25 - 0.5 - 0.5 * (4.0 + 6.0)


# --- starting orders ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "of_one", "of_two", "of_three"),
    [
        ([3.0, 8.0, 8.0, 1.0], [-1, 1, 0, -1], [-1, 1, 0, -1], [-1, 1, 0, -1]),
        ([5.0, 5.0, 9.0, 1.0], [1, -1, 0, -1], [0, 1, -1, -1], [0, 1, -1, -1]),
        ([4.0, 9.0, 1.0, 3.0], [1, 0, -1, -1], [1, 0, -1, -1], [-1, -1, 0, 1]),
        ([4.0, 9.0, 1.0, 6.0], [-1, 0, -1, 1], [-1, 0, -1, 1], [-1, 0, -1, 1]),
    ],
)
def test_of_largest_by_arrival_and_smallest_first_the_best_is_taken(
    sizes: list[float], of_one: list[int], of_two: list[int], of_three: list[int]
) -> None:
    """Two empty workers, no search. 8 and 8, 5 and 5, 1 and 3 are nearest; of 9 and 6 or 1 and 4 the first."""
    found = [solved(sizes, [1, 1], [0.0, 0.0], effort(starts, moves=0)) for starts in (1, 2, 3)]
    assert found == [of_one, of_two, of_three]


def test_without_starting_orders_the_oldest_are_admitted_and_only_moved() -> None:
    """1 goes to the lesser load and 2 to the other; the other way round both have 2. A pair of nines would be as even."""
    for moves, found in ((0, [0, 1, -1, -1]), (500, [1, 0, -1, -1])):
        assert solved([1.0, 2.0, 9.0, 8.0], [1, 1], [0.0, 1.0], effort(0, moves)) == found
    assert solved([2.0, 6.0, 7.0], [1, 1], [0.0, 3.0], effort(0)) == [1, 0, -1]


def test_without_starting_orders_room_that_a_swap_has_made_goes_to_the_oldest_that_fits() -> None:
    """6 and 4 change workers, which leaves memory for 5; the other 4 would balance better."""
    assert solved([4.0, 6.0, 5.0, 4.0], [1, 2], [0.0, 3.0], effort(0), kv=[inf, 9.0]) == [1, 0, 1, -1]


def test_the_largest_of_the_oldest_goes_first_where_that_is_asked() -> None:
    """One slot, nothing that balances better than another."""
    for oldest, found in ((1, [0, -1, -1]), (2, [-1, 0, -1]), (3, [-1, -1, 0])):
        assert solved([3.0, 4.0, 5.0], [1], [0.0], effort(0, oldest=oldest)) == found


def test_overdue_requests_keep_their_slots() -> None:
    """9 next to 8 is the best that is left for it, though 2 and 2, or 8 and 8, are even."""
    assert solved([9.0, 2.0, 2.0], [1, 1], [0.0, 0.0], effort(), forced=1) == [0, 1, -1]
    assert solved([9.0, 2.0, 8.0, 8.0], [1, 1], [0.0, 0.0], effort(), forced=1) == [0, -1, 1, -1]
    assert solved([9.0, 2.0, 8.0, 8.0], [1, 1], [0.0, 0.0], effort(), forced=0) == [-1, -1, 0, 1]


# --- searches -----------------------------------------------------------------------------------------------------


def test_more_admitted_requests_are_better_than_a_better_balance() -> None:
    """Memory has room for 7 or for 3 and 3, next to a worker with 10."""
    more = {"kv": [7.0], "floor": [[10.0]], "members": 2.0}
    assert solved([7.0, 3.0, 3.0], [2], [0.0], effort(2, moves=0), **more) == [0, -1, -1]
    assert solved([7.0, 3.0, 3.0], [2], [0.0], effort(3, moves=0), **more) == [-1, 0, 0]


def test_room_that_the_search_has_made_is_filled() -> None:
    """6 fills the memory but lies above the other worker; 3 in its place leaves room for another 3."""
    more = {"kv": [6.0], "floor": [[3.0]], "members": 2.0}
    assert solved([6.0, 3.0, 3.0], [2], [0.0], effort(1, moves=0, rounds=0), **more) == [0, -1, -1]
    assert solved([6.0, 3.0, 3.0], [2], [0.0], effort(1, moves=1, rounds=0), **more) == [-1, 0, 0]


def test_of_equal_requests_the_oldest_goes_unless_more_than_size_counts() -> None:
    """Both have 2 tokens; the later one is worth more."""
    assert solved([2.0, 2.0], [1], [0.0], effort(), tries_all=False, worth=[0.0, 1.0]) == [0, -1]
    assert solved([2.0, 2.0], [1], [0.0], effort(), tries_all=True, worth=[0.0, 1.0]) == [-1, 0]


# --- levels and pairs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "free", "base", "left"),
    [
        # 11 and 12 become 9 and 9: no one change leads there
        ([9.0, 4.0, 7.0, 1.0], [1, 2], [2.0, 4.0], [1.0, 0.0, 0.0]),
        # 13, 12 and 11; then 9, 11 and 11; then 7, 7 and 6
        ([2.0, 3.0, 8.0, 3.0, 4.0, 9.0, 8.0], [1, 1, 1], [5.0, 3.0, 3.0], [3.0, 2.0, 1.0]),
    ],
)
def test_each_round_fits_the_best_plan_to_another_level(
    sizes: list[float], free: list[int], base: list[float], left: list[float]
) -> None:
    found = [idle(sizes, base, solved(sizes, free, base, effort(1, rounds=rounds))) for rounds in (0, 1, 2)]
    assert found == left


def test_levels_do_not_help_where_more_than_sizes_counts_or_moves_are_none_or_all_are_admitted() -> None:
    sizes, free, base = [9.0, 4.0, 7.0, 1.0], [1, 2], [2.0, 4.0]
    assert idle(sizes, base, solved(sizes, free, base, effort(1), tries_all=True)) == 1.0
    greedy = {"floor": [[6.0]], "members": 2.0}
    assert solved([9.0, 3.0], [1], [4.0], effort(2, moves=0), **greedy) == [0, -1], "though 4 + 3 is nearer to 6"
    sizes, free, base = [5.0, 2.0, 5.0, 7.0], [2, 2, 1], [3.0, 4.0, 3.0]
    assert solved(sizes, free, base, effort(2, moves=1)) == [1, 1, 2, 0]
    assert idle(sizes, base, [1, 1, 2, 0]) > idle(sizes, base, [1, 0, 0, 2])


def test_a_level_that_is_no_better_leaves_the_best_plan() -> None:
    """7 on the worker with memory, 2 and 1 on the other: the search of a further level would lose one of them."""
    assert solved([2.0, 1.0, 7.0], [1, 2], [3.0, 3.0], effort(3, moves=2), kv=[inf, 3.0]) == [1, 1, 0]


@pytest.mark.parametrize(("moves", "rounds", "tries_all"), [(0, 2, False), (500, 0, False), (500, 2, True)])
def test_two_slots_are_given_to_the_best_pair_where_levels_help(moves: int, rounds: int, tries_all: bool) -> None:
    """7 and 6 end at 7 and 9, and each is the best next to the other; 6 and 2 end at 6 and 5."""
    sizes, base = [2.0, 6.0, 7.0], [0.0, 3.0]
    assert solved(sizes, [1, 1], base, effort(1)) == [1, 0, -1]
    assert solved(sizes, [1, 1], base, effort(1, moves=1, rounds=1)) == [1, 0, -1]
    assert idle(sizes, base, solved(sizes, [1, 1], base, effort(1, moves, rounds), tries_all=tries_all)) == 2.0


def test_a_worker_with_a_slot_and_no_memory_counts_for_the_best_pair() -> None:
    """It is the heaviest, so all tokens of the two others are gained: 10 and 9 are best, and 5 and 5 would not be."""
    sizes, base = [1.0, 5.0, 5.0, 9.0, 10.0], [0.0, 0.0, 100.0]
    found = solved(sizes, [1, 1, 1], base, effort(), kv=[10.0, 10.0, 0.0])
    assert sorted(found) == [HOLD, HOLD, HOLD, 0, 1] and found[3] != HOLD and found[4] != HOLD


def test_one_move_is_enough_for_levels_and_pairs() -> None:
    """8 and 8; without them 1 move leaves 6 and 4."""
    sizes, base = [3.0, 4.0, 1.0, 6.0], [5.0, 4.0]
    assert idle(sizes, base, solved(sizes, [1, 1], base, effort(1, moves=1, rounds=1))) == 0.0
    assert idle(sizes, base, solved(sizes, [1, 1], base, effort(1, moves=1, rounds=0))) > 0.0


def test_a_pair_does_not_take_the_slot_of_an_overdue_request() -> None:
    sizes = [9.0, 9.0, 4.0, 2.0, 1.0, 5.0]
    assert solved(sizes, [1, 1], [5.0, 3.0], effort(3, rounds=1), forced=1) == [1, 0, -1, -1, -1, -1]
    assert idle(sizes, [5.0, 3.0], solved(sizes, [1, 1], [5.0, 3.0], effort(3, rounds=1))) == 0.0


def test_three_slots_are_no_pair() -> None:
    """8 and 9, of which no level is better."""
    found = solved([3.0, 8.0, 4.0, 2.0], [1, 2], [0.0, 4.0], effort())
    assert idle([3.0, 8.0, 4.0, 2.0], [0.0, 4.0], found) == 1.0
