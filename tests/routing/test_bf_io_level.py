"""Levels of a BF-IO plan: every worker filled up to one envelope, tightest first."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.routing.test_bf_io_plan import Case, blank, filled

from evenstep.compiled import as_plain
from evenstep.routing.bf_io import level as levels
from evenstep.routing.bf_io import plan as plans
from evenstep.routing.bf_io.plan import Plan

set_reach, fit, fit_best_level, shifted = (
    as_plain(getattr(levels, name)) for name in ("set_reach", "fit", "fit_best_level", "shifted")
)
keep, objective = as_plain(plans.keep), as_plain(plans.objective)


def at_rest(sizes: list[float], base: list[list[float]], slots: list[int], envelope: list[float], **more: object) -> Plan:
    """One group. Worker o has slots[o] of the best plan's slots; its requests are not chosen yet."""
    plan = blank(len(base), len(sizes), len(base[0]), 1, sum(slots))
    plan.size[:], plan.stays[:], plan.base[:], plan.best_envelope[0] = sizes, np.inf, base, envelope
    plan.weight[:], plan.growth[:], plan.speed[:] = 1.0, np.arange(len(base[0])), 1.0
    plan.members[:], plan.floor[:], plan.kv[:], plan.free[:] = len(base), -np.inf, np.inf, slots
    plan.place[:], plan.base_total[0] = np.arange(len(base)), np.sum(base, axis=0)
    plan.best_worker[:] = np.repeat(np.arange(len(base)), slots)
    plan.best_request[:] = range(sum(slots))
    for name, values in more.items():
        getattr(plan, name)[:] = values
    return plan


def given_to(plan: Plan, worker: int) -> list[float]:
    """Sizes of the requests that a worker has, in order of admission."""
    return [float(plan.size[plan.request[k]]) for k in np.flatnonzero(plan.worker == worker)]


def test_reach_is_the_least_room_below_the_envelope_at_any_step() -> None:
    """At step 1 two newcomers have gained a token each: 12 - (5 + 2) = 5, and at step 0 it is 10 - 2."""
    plan = at_rest([1.0, 2.0], [[2.0, 5.0]], [2], [10.0, 12.0])
    assert (set_reach(0, 2, plan), plan.reach[0], plan.share[0]) == (1, 5.0, 2)


def test_an_overdue_request_uses_up_reach_and_is_not_fitted_anew() -> None:
    plan = at_rest([1.0, 2.0], [[2.0]], [2], [10.0], speed=[2.0])
    assert (set_reach(1, 2, plan), plan.reach[0], plan.share[0]) == (1, 6.0, 1)
    assert set_reach(2, 2, plan) == 0


def test_workers_come_tightest_first() -> None:
    plan = at_rest([1.0, 2.0, 3.0], [[2.0], [7.0], [4.0]], [1, 1, 1], [10.0])
    assert set_reach(0, 3, plan) == 3
    assert plan.order.tolist() == [1, 2, 0]


@pytest.mark.parametrize(("level", "sizes"), [(0.0, [3.0, 5.0]), (2.0, [5.0, 3.0]), (-4.0, [1.0, 3.0]), (9.0, [5.0, 9.0])])
def test_each_slot_gets_the_largest_that_leaves_the_others_as_much(level: float, sizes: list[float]) -> None:
    """Eight tokens of reach: four a slot, so 3; then the five that are left."""
    plan = at_rest([1.0, 3.0, 5.0, 9.0], [[2.0]], [2], [10.0])
    fitted = set_reach(0, 2, plan)
    fit(level, fitted, 0, plan)
    assert given_to(plan, 0) == sizes


def test_where_nothing_is_as_small_the_smallest_goes() -> None:
    plan = at_rest([6.0, 7.0], [[2.0]], [1], [5.0])
    assert fit(0.0, set_reach(0, 1, plan), 0, plan) == 8.0
    assert given_to(plan, 0) == [6.0]


