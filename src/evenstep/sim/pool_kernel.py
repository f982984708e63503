# pyright: basic
"""The waiting pool and its neighbours, compiled: pool columns, the heap of requests to come, what restarts carry."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import inlined, jit
from evenstep.routing.view import CLASS, ID, KEY, SINCE_S, STEPS, WAITING_LOAD
from evenstep.sim.cluster_layout import (
    C_ROW,
    CARRIED,
    FIRST,
    HEAP_SIZE,
    WAITING,
)  # fmt: skip


@inlined
def push(sc, waiting_i, waiting_f, columns, row, load, since):
    """Put a request at its place by (since, row); newcomers go to the end. The caller has seen to the room."""
    first, waiting = sc[FIRST], sc[WAITING]
    if first + waiting == waiting_i.shape[1]:
        for k in range(3):
            for i in range(waiting):
                waiting_i[k, i] = waiting_i[k, first + i]
                waiting_f[k, i] = waiting_f[k, first + i]
        first = 0
        sc[FIRST] = 0
    at = first + waiting
    while at > first and (
        waiting_f[SINCE_S, at - 1] > since
        or (waiting_f[SINCE_S, at - 1] == since and waiting_i[ID, at - 1] > row)
    ):
        for k in range(3):
            waiting_i[k, at] = waiting_i[k, at - 1]
            waiting_f[k, at] = waiting_f[k, at - 1]
        at -= 1
    here, r = np.uintp(at), np.uintp(row)
    waiting_i[ID, here] = row
    if columns.shape[0] > 0:
        waiting_i[CLASS, here], waiting_i[KEY, here] = columns[0, r], columns[1, r]
    else:
        waiting_i[CLASS, here], waiting_i[KEY, here] = 0, row
    waiting_f[WAITING_LOAD, here], waiting_f[SINCE_S, here], waiting_f[STEPS, here] = load, since, np.nan
    sc[WAITING] = waiting + 1


@inlined
def take_out(waiting_i, waiting_f, worker, first, sent, last):
    """Take the sent requests (worker[i] >= 0, the last at i = last) out; older ones move up. Resets `worker` to hold."""
    if sent == last + 1:
        for i in range(sent):
            worker[i] = -1
        return
    free, gone = first + last, 0
    for i in range(last, -1, -1):
        if worker[i] >= 0:
            worker[i] = -1
            gone += 1
        else:
            if gone > 0:
                for k in range(3):
                    waiting_i[k, free] = waiting_i[k, first + i]
                    waiting_f[k, free] = waiting_f[k, first + i]
            free -= 1


@jit
def heap_push(sc, heap_f, heap_i, time, key):
    """Add (time, key) to the binary heap of requests to come."""
    at = sc[HEAP_SIZE]
    sc[HEAP_SIZE] = at + 1
    while at > 0:
        up = (at - 1) >> 1
        if heap_f[up] < time or (heap_f[up] == time and heap_i[up] < key):
            break
        heap_f[at], heap_i[at] = heap_f[up], heap_i[up]
        at = up
    heap_f[at], heap_i[at] = time, key


@jit
def heap_pop(sc, heap_f, heap_i):
    """Drop the smallest (time, key), which stands at index 0."""
    size = sc[HEAP_SIZE] - 1
    sc[HEAP_SIZE] = size
    time, key = heap_f[size], heap_i[size]
    at = 0
    while True:
        down = 2 * at + 1
        if down >= size:
            break
        right = down + 1
        if right < size and (
            heap_f[right] < heap_f[down] or (heap_f[right] == heap_f[down] and heap_i[right] < heap_i[down])
        ):
            down = right
        if time < heap_f[down] or (time == heap_f[down] and key < heap_i[down]):
            break
        heap_f[at], heap_i[at] = heap_f[down], heap_i[down]
        at = down
    heap_f[at], heap_i[at] = time, key


@jit
def carried(sc, carry_i, row):
    """Index of what a restarted request carries, -1 when it never restarted."""
    for i in range(sc[CARRIED]):
        if carry_i[i, C_ROW] == row:
            return i
    return -1


@jit
def drop_carry(sc, carry_i, carry_f, at):
    """Forget what the request at this index carried."""
    last = sc[CARRIED] - 1
    sc[CARRIED] = last
    for k in range(carry_i.shape[1]):
        carry_i[at, k] = carry_i[last, k]
    for k in range(carry_f.shape[1]):
        carry_f[at, k] = carry_f[last, k]
