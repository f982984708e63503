"""Sets up a plan before any admission, from a view: groups, weights of the steps, loads of the workers, requests by size."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import Floats, Ints, ReadFloats, ReadTable, Table, part
from evenstep.routing.bf_io.plan import Plan
from evenstep.routing.rules import RuleView
from evenstep.routing.sorting import sort


@part
def count_open(view: RuleView) -> tuple[int, int]:
    """Return the sum of all free slots, and the number of workers with a free slot."""
    free, opened = 0, 0
    for g in range(view.free_slots.size):
        if view.free_slots[g] > 0:
            free += view.free_slots[g]
            opened += 1
    return free, opened


@part
def number_groups(view: RuleView, number: Ints) -> int:
    """Number the groups from 0 in order of appearance; writes each worker's to `number`, int64[G], and returns the count."""
    groups = 0
    for g in range(view.group.size):
        number[g] = -1
        if g > 0 and view.group[g - 1] == view.group[g]:
            number[g] = number[g - 1]
            continue
        for other in range(g):
            if view.group[other] == view.group[g]:
                number[g] = number[other]
                break
        if number[g] < 0:
            number[g] = groups
            groups += 1
    return groups


@part
def set_steps(discount: float, growth: ReadFloats, weights: Floats, gains: Floats) -> None:
    """For each step h from 0, set `weights[h]` to discount ** h and `gains[h]` to `growth[h]`.

    `growth[h]` is the KV tokens a newcomer has gained after h steps. If it is nan (profiles differ by request) or missing,
    `gains[h]` is 0.
    """
    weight = 1.0
    for h in range(weights.size):
        weights[h] = weight
        weight *= discount
        gains[h] = growth[h] if h < growth.size and not np.isnan(growth[h]) else 0.0


@part
def set_workers(
    number: Ints, speeds: Floats, ahead: ReadTable | Table, tie_weight: float, view: RuleView, plan: Plan
) -> None:
    """Set the arrays of the plan that describe workers and groups before any admission.

    `base` holds the loads of open workers, `floor` the largest of the others, `base_total` the sum of all. Weights of
    targets and of cached tokens are 0. `load`, `room`, `kv_left` and `envelope` are left to `fill.fill`. Call it after
    `set_steps`.

    Args:
        number: int64[G], the group of each worker, numbered from 0.
        speeds: float64[G], cost of a token on each worker.
        ahead: float64[G, n], projected loads; for steps without a column, the load now is used.
        tie_weight: weight of the squared deviation from the group's mean, see `BFIO`; 0 = no tie-breaker.
    """
    n = plan.weight.size
    plan.members[:], plan.reward[:] = 0.0, 1.0
    plan.floor[:], plan.base_total[:] = -np.inf, 0.0
    o = 0
    for g in range(view.load.size):
        q = number[g]
        is_open = view.free_slots[g] > 0
        plan.members[q] += 1.0
        queued, queued_load = float(view.queued[g]), view.queued_load[g]
        if is_open:
            plan.group[o], plan.place[o], plan.free[o] = q, g, view.free_slots[g]
            plan.kv[o], plan.speed[o] = view.kv_free[g], speeds[g]
            plan.target[o], plan.pull[o], plan.hit[o] = 0.0, 0.0, 0.0
        for h in range(n):
            projected = ahead[g, h] if h < ahead.shape[1] else view.load[g]
            load = speeds[g] * (projected + (queued_load + queued * plan.growth[h]))
            plan.base_total[q, h] += load
            if is_open:
                plan.base[o, h] = load
            elif load > plan.floor[q, h]:
                plan.floor[q, h] = load
        if is_open:
            o += 1
    for q in range(plan.members.size):
        mean = plan.base_total[q, 0] / plan.members[q]
        plan.tie[q] = tie_weight / max(0.01 * mean, 1.0)


@part
def set_requests(steps: int, view: RuleView, plan: Plan) -> bool:
    """Set the plan's requests, the oldest of the pool, sorted by size; returns True if any is known to end within `steps`.

    Of equal sizes the older goes first. All get class 0 and worth 0. `stays` is inf where the expected output is unknown.
    """
    for i in range(plan.size.size):
        plan.size[i] = view.waiting_load[i]
        plan.position[i] = i
    sort(plan.size, plan.position, plan.stays, plan.rank)
    ends_known = False
    for r in range(plan.size.size):
        i = plan.position[r]
        plan.rank[i], plan.kind[r], plan.worth[r] = r, 0, 0.0
        stays = view.waiting_steps[i]
        plan.stays[r] = np.inf if np.isnan(stays) else stays
        ends_known = ends_known or plan.stays[r] < steps
    return ends_known
