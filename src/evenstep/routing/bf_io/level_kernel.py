# pyright: basic
"""Levels of BF-IO, compiled: the best plan fitted anew below an envelope some tokens higher or lower.

A local optimum is often right but for its level: all workers would have to move at once. So the envelope of the best
plan is shifted to where some worker would be filled exactly, every worker is filled up to it, tightest first, and the
best level is where a further search starts. Twin of `bf_io.reference`, equal in bits.
"""

from __future__ import annotations

import numpy as np

from evenstep.compiled import borrowing
from evenstep.routing.bf_io.plan import (
    BASE,
    BEST,
    BEST_REQUEST,
    BEST_WORKER,
    GROWTH,
    KIN,
    KV_LEFT,
    ORDER,
    REACH,
    SHARE,
    SIZE,
    SPEED,
    admit,
    clear,
    objective,
    survey,
)
from evenstep.routing.bf_io.search import rank_beyond, rank_from, waiting_below, waiting_from

#: Levels tried around the envelope of a plan.
LEVELS = 20


@borrowing
def set_reach(pinned, filled, steps, requests, places, tokens, loads, envelopes, slots):
    """How many slots each worker has to fit, how far it is below the best envelope without them, tightest first."""
    workers = places.shape[1]
    for o in range(workers):
        places[SHARE, o], tokens[REACH, o] = 0, np.inf
    for k in range(filled):
        places[SHARE, slots[BEST_WORKER, k]] += 1
    for o in range(workers):
        for h in range(steps.shape[1]):
            rest = loads[BASE, o, h] + places[SHARE, o] * steps[GROWTH, h] * tokens[SPEED, o]
            tokens[REACH, o] = min(tokens[REACH, o], envelopes[BEST, places[KIN, o], h] - rest)
    for k in range(pinned):
        o = slots[BEST_WORKER, k]
        places[SHARE, o] -= 1
        tokens[REACH, o] -= tokens[SPEED, o] * requests[SIZE, slots[BEST_REQUEST, k]]
    fitted = 0
    for o in range(workers):
        if places[SHARE, o] > 0:
            to = fitted
            while to > 0 and tokens[REACH, places[ORDER, to - 1]] > tokens[REACH, o]:
                places[ORDER, to] = places[ORDER, to - 1]
                to -= 1
            places[ORDER, to] = o
            fitted += 1
    return fitted


@borrowing
def fit(level, fitted, pinned, steps, requests, ranks, places, tokens, loads, groups, envelopes, slots):
    """Fill every worker up to the level, tightest first; the objective, inf where something did not fit."""
    clear(steps, requests, ranks, places, tokens, loads, envelopes)
    for k in range(pinned):
        o, r = slots[BEST_WORKER, k], slots[BEST_REQUEST, k]
        admit(o, r, k, steps, requests, ranks, places, tokens, loads, envelopes, slots)
    k = pinned
    for j in range(fitted):
        o = places[ORDER, j]
        reach, speed = tokens[REACH, o] + level, tokens[SPEED, o]
        for share in range(places[SHARE, o], 0, -1):
            above = rank_beyond(requests, min(reach / share / speed, tokens[KV_LEFT, o]))
            r = waiting_below(above, ranks)
            if r < 0:
                r = waiting_from(above, ranks)
            if r == requests.shape[1] or requests[SIZE, r] > tokens[KV_LEFT, o]:
                return np.inf
            admit(o, r, k, steps, requests, ranks, places, tokens, loads, envelopes, slots)
            reach -= speed * requests[SIZE, r]
            k += 1
    for q in range(envelopes.shape[1]):
        survey(q, places, loads, envelopes)
    return objective(steps, places, tokens, loads, groups, envelopes)


@borrowing
def fit_best_level(pinned, filled, steps, requests, ranks, places, tokens, loads, groups, envelopes, slots):
    """Leave the plan of the best level in place; whether there is one."""
    fitted = set_reach(pinned, filled, steps, requests, places, tokens, loads, envelopes, slots)
    best, best_value = 0.0, np.inf
    for j in range(min(4 * (filled - pinned), LEVELS)):
        o, ring = places[ORDER, j % fitted], j // fitted
        share, speed = places[SHARE, o], tokens[SPEED, o]
        r = rank_from(requests, tokens[REACH, o] / share / speed) + (
            ring // 2 if ring % 2 == 0 else -1 - ring // 2
        )
        if 0 <= r < requests.shape[1]:
            level = share * (speed * requests[SIZE, r]) - tokens[REACH, o]
            value = fit(
                level, fitted, pinned, steps, requests, ranks, places, tokens, loads, groups, envelopes, slots
            )
            if value < best_value:
                best, best_value = level, value
    if best_value < np.inf:
        fit(best, fitted, pinned, steps, requests, ranks, places, tokens, loads, groups, envelopes, slots)
    return best_value < np.inf
