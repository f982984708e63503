"""Levels of BF-IO in plain words: the best plan fitted anew below an envelope some tokens higher or lower."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evenstep.request import F8

if TYPE_CHECKING:
    from tests.oracles.bf_io import Plan

#: Levels tried around the envelope of a plan, at most and for each slot.
LEVELS, LEVELS_A_SLOT = 20, 4


def fit(
    plan: Plan,
    level: float,
    shares: list[tuple[int, int]],
    reach: dict[int, float],
    fixed: list[tuple[int, int]],
) -> float:
    """Fill every worker up to the level, tightest first; the objective, inf where something did not fit."""
    plan.clear()
    for g, r in fixed:
        plan.put(g, [], [r])
        plan.slots.append((g, r))
    for g, share in shares:
        left, speed = reach[g] + level, float(plan.moment.speed[g])
        for remaining in range(share, 0, -1):
            beyond = int(np.searchsorted(plan.size, min(left / remaining / speed, plan.kv_left[g]), side="right"))
            r = plan.below(beyond)
            r = r if r >= 0 else plan.above(beyond)
            if r == plan.size.size or plan.size[r] > plan.kv_left[g]:
                return np.inf
            plan.put(g, [], [r])
            plan.slots.append((g, r))
            left -= speed * plan.size[r]
    return plan.objective()


def fit_best_level(plan: Plan, best: list[tuple[int, int]], pinned: int, envelope: F8) -> bool:
    """Fit the best plan anew below its envelope shifted to the best of some levels; whether there is one.

    A local optimum is often right but for its level: all workers would have to move at once. A level is a shift
    that fills some worker exactly with equal shares of some request's size.
    """
    share = dict.fromkeys(plan.open, 0)
    for g, _ in best:
        share[g] += 1
    reach: dict[int, float] = {}
    for g in plan.open:
        rest = plan.moment.load[g] + share[g] * plan.growth * plan.moment.speed[g]
        reach[g] = float((envelope[plan.moment.group[g]] - rest).min())
    for g, r in best[:pinned]:
        share[g] -= 1
        reach[g] -= plan.moment.speed[g] * plan.size[r]
    shares = sorted(((g, share[g]) for g in plan.open if share[g] > 0), key=lambda pair: reach[pair[0]])
    best_level, best_value = 0.0, np.inf
    for j in range(min(LEVELS_A_SLOT * (len(best) - pinned), LEVELS) if shares else 0):
        (g, parts), ring = shares[j % len(shares)], j // len(shares)
        speed = float(plan.moment.speed[g])
        r = plan.rank_from(reach[g] / parts / speed) + (ring // 2 if ring % 2 == 0 else -1 - ring // 2)
        if 0 <= r < plan.size.size:
            level = parts * (speed * plan.size[r]) - reach[g]
            value = fit(plan, level, shares, reach, best[:pinned])
            if value < best_value:
                best_level, best_value = level, value
    if best_value < np.inf:
        fit(plan, best_level, shares, reach, best[:pinned])
    return bool(best_value < np.inf)
