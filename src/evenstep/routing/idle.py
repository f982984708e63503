"""Sends each idle worker the oldest fitting request that the policy held. Simulations do so unless `may_hold` is set."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import F2, I1, I2, INT, declared, part
from evenstep.request import F8, I8
from evenstep.routing.view import FREE_SLOTS, HOLD, KV_FREE, QUEUED, RUNNING, WAITING_LOAD


@part
def has_idle(workers_i: I8) -> bool:
    """True if a worker has a free slot and no running or queued request; `workers_i` is int64[4, G] as in `routing.view`."""
    idle = 0
    for g in range(workers_i.shape[1]):  # without a branch: there is seldom one
        there = workers_i[RUNNING, g] + workers_i[QUEUED, g]
        idle += (there == 0) & (workers_i[FREE_SLOTS, g] > 0)
    return idle > 0


@declared(None if INT is None else INT(INT, INT, I2, F2, F2, I1))
def send_to_idle(first: int, waiting: int, workers_i: I8, workers_f: F8, waiting_f: F8, worker: I8) -> int:
    """Give each idle worker one held request: the oldest whose load fits its free KV tokens.

    A worker is idle if it has a free slot and no running or queued request, and the answer sends it nothing. Idle workers
    are served by ascending index. A worker that no held request fits stays idle. Returns the number of requests sent.

    Args:
        first, waiting: column of the oldest waiting request in `waiting_f`, and the number of waiting requests.
        workers_i, workers_f, waiting_f: int64[4, G], float64[4, G], float64[3, *] with the rows of `routing.view`; not
            changed.
        worker: int64[>= waiting], the policy's answer; entries of requests sent here change from `HOLD` to the worker.
    """
    if not has_idle(workers_i):
        return 0
    holds = 0
    for i in range(waiting):
        holds += worker[np.uintp(i)] == HOLD
    sent = 0
    for g in range(workers_i.shape[1]):
        if sent == holds:
            break
        if workers_i[RUNNING, g] + workers_i[QUEUED, g] > 0 or workers_i[FREE_SLOTS, g] <= 0:
            continue
        fitting = -1
        for i in range(waiting):
            to = worker[np.uintp(i)]
            if to == g:
                fitting = -1
                break
            if fitting < 0 and to == HOLD and waiting_f[WAITING_LOAD, first + i] <= workers_f[KV_FREE, g]:
                fitting = i
        if fitting >= 0:
            worker[np.uintp(fitting)] = g
            sent += 1
    return sent
