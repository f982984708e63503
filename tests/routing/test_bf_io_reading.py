"""What a BF-IO plan starts from: groups, steps, loads of the workers and requests by size, all read from a view."""

from __future__ import annotations

import numpy as np
import pytest
from tests.routing._routed import moment, rule_view
from tests.routing.test_bf_io_plan import blank

from evenstep.compiled import as_plain
from evenstep.routing.bf_io import reading
from evenstep.routing.bf_io.plan import Plan
from evenstep.routing.view import RoutingView

count_open, number_groups, set_steps = (
    as_plain(getattr(reading, name)) for name in ("count_open", "number_groups", "set_steps")
)
set_workers, set_requests = (as_plain(getattr(reading, name)) for name in ("set_workers", "set_requests"))
nan, inf = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("free", "counts"), [([2, 0, 1], (3, 2)), ([0, 0, 0], (0, 0)), ([1, 1, 1], (3, 3)), ([0, 0, 9], (9, 1))]
)
def test_free_slots_are_added_up_and_workers_that_have_one_counted(free: list[int], counts: tuple[int, int]) -> None:
    assert count_open(rule_view(moment([1.0, 2.0, 3.0], free, [5.0]))) == counts


@pytest.mark.parametrize(
    ("groups", "numbers", "count"),
    [
        ([7, 7, 3, 7, 3, 9, 7], [0, 0, 1, 0, 1, 2, 0], 3),
        ([0, 5, 5, 5, 0], [0, 1, 1, 1, 0], 2),
        ([4, 9, 2, 9], [0, 1, 2, 1], 3),
        ([2, 1, 0], [0, 1, 2], 3),
        ([3, 3], [0, 0], 1),
    ],
)
def test_groups_are_numbered_in_order_of_appearance(groups: list[int], numbers: list[int], count: int) -> None:
    view = moment([1.0] * len(groups), [1] * len(groups), [5.0], group=groups)
    number = np.full(len(groups), -7)
    assert number_groups(rule_view(view), number) == count
    assert number.tolist() == numbers


def test_each_step_weighs_the_discount_of_the_one_before_and_unknown_growth_counts_as_none() -> None:
    weights, gains = np.full(5, -7.0), np.full(5, -7.0)
    set_steps(0.5, np.array([0.0, nan, 2.0, 3.0]), weights, gains)
    assert weights.tolist() == [1.0, 0.5, 0.25, 0.125, 0.0625]
    assert gains.tolist() == [0.0, 0.0, 2.0, 3.0, 0.0]


def plan_for(view: RoutingView, steps: int = 1, groups: int = 1, growth: list[float] | None = None) -> Plan:
    """A plan of room for the view; what its arrays held before does not matter."""
    opened = int((view.free_slots > 0).sum())
    plan = blank(opened, view.waiting_id.size, steps, groups, 1)
    for array in plan:
        array[...] = 77
    plan.growth[:] = [0.0] * steps if growth is None else growth
    return plan


def test_open_workers_keep_their_loads_and_the_others_make_up_the_floor() -> None:
    """Workers 1, 3 and 5 are open, of groups 1, 0 and 0; 0 and 4 make up the floor of group 0, 2 that of group 1."""
    load, free, kv_free = [10.0, 20.0, 30.0, 40.0, 15.0, 5.0], [0, 2, 0, 3, 0, 1], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    view = moment(load, free, [5.0], kv_free=kv_free)
    plan = plan_for(view, groups=2)
    set_workers(np.array([0, 1, 1, 0, 0, 0]), np.ones(6), view.projections, 0.0, rule_view(view), plan)
    assert plan.place.tolist() == [1, 3, 5]
    assert plan.group.tolist() == [1, 0, 0]
    assert plan.free.tolist() == [2, 3, 1]
    assert plan.kv.tolist() == [2.0, 4.0, 6.0]
    assert plan.speed.tolist() == [1.0, 1.0, 1.0]
    assert plan.base.tolist() == [[20.0], [40.0], [5.0]]
    assert plan.members.tolist() == [4.0, 2.0]
    assert plan.floor.tolist() == [[15.0], [30.0]]
    assert plan.base_total.tolist() == [[70.0], [50.0]]
    assert plan.reward.tolist() == [1.0, 1.0]
    assert plan.tie.tolist() == [0.0, 0.0]


