"""Compiled twin of `power_of_d`."""
# pyright: basic

from __future__ import annotations

from evenstep.compiled import route_kernel
from evenstep.routing.filling_kernel import close_keyed, open_workers
from evenstep.routing.view import ID, QUEUED, RUNNING, WAITING_LOAD
from evenstep.streams import stream_number
from evenstep.streams_kernel import head, uniform_from

_STREAM = stream_number("power-of-d")


def scratch(workers, waiting, horizon, parameters):
    return 4 * workers, workers


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
