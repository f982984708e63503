"""Compiled twin of `throttled`."""
# pyright: basic

from __future__ import annotations

import math

import numpy as np

from evenstep.compiled import route_kernel
from evenstep.routing.capability_kernel import capabilities
from evenstep.routing.filling_kernel import close, open_workers, unlimited
from evenstep.routing.view import FREE_SLOTS, QUEUED, RUNNING, WAITING_LOAD


def scratch(workers, waiting, horizon, parameters):
    return 2 * workers, 2 * workers


@route_kernel
def route_into(
    decision, seed, now_s, mean_wait_s, first, waiting,
    workers_i, workers_f, waiting_i, waiting_f,
    projections, growth, cached, memory, parameters,
    scratch_i, scratch_f, worker,
):  # fmt: skip
    G = workers_i.shape[1]
    index, slots = scratch_i[:G], scratch_i[G : 2 * G]
    kv, capability = scratch_f[:G], scratch_f[G : 2 * G]
    capabilities(workers_f, parameters, 1, capability)
    largest = 0.0
    for g in range(G):
        largest = max(largest, capability[g])
    listed = open_workers(workers_i, workers_f, index, slots, kv)
    n = 0
    for j in range(listed):  # room below the threshold takes the place of free slots
        g = index[j]
        count = workers_i[RUNNING, g] + workers_i[QUEUED, g]
        most = float(count + workers_i[FREE_SLOTS, g]) if math.isnan(parameters[0]) else parameters[0]
        room = max(1, int(most * (capability[g] / largest) + 0.5)) - count
        index[n], slots[n], kv[n] = g, min(slots[j], room), kv[j]
        n += room > 0
    free = unlimited(workers_f)
    for i in range(waiting):
        if n == 0:
            break
        best = 0 if free else -1
        if not free:
            size = waiting_f[WAITING_LOAD, first + i]
            for j in range(n):
                if kv[j] >= size:
                    best = j
                    break
            if best < 0:
                continue
            kv[best] -= size
        worker[i] = index[best]
        slots[best] -= 1
        if slots[best] == 0:
            n = close(best, n, index, slots, kv)
    return np.nan