def test_a_faster_worker_takes_larger_requests() -> None:
    plan = at_rest([2.0, 4.0, 9.0], [[0.0], [0.0]], [1, 1], [4.0], speed=[1.0, 0.5])
    fit(0.0, set_reach(0, 2, plan), 0, plan)
    assert (given_to(plan, 0), given_to(plan, 1)) == ([4.0], [2.0])
    plan = at_rest([2.0, 4.0, 8.0, 9.0], [[0.0], [0.0]], [1, 1], [4.0], speed=[1.0, 0.5])
    fit(0.0, set_reach(0, 2, plan), 0, plan)
    assert (given_to(plan, 0), given_to(plan, 1)) == ([4.0], [8.0])


def test_kv_memory_limits_what_is_fitted() -> None:
    plan = at_rest([1.0, 3.0, 5.0], [[0.0]], [1], [5.0], kv=[4.0])
    fit(0.0, set_reach(0, 1, plan), 0, plan)
    assert given_to(plan, 0) == [3.0]
    plan = at_rest([6.0, 7.0], [[0.0]], [1], [9.0], kv=[5.0])
    assert fit(0.0, set_reach(0, 1, plan), 0, plan) == math.inf
    assert not fit_best_level(0, 1, plan)


def test_an_overdue_request_stays_with_its_worker() -> None:
    plan = at_rest([1.0, 3.0, 5.0], [[0.0]], [2], [9.0], best_request=[2, 0])
    fit(0.0, set_reach(1, 2, plan), 1, plan)
    assert given_to(plan, 0) == [5.0, 3.0]


@given(filled(), st.integers(0, 1))
def test_the_best_level_is_as_good_as_any_that_is_tried(case: Case, pinned: int) -> None:
    """And what stays in place is its plan: all slots are filled, the overdue ones as before."""
    plan = case.plan
    keep(case.filled, plan)
    was = plan.best_worker[:pinned].tolist(), plan.best_request[:pinned].tolist()
    fitted = set_reach(pinned, case.filled, plan)
    found = [math.inf]
    for j in range(min(4 * (case.filled - pinned), levels.LEVELS)):
        level, is_level = shifted(j, fitted, plan)
        if is_level:
            assert is_exact(level, int(plan.order[j % fitted]), plan)
            found.append(fit(level, fitted, pinned, plan))
    assert fit_best_level(pinned, case.filled, plan) == (min(found) < math.inf)
    if min(found) < math.inf:
        assert objective(plan) == pytest.approx(min(found))
        assert len(set(plan.request.tolist())) == case.filled
        assert (plan.worker[:pinned].tolist(), plan.request[:pinned].tolist()) == was


def is_exact(level: float, o: int, plan: Plan) -> bool:
    """Whether requests of one size fill the worker exactly at this level."""
    return bool(np.isclose((plan.reach[o] + level) / plan.share[o] / plan.speed[o], plan.size).any())


def test_levels_go_out_from_the_size_that_fits_now_by_turns_up_and_down() -> None:
    """One slot with a reach of 4: the next size from it on is 5, the one below 3, then 9 and 1, then 12."""
    plan = at_rest([1.0, 3.0, 5.0, 9.0, 12.0], [[2.0]], [1], [6.0])
    fitted = set_reach(0, 1, plan)
    assert [shifted(j, fitted, plan) for j in range(4)] == [(1.0, True), (-1.0, True), (5.0, True), (-3.0, True)]
    assert [shifted(j, fitted, plan) for j in (4, 5)] == [(8.0, True), (0.0, False)]


def test_levels_are_those_of_the_tightest_worker_then_of_the_next() -> None:
    """Two slots of a slow worker, with a reach of 8: two of 2 fill it. The fast one has 9, for two of 4 at most."""
    plan = at_rest([1.0, 2.0, 3.0, 4.0], [[2.0], [1.0]], [2, 2], [10.0], speed=[2.0, 1.0])
    fitted = set_reach(0, 4, plan)
    assert [shifted(j, fitted, plan) for j in range(4)] == [(0.0, True), (0.0, False), (-4.0, True), (-1.0, True)]
