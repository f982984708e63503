"""Compiled twin of `filling`: the workers that still have a slot, as a short list that shrinks."""
# pyright: basic

from __future__ import annotations

import numpy as np

from evenstep.compiled import inlined, jit
from evenstep.routing.view import FREE_SLOTS, HOLD, ID, KV_FREE, SINCE_S
from evenstep.streams_kernel import uniform_from


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
def unlimited(workers_f):
    """Whether KV memory limits no worker: then no request has to be asked whether it fits."""
    free = workers_f[KV_FREE]
    limited = 0
    for g in range(free.size):
        limited += free[g] < np.inf
    return limited == 0


@inlined
def one_each(level, low, high, free, worker, i, waiting):
    """Send requests i, i+1, ... to those of the workers low..high-1 that have `level` free slots or more, one each.

    Returns:
        int64, the next request.
    """
    if waiting - i < high - low:
        for g in range(low, high):
            if i < waiting and free[g] >= level:
                worker[np.uintp(i)] = g
                i += 1
        return i
    for g in range(low, high):  # without a branch: which workers have a slot cannot be foretold
        worker[np.uintp(i)] = g
        i += free[g] >= level
    if i < waiting:
        worker[np.uintp(i)] = HOLD  # written for a worker without a slot
    return i


@inlined
def most_free(free):
    """The largest number of free slots."""
    most = free[0]
    for g in range(free.size):
        most = max(most, free[g])
    return most


@inlined
def total(free):
    """Free slots in all."""
    slots = np.int64(0)
    for g in range(free.size):
        slots += free[g]
    return slots


@inlined
def list_open(free, index):
    """`open_workers` where only slots limit: the list alone."""
    n = 0
    for g in range(free.size):
        index[np.uintp(n)] = g
        n += free[g] > 0
    return n


@inlined
def strike(place, n, index):
    """Take a worker off the list `list_open` made; returns the new length."""
    for j in range(place, n - 1):
        index[np.uintp(j)] = index[np.uintp(j + 1)]
    return n - 1


@inlined
def cast(dice, draw, first, count, waiting_i, chance):
    """The `draw`-th draws of `count` requests at once: one by one each would wait for the last one's guesses."""
    ids = waiting_i[ID, first : first + count]
    for i in range(count):
        chance[i] = uniform_from(dice, ids[i], draw)


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
