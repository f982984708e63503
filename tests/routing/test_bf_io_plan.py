"""A BF-IO plan: what changes of it gain, next to the objective worked out from its definition."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evenstep.compiled import as_plain
from evenstep.routing.bf_io import gains
from evenstep.routing.bf_io import plan as plans
from evenstep.routing.bf_io.plan import Plan

admit, change, clear, objective, plan_room, survey = (
    as_plain(getattr(plans, name)) for name in ("admit", "change", "clear", "objective", "plan_room", "survey")
)
set_others, sum_of = as_plain(gains.set_others), as_plain(gains.sum_of)
replacement_gain, transfer_gain, ideal_size = (
    as_plain(getattr(gains, name)) for name in ("replacement_gain", "transfer_gain", "ideal_size")
)

#: Numbers of quarters, so that sums are exact.
QUARTERS = st.integers(0, 200).map(lambda k: k / 4.0)


class Case(NamedTuple):
    """A plan whose slots are filled, and what the plan itself does not keep: the loads of workers without a free slot."""

    plan: Plan
    closed: dict[int, np.ndarray]  # group -> float64[workers, n]
    filled: int


def blank(workers: int, waiting: int, steps: int, groups: int, slots: int) -> Plan:
    """A plan of zeros with arrays of these sizes."""
    sizes = plan_room(workers, waiting, steps, waiting + 1)
    plan = Plan(*(np.zeros(size, kind) for size, kind in zip(sizes, map(_kind, Plan._fields), strict=True)))
    return as_plain(plans.cut)(plan, waiting, workers, groups, slots)


def _kind(name: str) -> type:
    integers = (
        "position rank taken kind group place free room share order worker request best_worker best_request quota left"
    )
    return np.int64 if name in integers.split() else np.float64


@st.composite
def filled(draw: st.DrawFn, *, ends: bool = True) -> Case:
    """Up to four open workers in one or two groups, up to six requests, all slots of them filled; `ends` may be known."""
    workers, waiting, steps = draw(st.integers(1, 4)), draw(st.integers(2, 6)), draw(st.integers(1, 6))
    groups = draw(st.integers(1, min(2, workers)))
    slots = draw(st.integers(1, waiting))

    def several(values: st.SearchStrategy[Any], count: int) -> list[Any]:
        return draw(st.lists(values, min_size=count, max_size=count))

    plan = blank(workers, waiting, steps, groups, slots)
    plan.weight[:] = [draw(st.sampled_from([1.0, 0.5])) ** h for h in range(steps)]
    plan.growth[:] = np.arange(steps)
    plan.size[:] = sorted(several(QUARTERS, waiting))
    plan.stays[:] = several(st.sampled_from([1.0, 2.0, 4.0, np.inf]), waiting) if ends else np.inf
    plan.position[:] = draw(st.permutations(range(waiting)))
    plan.rank[plan.position] = np.arange(waiting)
    plan.place[:], plan.group[:] = np.arange(workers), several(st.integers(0, groups - 1), workers)
    plan.free[:], plan.kv[:] = slots, np.inf
    has_ties = draw(st.booleans())
    plan.speed[:] = 1.0 if has_ties else several(st.sampled_from([0.5, 1.0, 2.0]), workers)
    plan.target[:] = several(QUARTERS, workers)
    plan.pull[:] = several(st.sampled_from([0.25, 0.5]), workers) if draw(st.booleans()) else 0.0
    plan.base[:] = np.reshape(several(QUARTERS, workers * steps), (workers, steps))
    plan.tie[:] = several(st.sampled_from([0.25, 0.5]), groups) if has_ties else 0.0
    plan.reward[:] = draw(st.sampled_from([1.0, 0.5, 0.0]))
    closed: dict[int, np.ndarray] = {}
    for q in range(groups):
        count = draw(st.integers(0, 2))
        closed[q] = np.reshape(several(QUARTERS, count * steps), (count, steps))
        plan.members[q] = max(1, count + np.count_nonzero(plan.group == q))
        plan.floor[q] = closed[q].max(axis=0, initial=-np.inf) if count or (plan.group == q).any() else np.zeros(steps)
        plan.base_total[q] = closed[q].sum(axis=0) + plan.base[plan.group == q].sum(axis=0)
    clear(plan)
    chosen = draw(st.permutations(range(waiting)))[:slots]
    for k, r in enumerate(chosen):
        admit(draw(st.integers(0, workers - 1)), r, k, plan)
    for q in range(groups):
        survey(q, plan)
    return Case(plan, closed, slots)


def value(case: Case) -> float:
    """J by its definition, plus the squared deviations and the pull: over the loads of all workers of every group."""
    plan, total = case.plan, 0.0
    for q, closed in case.closed.items():
        loads = np.concatenate([closed, plan.load[plan.group == q]])
        if not len(loads):
            continue
        spread = ((loads - loads.mean(axis=0)) ** 2).sum(axis=0)
        terms = len(loads) * loads.max(axis=0) - plan.reward[q] * loads.sum(axis=0) + plan.tie[q] * spread
        total += float((plan.weight * terms).sum())
    return total + float((plan.pull * (plan.load[:, 0] - plan.target) ** 2).sum())


def copied(case: Case) -> Case:
    """The same, to be changed."""
    return case._replace(plan=Plan(*(array.copy() for array in case.plan)))


def waits(plan: Plan) -> list[int]:
    return np.flatnonzero(plan.taken == 0).tolist()


def assert_consistent(case: Case) -> None:
    """Loads, totals, envelopes and what is left are those of the requests that each worker has."""
    plan = case.plan
    for o in range(plan.place.size):
        own = [int(plan.request[k]) for k in range(case.filled) if plan.worker[k] == o]
        profiles = [np.where(np.arange(plan.growth.size) < plan.stays[r], plan.size[r] + plan.growth, 0.0) for r in own]
        assert plan.load[o].tolist() == (plan.base[o] + plan.speed[o] * np.sum(profiles, axis=0)).tolist()
        assert plan.room[o] == plan.free[o] - len(own)
    for q, closed in case.closed.items():
        loads = np.concatenate([closed, plan.load[plan.group == q]])
        if len(loads):
            assert plan.total[q].tolist() == loads.sum(axis=0).tolist()
            assert plan.envelope[q].tolist() == loads.max(axis=0).tolist()
        if (plan.group == q).any():
            runner_up = np.sort(np.concatenate([loads, np.full((1, plan.growth.size), -np.inf)]), axis=0)[-2]
            open_ = plan.load[plan.group == q]
            for h in range(plan.growth.size):
                if open_[:, h].max() >= plan.envelope[q, h]:  # asked about only for a worker at the top
                    assert plan.runner_up[q, h] == runner_up[h]


@given(filled())
def test_admissions_leave_loads_and_envelopes_of_their_requests(case: Case) -> None:
    assert_consistent(case)


@given(filled(), st.data())
def test_what_set_others_leaves_out_is_the_worker_at_hand(case: Case, data: st.DataObject) -> None:
    plan = case.plan
    o = data.draw(st.integers(0, plan.place.size - 1))
    others = np.concatenate(
        [case.closed[int(plan.group[o])], plan.load[(plan.group == plan.group[o]) & (np.arange(plan.place.size) != o)]]
    )
    above = set_others(o, plan)
    assert plan.others.tolist() == others.max(axis=0, initial=-np.inf).tolist()
    assert above == bool((plan.load[o] > plan.others).any())


@given(filled(), st.data())
def test_a_replacement_gains_what_the_objective_falls_by(case: Case, data: st.DataObject) -> None:
    assume(waits(case.plan))
    into, k = data.draw(st.sampled_from(waits(case.plan))), data.draw(st.integers(0, case.filled - 1))
    after, plan = copied(case), case.plan
    o, out = int(plan.worker[k]), int(plan.request[k])
    change(o, out, into, after.plan)
    after.plan.request[k] = into
    assert_consistent(after)
    assert objective(after.plan) - objective(plan) == pytest.approx(value(after) - value(case))
    set_others(o, plan)
    gain = replacement_gain(o, plan.size[out], plan.stays[out], plan.size[into], plan.stays[into], plan)
    assert gain == pytest.approx(value(case) - value(after))


@given(filled(), st.data())
def test_a_transfer_gains_what_the_objective_falls_by_or_less(case: Case, data: st.DataObject) -> None:
    plan = case.plan
    k = data.draw(st.integers(0, case.filled - 1))
    o, out = int(plan.worker[k]), int(plan.request[k])
    elsewhere = [p for p in range(plan.place.size) if p != o]
    assume(elsewhere)
    p = data.draw(st.sampled_from(elsewhere))
    theirs = [m for m in range(case.filled) if plan.worker[m] == p and plan.size[plan.request[m]] <= plan.size[out]]
    swap = data.draw(st.sampled_from([-1, *theirs]))
    back = int(plan.request[swap]) if swap >= 0 else -1
    after = copied(case)
    change(o, out, back, after.plan)
    change(p, back, out, after.plan)
    after.plan.worker[k] = p
    if swap >= 0:
        after.plan.worker[swap] = o
    assert_consistent(after)
    set_others(o, plan)
    gain, fall = transfer_gain(o, p, out, back, plan), value(case) - value(after)
    if back < 0 or plan.stays[back] <= plan.stays[out]:
        assert gain == pytest.approx(fall)
    else:
        assert gain <= fall + 1e-6


@given(filled(), st.data())
def test_no_size_gains_more_than_the_ideal_one(case: Case, data: st.DataObject) -> None:
    plan = case.plan
    k = data.draw(st.integers(0, case.filled - 1))
    o, out = int(plan.worker[k]), int(plan.request[k])

    def gain(size: float) -> float:
        return replacement_gain(o, plan.size[out], plan.stays[out], size, np.inf, plan)

    set_others(o, plan)
    ideal = ideal_size(o, plan.size[out], plan.stays[out], plan)
    most = 4_000.0  # beyond the largest load
    best = gain(min(max(ideal, -most), most))
    for size in (*np.linspace(-200.0, 200.0, 41), ideal - 1.0, ideal + 1.0):
        if -most <= size <= most:
            assert gain(size) <= best + 1e-6


@pytest.mark.parametrize(
    ("terms", "found"),
    [
        ([1e16, 1.0, 1.0, 1.0, -1e16], 3.0),
        ([1.0, 1e16, 2.0, 4.0, 8.0, -1e16], 15.0),
        ([1.0, 2.0, 1e16, 4.0, 8.0, 16.0, -1e16], 31.0),
        ([1.0, 2.0, 4.0, 1e16, 8.0, 16.0, 32.0, -1e16], 63.0),
        ([1e16, -1e16, 1.0, 0.0], 1.0),
        ([1.0, 0.0, 1e16, -1e16], 1.0),
        ([], 0.0),
    ],
)
def test_terms_are_added_in_four_lanes(terms: list[float], found: float) -> None:
    """In another order, a one is lost next to 1e16."""
    assert sum_of(np.array(terms, float)) == found
