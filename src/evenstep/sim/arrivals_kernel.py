# pyright: basic
# ruff: noqa: F403, F405 - the names of the state's sections are this file's vocabulary
"""How requests become visible in the compiled cluster: saturated, timed, users, sessions."""

from __future__ import annotations

import math

from evenstep.compiled import inlined, jit
from evenstep.sim.cluster_layout import *
from evenstep.sim.pool_kernel import heap_pop, heap_push, push
from evenstep.sim.slots_kernel import weight

# What links[] holds when sessions are replayed: per row offsets of its successors, the successors, per row its session,
# per session requests left (counted down), per session offsets of its roots, the roots.


@inlined
def reveal_row(sc, sf, waiting_i, waiting_f, columns, row, prompt, profile, since):
    """A request the cluster has not seen before enters the pool."""
    load = weight(sc[PROFILE_KIND], row, 0, prompt[row] * sc[SCALE], sc[DELTA], profile)
    push(sc, waiting_i, waiting_f, columns, row, load * sf[UNIT], since)


@jit
def next_visible(sc, sf, heap_f, heap_i, arrival, prompt):
    """When the next request becomes visible (inf = never), pulling arrivals into prefill as far as that needs."""
    if sc[ARRIVALS] == TIMED:
        base, per_token = sf[PREFILL_BASE], sf[PREFILL_TOKEN]
        if base == 0.0 and per_token == 0.0:
            return arrival[sc[CURSOR]] if sc[CURSOR] < sc[REQUESTS] else math.inf
        while sc[CURSOR] < sc[REQUESTS] and sc[HEAP_SIZE] < heap_i.size - 1:
            row = sc[CURSOR]
            if sc[HEAP_SIZE] > 0 and arrival[row] + base > heap_f[0]:
                break
            heap_push(sc, heap_f, heap_i, arrival[row] + (base + per_token * prompt[row]), row)
            sc[CURSOR] = row + 1
    if sc[HEAP_SIZE] > 0 and not (sc[ARRIVALS] == USERS and sc[CURSOR] >= sc[REQUESTS]):
        return heap_f[0]
    return math.inf


@jit
def start_sessions(sc, sf, heap_f, heap_i, links, think, sessions, now):
    """The next session starts: its roots become visible after their think time."""
    n = sc[REQUESTS]
    at = sc[SESSIONS_NEXT]
    sc[SESSIONS_NEXT] = at + 1
    base = 3 * n + 1 + sessions  # where root offsets stand
    for i in range(links[base + at], links[base + at + 1]):
        row = links[base + sessions + 1 + i]
        heap_push(sc, heap_f, heap_i, now + think[row], row)


@jit
def follow_up(sc, sf, heap_f, heap_i, links, think, row):
    """What the end of a request sets off in a closed loop."""
    now = sf[NOW]
    if sc[ARRIVALS] == USERS:
        heap_push(sc, heap_f, heap_i, now + sf[THINK], sc[HEAP_SEQUENCE])
        sc[HEAP_SEQUENCE] += 1
        return
    n = sc[REQUESTS]
    for i in range(links[row], links[row + 1]):
        child = links[n + 1 + i]
        heap_push(sc, heap_f, heap_i, now + think[child], child)
    sessions = links[links.size - 1]
    session = links[2 * n + 1 + row]
    links[3 * n + 1 + session] -= 1
    if links[3 * n + 1 + session] == 0 and sc[SESSIONS_NEXT] < sessions:
        start_sessions(sc, sf, heap_f, heap_i, links, think, sessions, now)


@jit
def follow_ups(sc, links, row):
    """Heap entries the end of a request may need."""
    if sc[ARRIVALS] == SESSIONS:
        n = sc[REQUESTS]
        need = links[row + 1] - links[row]
        session = links[2 * n + 1 + row]
        sessions = links[links.size - 1]
        if links[3 * n + 1 + session] == 1 and sc[SESSIONS_NEXT] < sessions:
            base = 3 * n + 1 + sessions
            need += links[base + sc[SESSIONS_NEXT] + 1] - links[base + sc[SESSIONS_NEXT]]
        return need
    return 1


@inlined
def reveal(sc, sf, heap_f, heap_i, arrival, prompt, profile, columns, waiting_i, waiting_f):
    """Requests whose time has come enter the pool; GROW when it is full."""
    limit = waiting_i.shape[1]
    now = sf[NOW]
    arrivals = sc[ARRIVALS]
    if arrivals == SATURATED:
        while sc[WAITING] < sc[POOL_TARGET] and sc[CURSOR] < sc[REQUESTS]:
            if sc[WAITING] == limit:
                return GROW
            reveal_row(sc, sf, waiting_i, waiting_f, columns, sc[CURSOR], prompt, profile, now)
            sc[CURSOR] += 1
        return RUNNING
    if arrivals == TIMED and sf[PREFILL_BASE] == 0.0 and sf[PREFILL_TOKEN] == 0.0:
        while sc[CURSOR] < sc[REQUESTS] and arrival[sc[CURSOR]] <= now:
            if sc[WAITING] == limit:
                return GROW
            row = sc[CURSOR]
            reveal_row(sc, sf, waiting_i, waiting_f, columns, row, prompt, profile, arrival[row])
            sc[CURSOR] += 1
        return RUNNING
    while next_visible(sc, sf, heap_f, heap_i, arrival, prompt) <= now:
        if sc[WAITING] == limit or sc[HEAP_SIZE] >= heap_i.size - 1:
            return GROW
        since, row = heap_f[0], heap_i[0]
        heap_pop(sc, heap_f, heap_i)
        if arrivals == USERS:
            row = sc[CURSOR]
            sc[CURSOR] += 1
        reveal_row(sc, sf, waiting_i, waiting_f, columns, row, prompt, profile, since)
    if sc[HEAP_SIZE] >= heap_i.size - 1 and arrivals == TIMED:
        return GROW  # an arrival that is still to be pulled might be due already
    return RUNNING
