# pyright: basic
"""What is kept free where KV memory limits the slots, compiled: twin of `best.memory`, equal in bits."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import borrowing
from evenstep.routing.best.memory import KEPT_IN, LATEST, NEPER, UNKNOWN
from evenstep.routing.bf_io.plan import GROWTH, KV, PLACE
from evenstep.routing.view import KV_FREE, LOAD, QUEUED, RUNNING, SINCE_S, WAITING_LOAD


@borrowing
def octaves(tokens):
    """log2 of a size in 1/4096, linear within an octave."""
    return (np.float64(max(tokens, 1.0)).view(np.int64) >> 40) - (1023 << 12)


@borrowing
def still_to_come(gone, leaving, workers_i, workers_f, projections, steps):
    """Tokens a running request is still to produce, on average, by what is expected to leave."""
    last = steps.shape[1] - 1
    ahead = steps[GROWTH, last] - steps[GROWTH, 0]
    stays, leaves = 0.0, 0.0
    for g in range(workers_i.shape[1]):
        mass = workers_f[LOAD, g] + workers_i[RUNNING, g] * ahead
        stays += mass
        leaves += max(0.0, mass - projections[g, last]) if last > 0 else 0.0
    if gone > 0 and leaves > 0.0:
        leaving[0] += np.int64(leaves)
        leaving[1] += np.int64(stays)
        if leaving[1] > LATEST * stays:
            leaving[0] //= 2
            leaving[1] //= 2
    if leaving[0] <= 0:
        return UNKNOWN
    return max(ahead * (leaving[1] / leaving[0] - 0.5), 1.0)


@borrowing
def still_on(g, usual, workers_i, workers_f, projections, steps):
    """Tokens that a request on worker g still produces: the mean of two rates, the worker's own and the usual one."""
    last, running = steps.shape[1] - 1, workers_i[RUNNING, g]
    ahead = steps[GROWTH, last] - steps[GROWTH, 0]
    if running == 0 or ahead <= 0.0:
        return usual
    mass = workers_f[LOAD, g] + running * ahead
    leaves = max(0.0, mass - projections[g, last])
    rate = leaves / (ahead * (mass - 0.5 * leaves))
    return 2.0 * usual / (1.0 + rate * usual)


@borrowing
def set_memory(
    recompute, gone, request, limit_s, now_s, first, considered, leaving, workers_i, workers_f, waiting_f,
    projections, steps, places, tokens,
):  # fmt: skip
    """Set KV of the open workers: what may be admitted. `steps` are all steps ahead; else as in the twin."""
    more = still_to_come(gone, leaving, workers_i, workers_f, projections, steps)
    for o in range(places.shape[1]):
        g = places[PLACE, o]
        free, load = workers_f[KV_FREE, g], workers_f[LOAD, g]
        if free < np.inf:
            there = workers_i[RUNNING, g] + workers_i[QUEUED, g]
            here = still_on(g, more, workers_i, workers_f, projections, steps)
            held = there * request + max(free, request)
            reserve = here * (octaves(1.0 + recompute * held / here) * NEPER)
            for h in range(steps.shape[1]):
                reserve = max(reserve, projections[g, h] - load + steps[GROWTH, h])
            one = 0.0
            for i in range(first, first + considered if there == 0 else first):
                if waiting_f[WAITING_LOAD, i] <= free:
                    one = max(one, waiting_f[WAITING_LOAD, i])
            tokens[KV, o] = max(one, free - reserve)
    if not 0.0 < limit_s < np.inf:
        return
    keeps = max(places.shape[1] // KEPT_IN, 1)
    for i in range(first, first + considered):
        if keeps == 0 or not now_s - waiting_f[SINCE_S, i] > limit_s:
            return
        most = 0
        for o in range(1, places.shape[1]):
            if tokens[KV, o] > tokens[KV, most]:
                most = o
        g = places[PLACE, most]
        runs_nothing = workers_i[RUNNING, g] + workers_i[QUEUED, g] == 0
        if waiting_f[WAITING_LOAD, i] > tokens[KV, most] and not runs_nothing:
            tokens[KV, most] = 0.0
            keeps -= 1


@borrowing
def is_bound(count, usual, places, tokens):
    """Whether memory, not slots, says how many requests come in."""
    left = 0.0
    for o in range(places.shape[1]):
        left += tokens[KV, o]
    return left < usual * count
