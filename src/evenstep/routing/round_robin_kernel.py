"""Compiled twin of `round_robin`."""
# pyright: basic

from __future__ import annotations

from evenstep.compiled import inlined, route_kernel
from evenstep.routing.filling_kernel import close, most_free, one_each, open_workers, unlimited
from evenstep.routing.view import FREE_SLOTS, WAITING_LOAD


def scratch(workers, waiting, horizon, parameters):
    return 2 * workers, workers


@inlined
def _in_turn(turn, free, waiting, worker):
    """One round after the other, where only slots limit; answers the next worker in turn."""
    level, i, most, begin = 1, 0, most_free(free), min(turn, free.size)
    while level <= most and i < waiting:
        i = one_each(level, begin, free.size, free, worker, i, waiting)
        i = one_each(level, 0, begin, free, worker, i, waiting)
        level += 1
    return worker[i - 1] + 1 if i > 0 else turn


@route_kernel
def route_into(
    decision, seed, now_s, mean_wait_s, first, waiting,
    workers_i, workers_f, waiting_i, waiting_f,
    projections, growth, cached, memory, parameters,
    scratch_i, scratch_f, worker,
):  # fmt: skip
    G = workers_i.shape[1]
    index, slots, kv = scratch_i[:G], scratch_i[G : 2 * G], scratch_f[:G]
    turn = memory[0]
    if unlimited(workers_f):
        memory[0] = _in_turn(turn, workers_i[FREE_SLOTS], waiting, worker)
        return float("nan")
    n = open_workers(workers_i, workers_f, index, slots, kv)
    place = 0  # of the first worker in turn; n when all come before it
    while place < n and index[place] < turn:
        place += 1
    for i in range(waiting):
        if n == 0:
            break
        size = waiting_f[WAITING_LOAD, first + i]
        best = -1
        for j in range(place, n):
            if kv[j] >= size:
                best = j
                break
        if best < 0:
            for j in range(min(place, n)):
                if kv[j] >= size:
                    best = j
                    break
        if best < 0:
            continue
        worker[i] = index[best]
        turn = index[best] + 1
        kv[best] -= size
        slots[best] -= 1
        place = best + 1
        if slots[best] == 0:
            n = close(best, n, index, slots, kv)
            place = best
    memory[0] = turn
    return float("nan")
