"""Compiled twin of `consistent_hash`."""
# pyright: basic

from __future__ import annotations

import math

import numpy as np

from evenstep.compiled import jit, route_kernel
from evenstep.routing.filling_kernel import close_keyed, open_workers
from evenstep.routing.view import KEY, QUEUED, RUNNING, WAITING_LOAD
from evenstep.streams import stream_number
from evenstep.streams_kernel import head, uniform_from

_NODE, _KEY = stream_number("consistent-hash"), stream_number("consistent-hash-key")


def scratch(workers, waiting, horizon, parameters):
    return 3 * workers, workers + int(parameters[1]) * workers


@jit
def _clockwise(nodes, place):
    """Distance on the ring from a place to the nearest of these nodes."""
    nearest = 2.0
    for v in range(nodes.size):
        ahead = nodes[v] - place
        nearest = min(nearest, ahead + 1.0 if ahead < 0.0 else ahead)
    return nearest


@route_kernel
def route_into(
    decision, seed, now_s, mean_wait_s, first, waiting,
    workers_i, workers_f, waiting_i, waiting_f,
    projections, growth, cached, memory, parameters,
    scratch_i, scratch_f, worker,
):  # fmt: skip
    G, V = workers_i.shape[1], int(parameters[1])
    index, slots, count, kv = scratch_i[:G], scratch_i[G : 2 * G], scratch_i[2 * G : 3 * G], scratch_f[:G]
    nodes = scratch_f[G : G + G * V]
    n = open_workers(workers_i, workers_f, index, slots, kv)
    total = 0
    for g in range(G):
        total += workers_i[RUNNING, g] + workers_i[QUEUED, g]
    dice, keys = head(seed, _NODE), head(seed, _KEY)
    for j in range(n):
        g = index[j]
        count[j] = workers_i[RUNNING, g] + workers_i[QUEUED, g]
        for v in range(V):
            nodes[g * V + v] = uniform_from(dice, g, v)
    for i in range(waiting):
        if n == 0:
            break
        size = waiting_f[WAITING_LOAD, first + i]
        most = math.ceil(parameters[0] * (total + 1) / G)
        place = uniform_from(keys, waiting_i[KEY, first + i], 0)
        best, best_below, nearest = -1, False, 2.0
        for j in range(n):
            below = count[j] < most
            if kv[j] < size or (best_below and not below):
                continue
            g = index[j]
            ahead = _clockwise(nodes[g * V : g * V + V], place)
            if best < 0 or (below and not best_below) or ahead < nearest:
                best, best_below, nearest = j, below, ahead
        if best < 0:
            continue
        worker[i] = index[best]
        total += 1
        kv[best] -= size
        count[best] += 1
        slots[best] -= 1
        if slots[best] == 0:
            n = close_keyed(best, n, index, slots, kv, count)
    return np.nan
