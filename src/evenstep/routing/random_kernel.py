"""Compiled twin of `random`."""
# pyright: basic

from __future__ import annotations

import numpy as np

from evenstep.compiled import inlined, route_kernel
from evenstep.routing.filling_kernel import cast, close, list_open, open_workers, strike, total, unlimited
from evenstep.routing.view import FREE_SLOTS, ID, WAITING_LOAD
from evenstep.streams import stream_number
from evenstep.streams_kernel import head, uniform_from

_STREAM = stream_number("random")


def scratch(workers, waiting, horizon, parameters):
    return 2 * workers, workers + waiting


@inlined
def _by_slots(chance, sent, free, index, slots, worker):
    """Where only slots limit: every listed worker will do."""
    for g in range(slots.size):
        slots[g] = free[g]
    n = list_open(slots, index)
    for i in range(sent):
        best = int(chance[i] * n)
        g = np.uintp(index[best])
        worker[i] = index[best]
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
    dice = head(seed, _STREAM)
    index, slots, kv = scratch_i[:G], scratch_i[G : 2 * G], scratch_f[:G]
    if unlimited(workers_f):
        free, chance = workers_i[FREE_SLOTS], scratch_f[G:]
        sent = min(waiting, total(free))
        cast(dice, 0, first, sent, waiting_i, chance)
        _by_slots(chance, sent, free, index, slots, worker)
        return float("nan")
    n = open_workers(workers_i, workers_f, index, slots, kv)
    for i in range(waiting):
        if n == 0:
            break
        size = waiting_f[WAITING_LOAD, first + i]
        fits = 0
        for j in range(n):
            fits += kv[j] >= size
        if fits == 0:
            continue
        skip = int(uniform_from(dice, waiting_i[ID, first + i], 0) * fits)
        best = -1
        while skip >= 0:
            best += 1
            skip -= kv[best] >= size
        worker[i] = index[best]
        kv[best] -= size
        slots[best] -= 1
        if slots[best] == 0:
            n = close(best, n, index, slots, kv)
    return float("nan")
