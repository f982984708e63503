"""Chooses the requests of both slots of a BF-IO plan at once, where a decision fills two slots.

For every size on one worker the best size on the other is one of the two around its ideal. So a pass over the pool finds the
best of all pairs.
"""

from __future__ import annotations

import numpy as np

from evenstep.compiled import part
from evenstep.routing.bf_io.gains import TOLERANCE, least_of, sum_of
from evenstep.routing.bf_io.plan import Plan
from evenstep.routing.bf_io.search import rank_from


@part
def value_of(o: int, p: int, size_o: float, size_p: float, members: float, plan: Plan) -> float:
    """J in KV tokens, up to a constant, with one request on each of the open workers o and p of a group; less is better.

    `members` is the size of the group. Set `plan.others` to the envelope without o and p first. `plan.term` is overwritten.
    """
    for h in range(plan.weight.size):
        top = max(plan.others[h], plan.base[o, h] + plan.growth[h] + size_o)
        top = max(top, plan.base[p, h] + plan.growth[h] + size_p)
        plan.term[h] = plan.weight[h] * (members * top - (size_o + size_p))
    return sum_of(plan.term)


@part
def ideal_beside(o: int, p: int, size_o: float, members: float, plan: Plan) -> float:
    """The size in KV tokens on open worker p that minimises J while worker o has a request of `size_o`.

    It is where the slope of J turns positive, at the last margin or before. `members` and `plan.others` are as for
    `value_of`; `plan.margin` is overwritten.
    """
    down, last = 0.0, -np.inf
    for h in range(plan.weight.size):
        top = max(plan.others[h], plan.base[o, h] + plan.growth[h] + size_o)
        plan.margin[h] = top - (plan.base[p, h] + plan.growth[h])
        down += plan.weight[h]
    while down > 0.0:
        at = least_of(plan.margin)
        last = plan.margin[at]
        down -= members * plan.weight[at]
        plan.margin[at] = np.inf
    return last


@part
def best_pair(plan: Plan) -> None:
    """Replace the requests in the two slots of the best plan (`best_request`) by the pair of least J, if that gains.

    It does nothing unless two workers of one group get a request each and only the envelope counts: no targets, tie-breaker,
    speeds or worth. Call it only if the best plan fills two slots and pins neither. The present plan stays as it is.
    """
    o, p = int(plan.best_worker[0]), int(plan.best_worker[1])
    q = plan.group[o]
    more_counts = plan.tie[q] > 0.0 or plan.pull[o] > 0.0 or plan.worth[plan.rank[0]] > 0.0
    if o == p or plan.group[p] != q or more_counts or plan.speed[o] != 1.0 or plan.speed[p] != 1.0:
        return
    members, waiting = float(plan.members[q]), plan.size.size
    for h in range(plan.weight.size):
        plan.others[h] = plan.floor[q, h]
        for third in range(plan.group.size):  # open, but without memory for any request
            if plan.group[third] == q and third not in (o, p):
                plan.others[h] = max(plan.others[h], plan.base[third, h])
    x, y = int(plan.best_request[0]), int(plan.best_request[1])
    best = value_of(o, p, plan.size[x], plan.size[y], members, plan) - TOLERANCE
    for a in range(waiting):
        size = plan.size[a]
        if size > plan.kv[o] or (a > 0 and size == plan.size[a - 1]):
            continue
        ideal = ideal_beside(o, p, size, members, plan)
        start = rank_from(plan.size, min(ideal, plan.kv[p]))
        for side in range(2):
            b = start - 1 + side
            if b == a:
                b += 1 if side == 1 else -1
            if 0 <= b < waiting and plan.size[b] <= plan.kv[p]:
                value = value_of(o, p, size, plan.size[b], members, plan)
                if value < best:
                    best, x, y = value, a, b
    plan.best_request[0], plan.best_request[1] = x, y
