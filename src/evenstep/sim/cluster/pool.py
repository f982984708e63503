"""The waiting pool, the heap of requests to come, and the list of facts that restarted requests keep."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import Ints, Rows, part
from evenstep.sim.cluster.model import Carried, Coming, Now, Pool, Requests


@part
def push(now: Now, pool: Pool, requests: Requests, row: int, load: float, since_s: float) -> None:
    """Insert a request of `load` KV tokens into the pool, in order of (`since_s`, `row`). The caller has checked for room.

    `since_s` is when it became visible. If the arrays' end is reached, the waiting requests move to the front first.
    """
    waiting_i, waiting_f = pool.waiting_i, pool.waiting_f
    if now.first + now.waiting == pool.id.size:
        move_to_front(now, pool)
    first, waiting = now.first, now.waiting
    at = first + waiting
    while at > first and (pool.since_s[at - 1] > since_s or (pool.since_s[at - 1] == since_s and pool.id[at - 1] > row)):
        for k in range(3):
            waiting_i[k, at] = waiting_i[k, at - 1]
            waiting_f[k, at] = waiting_f[k, at - 1]
        at -= 1
    here, r = np.uintp(at), np.uintp(row)
    pool.id[here] = row
    if requests.key.size > 0:
        pool.request_class[here], pool.key[here] = requests.request_class[r], requests.key[r]
    else:
        pool.request_class[here], pool.key[here] = 0, row
    pool.load[here], pool.since_s[here], pool.steps[here] = load, since_s, np.nan
    now.waiting = waiting + 1


@part
def move_to_front(now: Now, pool: Pool) -> None:
    """Move the waiting requests to the front of the pool's arrays."""
    first, waiting, waiting_i, waiting_f = now.first, now.waiting, pool.waiting_i, pool.waiting_f
    for k in range(3):
        for i in range(waiting):
            waiting_i[k, i] = waiting_i[k, first + i]
            waiting_f[k, i] = waiting_f[k, first + i]
    now.first = 0


@part
def take_out(pool: Pool, first: int, sent: int, last: int) -> None:
    """Remove the requests that a decision sent from the pool's arrays, and reset their entries of `worker` to hold.

    Held requests older than the last sent one move up to close the gaps. The caller then adds `sent` to `Now.first`, and
    takes it off `Now.waiting`.

    Args:
        first: place of the oldest waiting request.
        sent: number of requests with worker[i] >= 0; i counts from `first`.
        last: the largest such i.
    """
    worker: Ints = pool.worker
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
                    pool.waiting_i[k, free] = pool.waiting_i[k, first + i]
                    pool.waiting_f[k, free] = pool.waiting_f[k, first + i]
            free -= 1


@part
def heap_push(coming: Rows[Coming], size: int, time_s: float, key: int) -> int:
    """Add (time, key) to `coming`, a binary heap of `size` entries, smallest first; returns the new size.

    The caller has checked for room.
    """
    at = size
    while at > 0:
        up = (at - 1) >> 1
        if (coming[up].time_s, coming[up].key) < (time_s, key):
            break
        coming[at].time_s, coming[at].key = coming[up].time_s, coming[up].key
        at = up
    coming[at].time_s, coming[at].key = time_s, key
    return size + 1


@part
def heap_pop(coming: Rows[Coming], size: int) -> int:
    """Remove the smallest (time, key) of a heap of `size` entries, its entry 0, which the caller has read.

    Returns the new size. The heap must not be empty.
    """
    size -= 1
    time_s, key, at, down = coming[size].time_s, coming[size].key, 0, 1
    while down < size:
        if down + 1 < size and (coming[down + 1].time_s, coming[down + 1].key) < (coming[down].time_s, coming[down].key):
            down += 1
        if (time_s, key) < (coming[down].time_s, coming[down].key):
            break
        coming[at].time_s, coming[at].key = coming[down].time_s, coming[down].key
        at, down = down, 2 * down + 1
    coming[at].time_s, coming[at].key = time_s, key
    return size


@part
def carried_at(now: Now, carried: Rows[Carried], row: int) -> int:
    """The index of a request's entry in the carry list; -1 if it has none: it never restarted, or it runs again."""
    for i in range(now.carried):
        if carried[i].row == row:
            return i
    return -1


@part
def drop_carried(now: Now, carried: Rows[Carried], at: int) -> None:
    """Delete entry `at` of the carry list; the last entry takes its place."""
    last = now.carried - 1
    now.carried = last
    here, there = carried[at], carried[last]
    here.row, here.done, here.restarts = there.row, there.done, there.restarts
    here.admitted_s, here.first_token_s = there.admitted_s, there.first_token_s
