"""The kernel of `doors_differ`, which looks from the other end."""

from __future__ import annotations

from evenstep.compiled import route_kernel
from evenstep.routing.view import FREE_SLOTS, KV_FREE, WAITING_LOAD


@route_kernel
def route_into(
    decision,
    seed,
    now_s,
    mean_wait_s,
    first,
    waiting,
    workers_i,
    workers_f,
    waiting_i,
    waiting_f,
    projections,
    growth,
    cached,
    memory,
    parameters,
    scratch_i,
    scratch_f,
    worker,
):
    if waiting > 0:
        for g in range(workers_i.shape[1] - 1, -1, -1):
            if workers_i[FREE_SLOTS, g] > 0 and workers_f[KV_FREE, g] >= waiting_f[WAITING_LOAD, first]:
                worker[0] = g
                break
    return float("nan")
