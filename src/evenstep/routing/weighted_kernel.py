"""Compiled twin of `weighted`."""
# pyright: basic

from __future__ import annotations

import numpy as np

from evenstep.compiled import jit, route_kernel
from evenstep.routing.capability_kernel import capabilities
from evenstep.routing.view import FREE_SLOTS, KV_FREE, QUEUED, RUNNING, WAITING_LOAD
from evenstep.routing.weighted import FULL, LEAST


def scratch(workers, waiting, horizon, parameters):
    return 3 * workers, 2 * workers


@jit
def _next_turn(turn, turns, slots, kv, size):
    """The next turn of a worker with room for the request; see `weighted`. Somebody has room."""
    G = turns.size
    while True:
        g = turn % G
        weight = turns[g]
        takes = (weight * (turn // G) + g * (FULL // 2)) % FULL >= FULL - weight
        if takes and slots[g] > 0 and kv[g] >= size:
            return turn
        turn += 1


@route_kernel
def route_into(
    decision, seed, now_s, mean_wait_s, first, waiting,
    workers_i, workers_f, waiting_i, waiting_f,
    projections, growth, cached, memory, parameters,
    scratch_i, scratch_f, worker,
):  # fmt: skip
    G = workers_i.shape[1]
    slots, count, turns = scratch_i[:G], scratch_i[G : 2 * G], scratch_i[2 * G : 3 * G]
    kv, weight = scratch_f[:G], scratch_f[G : 2 * G]
    by_turns = parameters[0] == 1.0
    capabilities(workers_f, parameters, 1, weight)
    largest, left = 0.0, 0
    for g in range(G):
        largest = max(largest, weight[g])
        slots[g], kv[g] = workers_i[FREE_SLOTS, g], workers_f[KV_FREE, g]
        count[g] = workers_i[RUNNING, g] + workers_i[QUEUED, g]
        left += slots[g]
    for g in range(G):
        turns[g] = max(LEAST, int(FULL * (weight[g] / largest) + 0.5))
    for i in range(waiting):
        if left == 0:
            break
        size = waiting_f[WAITING_LOAD, first + i]
        best, least = -1, np.inf
        for g in range(G):
            busy = (count[g] + 1) / weight[g]
            if slots[g] > 0 and kv[g] >= size and (best < 0 or busy < least):
                best, least = g, busy
        if best < 0:
            continue
        if by_turns:
            turn = _next_turn(memory[0], turns, slots, kv, size)
            best = turn % G
            memory[0] = turn + 1
        worker[i] = best
        kv[best] -= size
        slots[best] -= 1
        count[best] += 1
        left -= 1
    return np.nan
