"""Compiled twin of `fcfs`."""
# pyright: basic

from __future__ import annotations

import numpy as np

from evenstep.compiled import inlined, route_kernel
from evenstep.routing.filling_kernel import close, most_free, one_each, open_workers, unlimited
from evenstep.routing.view import FREE_SLOTS, WAITING_LOAD


def scratch(workers, waiting, horizon, parameters):
    return 2 * workers, workers


@inlined
def _by_levels(free, waiting, worker):
    """Most free slots first, lowest index on ties, where only slots limit: each level of free slots is one pass."""
    level, i = most_free(free), 0
    while level > 0 and i < waiting:
        i = one_each(level, 0, free.size, free, worker, i, waiting)
        level -= 1


@route_kernel
def route_into(
    decision, seed, now_s, mean_wait_s, first, waiting,
    workers_i, workers_f, waiting_i, waiting_f,
    projections, growth, cached, memory, parameters,
    scratch_i, scratch_f, worker,
):  # fmt: skip
    G = workers_i.shape[1]
    index, slots, kv = scratch_i[:G], scratch_i[G : 2 * G], scratch_f[:G]
    by_index = parameters[0] == 1.0
    if not by_index and unlimited(workers_f):
        _by_levels(workers_i[FREE_SLOTS], waiting, worker)
        return np.nan
    n = open_workers(workers_i, workers_f, index, slots, kv)
    for i in range(waiting):
        if n == 0:
            break
        size = waiting_f[WAITING_LOAD, first + i]
        best = -1
        for j in range(n):
            if kv[j] >= size and (best < 0 or slots[j] > slots[best]):
                best = j
                if by_index:
                    break
        if best >= 0:
            worker[i] = index[best]
            kv[best] -= size
            slots[best] -= 1
            if slots[best] == 0:
                n = close(best, n, index, slots, kv)
    return np.nan
