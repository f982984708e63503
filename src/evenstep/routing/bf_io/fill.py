"""Fills the slots of a BF-IO plan: each request goes to the worker with the least burden and room for it."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import Table, part
from evenstep.routing.bf_io.plan import Plan, admit, clear, profile, survey

#: Starting orders; the third is smallest first.
LARGEST, ARRIVAL = 0, 1


@part
def weigh(load: Table, plan: Plan) -> None:
    """Set `plan.burden` of each open worker to the weighted sum of its loads over the steps; `load` is float64[O, n]."""
    for o in range(plan.place.size):
        burden = 0.0
        for h in range(plan.weight.size):
            burden += plan.weight[h] * load[o, h]
        plan.burden[o] = burden


@part
def place(r: int, k: int, plan: Plan) -> int:
    """Put the request of rank r in slot k, on the least burdened worker with room. Returns 1; 0 if no worker has room.

    Ties go to the lowest index. Loads and burdens are updated, the envelope is not: call `survey` later.
    """
    to, least, size = -1, np.inf, plan.size[r]
    for o in range(plan.place.size):
        if plan.room[o] > 0 and size <= plan.kv_left[o] and plan.burden[o] < least:
            to, least = o, plan.burden[o]
    if to < 0:
        return 0
    admit(to, r, k, plan)
    for h in range(plan.weight.size):
        load = plan.speed[to] * profile(size, plan.stays[r], plan.growth[h], h)
        plan.burden[to] += plan.weight[h] * load
    return 1


@part
def fill(start: int, forced: int, classes: int, oldest: int, plan: Plan) -> tuple[int, int]:
    """Clear the plan, and fill its slots: overdue requests first, then the others in a starting order.

    Each request goes to the least burdened worker with room, and stays out if there is none. Others than overdue requests
    keep to the quota of their class, unless slots would stay empty. Returns the number of overdue requests admitted, which
    have the first slots, and of all admitted.

    Args:
        start: starting order: `LARGEST`, `ARRIVAL`, else smallest first.
        forced: the oldest `forced` requests are overdue.
        classes: number of classes with a quota.
        oldest: if above 1, the largest fitting one of this many oldest waiting requests goes next, as long as one fits. The
            starting order applies to the rest.
    """
    count, waiting = plan.worker.size, plan.size.size
    clear(plan)
    weigh(plan.base, plan)
    for c in range(classes):
        plan.left[c] = plan.quota[c]
    filled = 0
    for i in range(forced):
        filled += place_in_quota(int(plan.rank[i]), filled, plan)
    pinned = filled
    while oldest > 1 and filled < count:
        r = largest_of(oldest, plan)
        if r < 0:
            break
        filled += place_in_quota(r, filled, plan)
    for turn in range(waiting if classes == 1 else 2 * waiting):
        if filled == count:
            break
        i = turn if turn < waiting else turn - waiting
        r = waiting - 1 - i if start == LARGEST else int(plan.rank[i]) if start == ARRIVAL else i
        if plan.taken[r] == 0 and (turn >= waiting or plan.left[plan.kind[r]] > 0):
            filled += place_in_quota(r, filled, plan)
    for q in range(plan.members.size):
        survey(q, plan)
    return pinned, filled


@part
def largest_of(oldest: int, plan: Plan) -> int:
    """The rank of the largest request that fits among the `oldest` waiting ones, the oldest of equals; -1 if none fits.

    It fits if its class has quota left and some worker has a slot and memory for it.
    """
    most, found, i = 0.0, -1, 0
    for o in range(plan.place.size):
        if plan.room[o] > 0:
            most = max(most, plan.kv_left[o])
    while i < plan.rank.size and oldest > 0:
        r = int(plan.rank[i])
        if plan.taken[r] == 0:
            oldest -= 1
            if plan.size[r] <= most and plan.left[plan.kind[r]] > 0 and (found < 0 or plan.size[r] > plan.size[found]):
                found = r
        i += 1
    return found


@part
def place_in_quota(r: int, k: int, plan: Plan) -> int:
    """Call `place`, and take an admitted request off `plan.left` of its class; returns 1, or 0 if no worker has room."""
    placed = place(r, k, plan)
    plan.left[plan.kind[r]] = max(plan.left[plan.kind[r]] - placed, 0)
    return placed


@part
def refill(filled: int, plan: Plan) -> int:
    """Give empty slots to the oldest waiting requests that fit, without quotas; returns how many slots are filled in all."""
    before, count = filled, plan.worker.size
    if filled == count:
        return filled
    weigh(plan.load, plan)
    for i in range(plan.size.size):
        if filled == count:
            break
        r = int(plan.rank[i])
        if plan.taken[r] == 0:
            filled += place(r, filled, plan)
    for q in range(plan.members.size if filled > before else 0):
        survey(q, plan)
    return filled
