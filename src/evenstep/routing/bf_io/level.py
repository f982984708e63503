"""Levels of BF-IO: the best plan fitted anew below an envelope some tokens higher or lower.

A local optimum is often right but for its level: all workers would have to move at once. So the envelope of the best
plan is shifted to where some worker would be filled exactly. Every worker is filled up to it, tightest first. A further
search starts from the best level.
"""

from __future__ import annotations

import numpy as np

from evenstep.compiled import part
from evenstep.routing.bf_io.plan import Plan, admit, clear, objective, survey
from evenstep.routing.bf_io.search import rank_from, waiting_below, waiting_from

#: Levels tried around the envelope of a plan.
LEVELS = 20


@part
def set_reach(pinned: int, filled: int, plan: Plan) -> int:
    """Set `share`, the slots that each worker has to fit anew, and `reach`, how far it lies below the envelope without them.

    The best plan has `filled` slots; the requests in its first `pinned` stay and count in the load.

    Returns:
        How many workers have slots to fit; they are listed in `order`, tightest first.
    """
    for o in range(plan.place.size):
        plan.share[o], plan.reach[o] = 0, np.inf
    for k in range(filled):
        plan.share[plan.best_worker[k]] += 1
    for o in range(plan.place.size):
        for h in range(plan.weight.size):
            rest = plan.base[o, h] + plan.share[o] * plan.growth[h] * plan.speed[o]
            plan.reach[o] = min(plan.reach[o], plan.best_envelope[plan.group[o], h] - rest)
    for k in range(pinned):
        o = int(plan.best_worker[k])
        plan.share[o] -= 1
        plan.reach[o] -= plan.speed[o] * plan.size[plan.best_request[k]]
    fitted = 0
    for o in range(plan.place.size):
        if plan.share[o] > 0:
            to = fitted
            while to > 0 and plan.reach[plan.order[to - 1]] > plan.reach[o]:
                plan.order[to] = plan.order[to - 1]
                to -= 1
            plan.order[to] = o
            fitted += 1
    return fitted


@part
def fit(level: float, fitted: int, pinned: int, plan: Plan) -> float:
    """Fill every worker up to a level, tightest first. Returns the objective of the new plan; inf if something did not fit.

    The present plan is overwritten. Each slot takes the largest waiting request within its even part of what its worker
    lacks to the level, or without one the smallest above that.

    Args:
        level: tokens above the envelope of the best plan; negative = below it.
        fitted: workers to fill, from `set_reach`.
        pinned: the first `pinned` slots of the best plan stay as they are.
    """
    clear(plan)
    for k in range(pinned):
        admit(int(plan.best_worker[k]), int(plan.best_request[k]), k, plan)
    k = pinned
    for j in range(fitted):
        o = int(plan.order[j])
        reach, speed = plan.reach[o] + level, plan.speed[o]
        for share in range(plan.share[o], 0, -1):
            above = rank_from(plan.size, min(reach / share / speed, plan.kv_left[o]), beyond=True)
            r = waiting_below(above, plan.taken)
            if r < 0:
                r = waiting_from(above, plan.taken)
            if r == plan.size.size or plan.size[r] > plan.kv_left[o]:
                return np.inf
            admit(o, r, k, plan)
            reach -= speed * plan.size[r]
            k += 1
    for q in range(plan.members.size):
        survey(q, plan)
    return objective(plan)


@part
def fit_best_level(pinned: int, filled: int, plan: Plan) -> bool:
    """Fit the best plan to several levels, and leave the one of least objective in place. Returns whether any fitted.

    Of the `filled` slots the first `pinned` stay. If none fitted, the plan in place is of no use.
    """
    fitted = set_reach(pinned, filled, plan)
    best, best_value = 0.0, np.inf
    tried = min(4 * (filled - pinned), LEVELS)
    for j in range(tried + 1):
        level, is_level = best, best_value < np.inf  # the last turn fits the best level again
        if j < tried:
            level, is_level = shifted(j, fitted, plan)
        if is_level:
            value = fit(level, fitted, pinned, plan)
            if value < best_value:
                best, best_value = level, value
    return best_value < np.inf


@part
def shifted(j: int, fitted: int, plan: Plan) -> tuple[float, bool]:
    """The j-th level to try, for `fit`, and whether it exists: False if no size of the pool lies so far from the ideal.

    At this level one worker is filled exactly by requests of one size; j goes through the workers, then through sizes.
    """
    o, ring = int(plan.order[j % fitted]), j // fitted
    share, speed = plan.share[o], plan.speed[o]
    r = rank_from(plan.size, plan.reach[o] / share / speed) + (ring // 2 if ring % 2 == 0 else -1 - ring // 2)
    if r < 0 or r >= plan.size.size:
        return 0.0, False
    return share * (speed * plan.size[r]) - plan.reach[o], True
