"""Compiled twin of `power_of_d`."""
# pyright: basic

from __future__ import annotations

import numpy as np

from evenstep.compiled import inlined, route_kernel
from evenstep.routing.filling_kernel import (
    cast,
    close_keyed,
    list_open,
    open_workers,
    strike,
    total,
    unlimited,
)
from evenstep.routing.view import FREE_SLOTS, ID, QUEUED, RUNNING, WAITING_LOAD
from evenstep.streams import stream_number
from evenstep.streams_kernel import head, uniform_from

_STREAM = stream_number("power-of-d")
_LONG = 1 << 62


def scratch(workers, waiting, horizon, parameters):
    return 5 * workers, workers + min(int(parameters[0]), workers) * waiting


@inlined
def _by_slots(chance, d, sent, workers_i, index, slots, queue, urn, drawn, worker):
    """Where only slots limit: the urn stays as it is between requests, each draw's swap is undone."""
    G = slots.size
    for g in range(G):
        slots[g] = workers_i[FREE_SLOTS, g]
        queue[g] = workers_i[RUNNING, g] + workers_i[QUEUED, g]
        urn[g] = g
    n = list_open(slots, index)
    for i in range(sent):
        left, best, shortest = n, n, _LONG
        for draw in range(min(d, n)):
            place = int(chance[draw * sent + i] * left)
            j = urn[place]
            left -= 1
            urn[place], urn[left] = urn[left], j
            drawn[draw] = place
            length = queue[np.uintp(index[np.uintp(j)])]
            better = length < shortest or (length == shortest and j < best)
            best = j if better else best
            shortest = min(shortest, length)
        for draw in range(min(d, n) - 1, -1, -1):
            place = drawn[draw]
            urn[place], urn[left] = urn[left], urn[place]
            left += 1
        g = np.uintp(index[best])
        worker[i] = index[best]
        queue[g] += 1
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
    index, slots, queue, kv = scratch_i[:G], scratch_i[G : 2 * G], scratch_i[2 * G : 3 * G], scratch_f[:G]
    urn = scratch_i[3 * G : 4 * G]  # places of the list to draw from
    d = int(parameters[0])
    if unlimited(workers_f):
        drawn, chance, sent = (
            scratch_i[4 * G : 5 * G],
            scratch_f[G:],
            min(waiting, total(workers_i[FREE_SLOTS])),
        )
        d = min(d, G)
        for draw in range(d):
            cast(dice, draw, first, sent, waiting_i, chance[draw * sent : draw * sent + sent])
        _by_slots(chance, d, sent, workers_i, index, slots, queue, urn, drawn, worker)
        return float("nan")
    n = open_workers(workers_i, workers_f, index, slots, kv)
    for j in range(n):
        queue[j] = workers_i[RUNNING, index[j]] + workers_i[QUEUED, index[j]]
    for i in range(waiting):
        if n == 0:
            break
        size = waiting_f[WAITING_LOAD, first + i]
        left = 0
        for j in range(n):
            urn[left] = j
            left += kv[j] >= size
        if left == 0:
            continue
        best = -1
        for draw in range(min(d, left)):
            place = int(uniform_from(dice, waiting_i[ID, first + i], draw) * left)
            j = urn[place]
            left -= 1
            urn[place] = urn[left]
            if best < 0 or queue[j] < queue[best] or (queue[j] == queue[best] and j < best):
                best = j
        worker[i] = index[best]
        kv[best] -= size
        queue[best] += 1
        slots[best] -= 1
        if slots[best] == 0:
            n = close_keyed(best, n, index, slots, kv, queue)
    return float("nan")
