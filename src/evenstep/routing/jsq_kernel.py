"""Compiled twin of `jsq`."""
# pyright: basic

from __future__ import annotations

import numpy as np

from evenstep.compiled import inlined, route_kernel
from evenstep.routing.filling_kernel import cast, close_keyed, open_workers, total, unlimited
from evenstep.routing.view import ID, QUEUED, RUNNING, WAITING_LOAD
from evenstep.streams import stream_number
from evenstep.streams_kernel import head, uniform_from

_STREAM = stream_number("jsq")
_LONG = 1 << 62


def scratch(workers, waiting, horizon, parameters):
    return 4 * workers, workers + waiting


@inlined
def _by_length(chance, by_chance, waiting, n, index, slots, queue, ties, worker):
    """Where only slots limit: all workers of the shortest queue are drawn from until none is left, then the next length."""
    i = 0
    while i < waiting:
        shortest, count = _LONG, 0
        for j in range(n):  # without a branch on the data
            shorter = queue[j] < shortest
            count = 0 if shorter else count
            shortest = queue[j] if shorter else shortest
            ties[count] = j
            count += queue[j] == shortest
        if shortest == _LONG:
            break
        while count > 0 and i < waiting:
            k = 0
            if by_chance and count > 1:
                k = int(chance[i] * count)
            best = ties[k]
            count -= 1
            for place in range(k, count):
                ties[place] = ties[place + 1]
            worker[i] = index[best]
            slots[best] -= 1
            queue[best] = shortest + 1 if slots[best] > 0 else _LONG
            i += 1


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
    by_chance = parameters[0] == 0.0
    n = open_workers(workers_i, workers_f, index, slots, kv)
    for j in range(n):
        queue[j] = workers_i[RUNNING, index[j]] + workers_i[QUEUED, index[j]]
    if unlimited(workers_f):
        chance, sent = scratch_f[G:], min(waiting, total(slots[:n]))
        if by_chance:
            cast(dice, 0, first, sent, waiting_i, chance)
        _by_length(chance, by_chance, sent, n, index, slots, queue, scratch_i[3 * G : 4 * G], worker)
        return np.nan
    for i in range(waiting):
        if n == 0:
            break
        size = waiting_f[WAITING_LOAD, first + i]
        shortest, best, ties = _LONG, -1, 0
        for j in range(n):
            if kv[j] >= size:
                if queue[j] < shortest:
                    shortest, best, ties = queue[j], j, 1
                elif queue[j] == shortest:
                    ties += 1
        if best < 0:
            continue
        if by_chance and ties > 1:
            skip = int(uniform_from(dice, waiting_i[ID, first + i], 0) * ties)
            while skip > 0:
                best += 1
                skip -= kv[best] >= size and queue[best] == shortest
        worker[i] = index[best]
        kv[best] -= size
        queue[best] += 1
        slots[best] -= 1
        if slots[best] == 0:
            n = close_keyed(best, n, index, slots, kv, queue)
    return np.nan
