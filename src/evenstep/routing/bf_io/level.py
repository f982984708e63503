"""Levels of BF-IO: plans refitted to an envelope some tokens above or below that of the best plan.

A local optimum is often right except for its level: all workers would have to move at once. So the envelope of the best plan
is shifted to where some worker would be filled exactly. Every worker is filled up to it, tightest first. A further search
starts from the best level.
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
    """Prepare `fit`: set `plan.share`, the slots to refill on each worker, and `plan.reach`, its room up to the envelope.

    The best plan has `filled` slots. Requests in the first `pinned` stay and count in the load, the others do not. Room is
    in tokens, with the growth of all its requests subtracted. Returns the number of workers with slots to refill; they are
    listed in `plan.order`, least room first.
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
    """Refill every worker up to a level, tightest first; returns the objective of the new plan, inf if a slot stays empty.

    The present plan is overwritten; it is incomplete after inf. Each slot takes the largest waiting request within an even
    share of its worker's remaining room. If there is none, it takes the smallest above that.

    Args:
        level: tokens above the envelope of the best plan; negative = below it.
        fitted: number of workers to refill, from `set_reach`.
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
    """Refit the best plan to several levels, and leave the refit of least objective as the present plan; True if any fits.

    Of the `filled` slots the first `pinned` stay. If it returns False, the present plan is incomplete.
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
    """The j-th level to try, for `fit`, and True; or 0 and False if the pool has no such size.

    At this level one worker is filled exactly by requests of one size. As j counts up, it goes through the workers, then
    through the sizes around the ideal. `fitted` is from `set_reach`.
    """
    o, ring = int(plan.order[j % fitted]), j // fitted
    share, speed = plan.share[o], plan.speed[o]
    r = rank_from(plan.size, plan.reach[o] / share / speed) + (ring // 2 if ring % 2 == 0 else -1 - ring // 2)
    if r < 0 or r >= plan.size.size:
        return 0.0, False
    return share * (speed * plan.size[r]) - plan.reach[o], True
