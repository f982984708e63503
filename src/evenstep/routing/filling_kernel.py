"""Compiled twin of `filling`: the workers that still have a slot, as a short list that shrinks."""
# pyright: basic

from __future__ import annotations

import numpy as np

from evenstep.compiled import jit
from evenstep.routing.view import FREE_SLOTS, KV_FREE, SINCE_S


@jit
def open_workers(workers_i, workers_f, index, slots, kv):
    """List the workers that have a slot, in index order.

    Args:
        index, slots: int64[G], written: worker and its free slots at each place of the list.
        kv: float64[G], written: KV tokens that may still be sent there.

    Returns:
        int64, length of the list.
    """
    n = 0
    for g in range(workers_i.shape[1]):  # without a branch: which workers have a slot cannot be foretold
        free = workers_i[FREE_SLOTS, g]
        index[n] = g
        slots[n] = free
        kv[n] = workers_f[KV_FREE, g]
        n += free > 0
    return n


@jit
def unlimited(n, kv):
    """Whether KV memory limits none of the n listed workers: then no request has to be asked whether it fits."""
    limited = 0
    for j in range(n):
        limited += kv[j] < np.inf
    return limited == 0


@jit
def close(place, n, index, slots, kv):
    """Take a worker off the list, keeping the order; returns the new length."""
    for j in range(place, n - 1):
        index[j] = index[j + 1]
        slots[j] = slots[j + 1]
        kv[j] = kv[j + 1]
    return n - 1


@jit
def close_keyed(place, n, index, slots, kv, key):
    """`close`, for a list with one more column (int64 or float64)."""
    for j in range(place, n - 1):
        key[j] = key[j + 1]
    return close(place, n, index, slots, kv)


@jit
def overdue(now_s, mean_wait_s, first, waiting, waiting_f, workers_i, age_limit):
    """How many of the oldest requests go first; see `filling.overdue`."""
    if not (age_limit > 0.0 and mean_wait_s > 0.0):
        return 0
    limit = age_limit * mean_wait_s
    late, free = 0, 0
    for g in range(workers_i.shape[1]):
        free += workers_i[FREE_SLOTS, g]
    most = min(waiting, max(1, free // 4))
    while late < most and now_s - waiting_f[SINCE_S, first + late] > limit:
        late += 1
    return late
