"""Compiled twin of `least_load`."""
# pyright: basic

from __future__ import annotations

import numpy as np

from evenstep.compiled import inlined, route_kernel
from evenstep.routing.filling_kernel import close_keyed, list_open, open_workers, strike, unlimited
from evenstep.routing.view import FREE_SLOTS, LOAD, QUEUED_LOAD, WAITING_LOAD


def scratch(workers, waiting, horizon, parameters):
    return 2 * workers, 2 * workers


@inlined
def _by_slots(first, waiting, waiting_f, workers_i, workers_f, index, slots, load, worker):
    """Where only slots limit: no request has to be asked whether it fits."""
    for g in range(slots.size):
        slots[g] = workers_i[FREE_SLOTS, g]
        load[g] = workers_f[LOAD, g] + workers_f[QUEUED_LOAD, g]
    n = list_open(slots, index)
    for i in range(waiting):
        if n == 0:
            break
        best, least = 0, load[np.uintp(index[0])]
        for j in range(1, n):
            found = load[np.uintp(index[np.uintp(j)])]
            best = j if found < least else best
            least = min(found, least)
        g = np.uintp(index[best])
        worker[i] = index[best]
        load[g] += waiting_f[WAITING_LOAD, first + i]
        slots[g] -= 1
        if slots[g] == 0:
            n = strike(best, n, index)


@route_kernel
def route_into(
    decision, seed, now_s, mean_wait_s, first, waiting,
    workers_i, workers_f, waiting_i, waiting_f,
    projections, growth, cached, memory, parameters,
    scratch_i, scratch_f, worker,
):  # fmt: skip
    G = workers_i.shape[1]
    index, slots, kv, load = scratch_i[:G], scratch_i[G : 2 * G], scratch_f[:G], scratch_f[G : 2 * G]
    if unlimited(workers_f):
        _by_slots(first, waiting, waiting_f, workers_i, workers_f, index, slots, load, worker)
        return float("nan")
    n = open_workers(workers_i, workers_f, index, slots, kv)
    for j in range(n):
        load[j] = workers_f[LOAD, index[j]] + workers_f[QUEUED_LOAD, index[j]]
    for i in range(waiting):
        if n == 0:
            break
        size = waiting_f[WAITING_LOAD, first + i]
        best = -1
        for j in range(n):
            if kv[j] >= size and (best < 0 or load[j] < load[best]):
                best = j
        if best >= 0:
            worker[i] = index[best]
            kv[best] -= size
            load[best] += size
            slots[best] -= 1
            if slots[best] == 0:
                n = close_keyed(best, n, index, slots, kv, load)
    return float("nan")
