"""Two free slots: BF-IO against all pairs, and against BalanceRoute's greedy; then the search of one pair by itself."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles import bf_io as oracle
from tests.oracles.bf_io_objective import objective
from tests.routing._routed import assert_equals_oracle, moment
from tests.routing.test_bf_io_plan import QUARTERS, blank
from tests.strategies import examples, routing_views

from evenstep.compiled import as_plain
from evenstep.routing.bf_io import pair as pairs
from evenstep.routing.bf_io.exact import instance
from evenstep.routing.bf_io.plan import Plan
from evenstep.routing.policies.bf_io import BFIO
from evenstep.routing.policies.br_0 import BR0
from evenstep.routing.view import HOLD, RoutingView

value_of, ideal_beside, best_pair = (as_plain(getattr(pairs, name)) for name in ("value_of", "ideal_beside", "best_pair"))


@st.composite
def two_slots(draw: st.DrawFn, horizon: int = 0) -> RoutingView:
    """A pool of 3 or more, two free slots, ends of requests unknown, nothing limited by KV memory."""
    view = draw(routing_views(kv_limited=False, horizon=horizon, waiting=(3, 12)))
    free = np.zeros_like(view.free_slots)
    for _ in range(2):
        free[draw(st.integers(0, free.size - 1))] += 1
    return replace(view, free_slots=free, waiting_steps=np.full(view.waiting_id.size, np.nan))


def imbalance(view: RoutingView, policy: BFIO, worker: np.ndarray) -> float:
    return objective(instance(view, policy.horizon, policy.discount, 0, 0.0), worker)


@given(two_slots())
def test_bf_io_is_never_worse_than_br_0_at_two_slots(view: RoutingView) -> None:
    policy = BFIO(age_limit=0.0)
    found = imbalance(view, policy, policy.route(view).worker)
    for greedy in (BR0(age_limit=0.0), BR0(age_limit=0.0, pick="fit", order="margin")):
        assert found <= imbalance(view, policy, greedy.route(view).worker) + 1e-5


@given(two_slots(horizon=3), st.sampled_from([1.0, 0.9]))
def test_bf_io_is_exact_at_two_slots(view: RoutingView, discount: float) -> None:
    policy = BFIO(horizon=3, discount=discount, age_limit=0.0)
    slots = np.repeat(np.arange(view.load.size), view.free_slots)
    best = np.inf
    for pair in permutations(range(view.waiting_id.size), 2):
        worker = np.full(view.waiting_id.size, HOLD)
        worker[list(pair)] = slots
        best = min(best, imbalance(view, policy, worker))
    assert imbalance(view, policy, policy.route(view).worker) <= best + 1e-4


def test_two_requests_change_together_where_each_alone_would_overtake_the_other() -> None:
    """1227 and 1276 end 93 apart, each the best for the other; 166 and 42 end 18 apart."""
    waiting = [
        2034,
        1227,
        2080,
        2345,
        42,
        3614,
        1683,
        885,
        3284,
        2932,
        2330,
        405,
        3501,
        1606,
        3019,
        1276,
        166,
        2911,
        1511,
        3919,
    ]
    view = moment([1749, 1891], [1, 1], waiting)
    policy = BFIO(age_limit=0.0)
    assert imbalance(view, policy, policy.route(view).worker) == pytest.approx(0.0, abs=18)


@given(two_slots(horizon=2), st.sampled_from([0.0, 1.0]), st.booleans(), st.integers(0, 2**32 - 1))
def test_rule_and_oracle_choose_the_same_two(view: RoutingView, tie: float, limited: bool, seed: int) -> None:
    random = np.random.default_rng(seed)
    view = replace(view, waiting_load=view.waiting_load + random.random(view.waiting_id.size))
    if limited:
        view = replace(view, kv_free=np.floor(random.random(view.load.size) * 2 * view.waiting_load.max()))
    policy = BFIO(horizon=2, discount=0.9, tie_weight=tie, age_limit=0.0)
    assert_equals_oracle(policy, view, oracle.route(policy, view))


# --- the search of one pair, on a plan of two open workers -------------------------------------------------------


def two_open(base: list[list[float]], floor: list[float], sizes: list[float], members: float = 3.0, **more: object) -> Plan:
    """A plan whose two slots are those of workers 0 and 1; the rest of the group, without a slot, reaches to `floor`.

    Steps count the same and newcomers do not grow, unless `more` says other. The best plan so far has ranks 0 and 1.
    """
    plan = blank(2, len(sizes), len(floor), 1, 2)
    plan.base[:], plan.floor[:], plan.size[:], plan.others[:] = base, floor, sizes, floor
    plan.weight[:], plan.members[:], plan.kv[:], plan.speed[:] = 1.0, members, np.inf, 1.0
    plan.best_worker[:], plan.best_request[:] = [0, 1], [0, 1]
    for name, values in more.items():
        getattr(plan, name)[:] = values
    return plan


def envelope_less_loads(plan: Plan, size_o: float, size_p: float) -> float:
    """J by its definition, up to the loads that no pair changes."""
    own = plan.base + plan.growth + np.array([[size_o], [size_p]])
    envelope = np.maximum(own.max(axis=0), plan.floor[0])
    return float((plan.weight * (plan.members[0] * envelope - (size_o + size_p))).sum())


@st.composite
def open_pairs(draw: st.DrawFn) -> Plan:
    """Two to six requests and one to four steps; KV memory may limit either worker."""
    steps, waiting = draw(st.integers(1, 4)), draw(st.integers(2, 6))
    few = st.integers(0, 8).map(float) if draw(st.booleans()) else QUARTERS

    def several(count: int) -> list[float]:
        return draw(st.lists(few, min_size=count, max_size=count))

    sizes = sorted(several(waiting))
    kv = [draw(st.sampled_from([np.inf, *sizes[1:]])) for _ in range(2)]
    weight = draw(st.sampled_from([1.0, 0.5])) ** np.arange(steps)
    base, floor, growth = [several(steps), several(steps)], several(steps), draw(st.sampled_from([0.0, 1.0]))
    members = draw(st.sampled_from([2.0, 3.0, 16.0]))
    if members == 2.0:  # no third worker
        floor = [-np.inf] * steps
    more = {"kv": kv, "weight": weight, "growth": growth * np.arange(steps)}
    return two_open(base, floor, sizes, members, best_request=draw(st.permutations(range(waiting)))[:2], **more)


@pytest.mark.slow
@examples(600, fast=200)
@given(open_pairs())
def test_no_pair_that_fits_is_better_than_the_best(plan: Plan) -> None:
    """The pair that the plan had stays where no other gains."""
    before = plan.best_request.tolist()
    value = {
        (a, b): envelope_less_loads(plan, plan.size[a], plan.size[b])
        for a, b in permutations(range(plan.size.size), 2)
        if (plan.size[a] <= plan.kv[0] and plan.size[b] <= plan.kv[1]) or [a, b] == before
    }
    best_pair(plan)
    a, b = plan.best_request.tolist()
    assert value[a, b] == min(value.values())
    if value[a, b] == value[tuple(before)]:
        assert [a, b] == before


@given(open_pairs(), QUARTERS, QUARTERS)
def test_the_value_of_a_pair_is_the_envelope_less_the_loads(plan: Plan, size_o: float, size_p: float) -> None:
    found = value_of(0, 1, size_o, size_p, plan.members[0], plan)
    assert found == envelope_less_loads(plan, size_o, size_p)


@given(open_pairs(), QUARTERS)
def test_no_size_beside_another_is_better_than_the_ideal_one(plan: Plan, size: float) -> None:
    """J is piecewise linear, so its least value is at one of the sizes that reach to the envelope of a step."""
    ideal = ideal_beside(0, 1, size, plan.members[0], plan)
    top = np.maximum(plan.floor[0], plan.base[0] + plan.growth + size)
    ends = top - plan.base[1] - plan.growth
    values = [envelope_less_loads(plan, size, end) for end in ends]
    assert ideal == min(end for end, value in zip(ends, values, strict=True) if value == min(values))


def test_where_sizes_of_a_range_are_ideal_the_smallest_is() -> None:
    """Two steps and two workers: between 5 and 9, a token lifts one of two envelopes, and costs what it gains."""
    plan = two_open([[9.0, 9.0], [4.0, 0.0]], [-np.inf, -np.inf], [1.0, 2.0], 2.0)
    assert ideal_beside(0, 1, 0.0, 2.0, plan) == 5.0


def a_better_pair_waits(**more: object) -> Plan:
    """The plan has 1 and 2; 5 and 4 would lift both workers to the floor."""
    return two_open([[5.0], [6.0]], [10.0], [1.0, 2.0, 4.0, 5.0], **more)


def test_a_better_pair_takes_the_slots() -> None:
    plan = a_better_pair_waits()
    best_pair(plan)
    assert plan.best_request.tolist() == [3, 2]
    plan = a_better_pair_waits(kv=[4.0, 2.0])
    best_pair(plan)
    assert plan.best_request.tolist() == [2, 1], "what fits exactly fits"


@pytest.mark.parametrize(
    "more",
    [{"tie": 0.5}, {"pull": 0.5}, {"best_worker": [0, 0]}, {"worth": 1.0}, {"speed": [0.8, 1.0]}, {"speed": [1.0, 1.2]}],
    ids=str,
)
def test_no_pair_is_searched_where_more_counts_than_envelopes_of_two_workers(more: dict[str, object]) -> None:
    plan = a_better_pair_waits(**more)
    best_pair(plan)
    assert plan.best_request.tolist() == [0, 1]


def test_workers_of_two_groups_are_no_pair() -> None:
    plan = blank(2, 4, 1, 2, 2)
    plan.base[:], plan.floor[:], plan.size[:], plan.group[:] = [[5.0], [6.0]], 10.0, [1.0, 2.0, 4.0, 5.0], [0, 1]
    plan.weight[:], plan.members[:], plan.kv[:], plan.speed[:] = 1.0, 2.0, np.inf, 1.0
    plan.best_worker[:], plan.best_request[:] = [0, 1], [0, 1]
    best_pair(plan)
    assert plan.best_request.tolist() == [0, 1]


def test_a_pair_as_good_as_that_of_the_plan_does_not_take_its_slots() -> None:
    plan = two_open([[0.0], [0.0]], [10.0], [1.0, 1.0, 3.0], best_request=[2, 1])
    best_pair(plan)
    assert plan.best_request.tolist() == [2, 1]


def test_next_to_its_own_ideal_size_a_request_has_the_next_larger() -> None:
    """Both workers lack 5, of which there is one, and the first has memory for no more: 5.25 is nearer than 4."""
    plan = two_open([[5.0], [5.0]], [10.0], [1.0, 4.0, 5.0, 5.25], kv=[5.0, np.inf])
    best_pair(plan)
    assert plan.best_request.tolist() == [2, 3]


def test_next_to_the_size_below_its_ideal_one_a_request_has_the_next_smaller() -> None:
    """6 next to 6 would be best for the first step. 6 and 4 keep below both envelopes, 4 and 6 lift the second."""
    plan = two_open([[6.0, 1.0], [5.0, 2.0]], [15.0, 7.0], [2.0, 4.0, 6.0], weight=[1.0, 0.25])
    best_pair(plan)
    assert plan.best_request.tolist() == [2, 1]


def test_the_first_of_equal_pairs_is_taken() -> None:
    """3 and 1 as well as 1 and 3 sum up to 4 below the envelope; the plan has 1 and 1."""
    plan = two_open([[0.0], [0.0]], [10.0], [1.0, 1.0, 3.0])
    best_pair(plan)
    assert plan.best_request.tolist() == [0, 2]