def test_no_worker_is_drawn_to_a_target_and_no_cached_token_has_worth() -> None:
    view = moment([10.0, 20.0], [1, 1], [5.0])
    plan = plan_for(view)
    set_workers(np.zeros(2, int), np.ones(2), view.projections, 0.0, rule_view(view), plan)
    assert (plan.target.tolist(), plan.pull.tolist(), plan.hit.tolist()) == ([0.0, 0.0], [0.0, 0.0], [0.0, 0.0])
    assert plan.floor.tolist() == [[-inf]], "without a closed worker there is no floor"


def test_loads_are_projections_with_what_is_queued_and_its_growth_at_the_speed_of_the_worker() -> None:
    """Worker 0 has three queued of 7 tokens together: 10 + 7 now, 12 + 7 + 3 and 5 + 7 + 6 ahead; it is half as fast."""
    view = moment(
        [10.0, 4.0],
        [1, 0],
        [5.0],
        projections=[[10.0, 12.0, 5.0], [4.0, 6.0, 8.0]],
        queued=[3, 0],
        queued_load=[7.0, 0.0],
    )
    plan = plan_for(view, steps=3, growth=[0.0, 1.0, 2.0])
    set_workers(np.zeros(2, int), np.array([2.0, 0.5]), view.projections, 0.0, rule_view(view), plan)
    assert plan.base.tolist() == [[34.0, 44.0, 36.0]]
    assert plan.floor.tolist() == [[2.0, 3.0, 4.0]]
    assert plan.base_total.tolist() == [[36.0, 47.0, 40.0]]
    assert plan.speed.tolist() == [2.0]


def test_the_load_of_now_stands_for_steps_that_are_not_projected() -> None:
    view = moment([10.0, 4.0], [1, 0], [5.0])
    plan = plan_for(view, steps=3)
    set_workers(np.zeros(2, int), np.ones(2), np.array([[3.0, 6.0], [2.0, 9.0]]), 0.0, rule_view(view), plan)
    assert plan.base.tolist() == [[3.0, 6.0, 10.0]]
    assert plan.floor.tolist() == [[2.0, 9.0, 4.0]]
    set_workers(np.zeros(2, int), np.ones(2), np.zeros((2, 0)), 0.0, rule_view(view), plan)
    assert plan.base.tolist() == [[10.0, 10.0, 10.0]]


def test_a_squared_deviation_is_worth_what_it_is_at_one_percent_of_the_mean_of_this_step() -> None:
    """Group 0 has a mean of 300 now, so of 3 at one percent. Group 1 has one of 50, which counts as one token at least."""
    view = moment([200.0, 400.0, 50.0], [1, 1, 1], [5.0], projections=[[200.0, 0.0], [400.0, 0.0], [50.0, 0.0]])
    plan = plan_for(view, steps=2, groups=2)
    set_workers(np.array([0, 0, 1]), np.ones(3), view.projections, 6.0, rule_view(view), plan)
    assert plan.tie.tolist() == [2.0, 6.0]


def test_requests_go_by_size_and_the_older_first_among_equals() -> None:
    view = moment([1.0], [1], [4.0, 9.0, 4.0, 1.0], waiting_steps=[6.0, nan, 3.0, 5.0])
    plan = plan_for(view)
    assert not set_requests(3, rule_view(view), plan)
    assert plan.size.tolist() == [1.0, 4.0, 4.0, 9.0]
    assert plan.position.tolist() == [3, 0, 2, 1]
    assert plan.rank.tolist() == [1, 3, 2, 0]
    assert plan.stays.tolist() == [5.0, 6.0, 3.0, inf]
    assert (plan.worth.tolist(), plan.kind.tolist()) == ([0.0] * 4, [0] * 4)
    assert set_requests(4, rule_view(view), plan), "one ends after 3 steps"


def test_no_end_is_known_of_an_empty_pool_or_of_requests_without_steps() -> None:
    for waiting in ([], [4.0, 2.0]):
        view = moment([1.0], [1], waiting)
        assert not set_requests(100, rule_view(view), plan_for(view))
