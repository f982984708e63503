"""Compiled twin of `completion_time`."""
# pyright: basic

from __future__ import annotations

import math

import numpy as np

from evenstep.compiled import jit
from evenstep.routing.f_score_kernel import NONE, first_with
from evenstep.routing.filling_kernel import close_keyed, open_workers, overdue
from evenstep.routing.view import LOAD, QUEUED_LOAD, STEPS, WAITING_LOAD


def scratch(workers, waiting, horizon, parameters):
    return 2 * workers, 2 * workers + waiting


@jit
def _next(keys, waiting, longest_first):
    """Place of the longest (shortest) request that is left, oldest first, -1 when none is."""
    if longest_first:
        most = -1
        for i in range(waiting):
            most = max(most, keys[i])
        return -1 if most < 0 else first_with(keys, waiting, most)
    least = NONE
    for i in range(waiting):
        least = min(least, keys[i] if keys[i] >= 0 else NONE)
    return -1 if least == NONE else first_with(keys, waiting, least)


@jit
def decide(
    now_s, mean_wait_s, first, waiting, workers_i, workers_f, waiting_f, longest_first, predicted, age_limit,
    scratch_i, scratch_f, worker,
):  # fmt: skip
    """One decision into `worker`; see `completion_time.route`."""
    G = workers_i.shape[1]
    index, slots, kv, ready = scratch_i[:G], scratch_i[G : 2 * G], scratch_f[:G], scratch_f[G : 2 * G]
    n = open_workers(workers_i, workers_f, index, slots, kv)
    if n == 0 or waiting == 0:
        return
    for j in range(n):
        ready[j] = workers_f[LOAD, index[j]] + workers_f[QUEUED_LOAD, index[j]]
    length = scratch_f[2 * G : 2 * G + waiting]
    for i in range(waiting):
        length[i] = waiting_f[WAITING_LOAD, first + i]
    if predicted:
        for i in range(waiting):
            steps = waiting_f[STEPS, first + i]
            length[i] += 0.0 if math.isnan(steps) else steps
    keys = length.view(np.int64)  # order like the lengths, which are >= 0; -1 once looked at
    late = overdue(now_s, mean_wait_s, first, waiting, waiting_f, workers_i, age_limit)
    for turn in range(waiting):
        i = turn if turn < late else _next(keys, waiting, longest_first)
        size, p = waiting_f[WAITING_LOAD, first + i], length[i]
        keys[i] = -1
        best = -1
        for j in range(n):
            if kv[j] >= size and (best < 0 or ready[j] < ready[best]):
                best = j
        if best >= 0:
            worker[i] = index[best]
            kv[best] -= size
            ready[best] += p
            slots[best] -= 1
            if slots[best] == 0:
                n = close_keyed(best, n, index, slots, kv, ready)
                if n == 0:
                    return
