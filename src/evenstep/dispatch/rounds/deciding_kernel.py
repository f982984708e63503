# pyright: basic
"""Compiled parts of a round: the mirror and the pool as the arrays a policy reads, free slots, the answer's contract."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import F1, F2, FLOAT, I1, I2, INT, array_at, declared, jit
from evenstep.dispatch.fleet.mirror_layout import (
    CAPACITY,
    FOREIGN,
    FOREIGN_LOAD,
    FREE_AT_MOST,
    GROUP,
    LOAD,
    RESERVED,
    RUNNING,
    SECONDS_PER_TOKEN,
    SENT,
    SENT_LOAD,
)
from evenstep.dispatch.requests.rows_layout import (
    CLASS,
    EXPECTED,
    KEY,
    PRODUCED,
    PROMPT,
    REQUEST,
    SESSION,
    SINCE,
)
from evenstep.routing import view as at
from evenstep.routing.view import HOLD


@jit
def free_slots(ints, margin, free):
    """Slots each worker may still be sent, written to int64[G] `free`; returns their sum."""
    total = 0
    for g in range(ints.shape[1]):
        held = ints[RUNNING, g] + ints[SENT, g] + ints[RESERVED, g]
        free[g] = max(0, ints[FREE_AT_MOST, g] + margin - held)
        total += free[g]
    return total


@declared(None if INT is None else INT(I2, INT, I1, I1, INT, I1))
def idle_workers(ints, margin, gathers, worker, waiting, found):
    """Workers that run nothing, are offered something, and that an answer sends nothing to.

    Args:
        ints: the mirror's columns.
        margin: slots that a worker may be sent beyond its own.
        gathers: int64[G], 1 for groups that wait for more and are offered nothing.
        worker: int64[>= waiting], the answer.
        found: int64[G], written: the workers, in order.

    Returns:
        How many there are.
    """
    count = 0
    for g in range(ints.shape[1]):
        held = ints[RUNNING, g] + ints[SENT, g] + ints[RESERVED, g] + ints[FOREIGN, g]
        found[count] = g
        count += held == 0 and ints[FREE_AT_MOST, g] + margin > 0 and gathers[ints[GROUP, g]] == 0
    if count == 0:
        return 0
    left = 0
    for place in range(count):
        is_sent = False
        for i in range(waiting):
            if worker[i] == found[place]:
                is_sent = True
                break
        if not is_sent:
            found[left] = found[place]
            left += 1
    return left


@jit
def lightest_first(floats, order):
    """Workers in ascending order of what they hold and were sent, those that are equal in their own; written to int64[G]."""
    for g in range(order.size):
        load, place = floats[LOAD, g] + floats[SENT_LOAD, g], g
        while place > 0 and floats[LOAD, order[place - 1]] + floats[SENT_LOAD, order[place - 1]] > load:
            order[place] = order[place - 1]
            place -= 1
        order[place] = g


@jit
def offer(free, most, order):
    """Lower int64[G] `free` so that its sum is `most`: the largest first, to one level; what is left over goes by `order`.

    Args:
        order: int64[G], workers, those first that are to have one slot more.
    """
    low, high = 0, most  # the largest level whose sum is not above `most`
    while low < high:
        level, total = (low + high + 1) // 2, 0
        for g in range(free.size):
            total += min(free[g], level)
        if total <= most:
            low = level
        else:
            high = level - 1
    left = most
    for g in range(free.size):
        left -= min(free[g], low)
    for place in range(free.size):
        g = order[place]
        if free[g] > low:
            free[g] = low + (1 if left > 0 else 0)
            left -= 1


@jit
def window(ints, waiting, most, shares, shown):
    """The requests a round looks at: the oldest ones, as many of each class as are there, up to an even share.

    Args:
        ints: the table of requests.
        waiting: int64[W], rows, oldest first.
        most: requests to be shown, below W.
        shares: int64[C], working space; classes from C - 1 on share one.
        shown: int64[most], written: rows, oldest first.
    """
    C = shares.size
    for c in range(C):
        shares[c] = 0
    for i in range(waiting.size):
        shares[min(ints[CLASS, waiting[i]], C - 1)] += 1
    low, high = 0, most
    while low < high:
        level, total = (low + high + 1) // 2, 0
        for c in range(C):
            total += min(shares[c], level)
        if total <= most:
            low = level
        else:
            high = level - 1
    for c in range(C):
        shares[c] = min(shares[c], low)
    left = most
    for c in range(C):
        left -= shares[c]
    count = 0
    for i in range(waiting.size):
        c = min(ints[CLASS, waiting[i]], C - 1)
        if shares[c] > 0:
            shares[c] -= 1
        elif shares[c] == 0 and left > 0:  # one more for the classes that are first
            shares[c] = -1
            left -= 1
        else:
            continue
        shown[count] = waiting[i]
        count += 1


@jit
def show_workers(ints, floats, free, reserve, workers_i, workers_f):
    """The workers as a policy sees them.

    Args:
        ints, floats: the mirror's columns.
        free: int64[G], slots each may be sent.
        reserve: KV tokens kept free for the growth of every request.
        workers_i, workers_f: as in `routing.view`, written.
    """
    for g in range(ints.shape[1]):
        running, load = ints[RUNNING, g] + ints[FOREIGN, g], floats[LOAD, g] + floats[FOREIGN_LOAD, g]
        workers_i[at.GROUP, g], workers_i[at.QUEUED, g] = ints[GROUP, g], ints[SENT, g]
        workers_i[at.FREE_SLOTS, g], workers_i[at.RUNNING, g] = free[g], running
        workers_f[at.LOAD, g], workers_f[at.QUEUED_LOAD, g] = load, floats[SENT_LOAD, g]
        taken = load + floats[SENT_LOAD, g] + reserve * (running + ints[SENT, g])
        workers_f[at.KV_FREE, g] = max(0.0, floats[CAPACITY, g] - taken)
        workers_f[at.SECONDS_PER_TOKEN, g] = floats[SECONDS_PER_TOKEN, g]


@jit
def show_waiting(ints, floats, waiting, waiting_i, waiting_f):
    """The waiting requests as a policy sees them.

    Args:
        ints, floats: the table of requests.
        waiting: int64[W], their rows.
        waiting_i, waiting_f: as in `routing.view`, the first W columns are written.
    """
    for i in range(waiting.size):
        row = waiting[i]
        request, session, key = ints[REQUEST, row], ints[SESSION, row], ints[KEY, row]
        waiting_i[at.ID, i], waiting_i[at.CLASS, i] = request, ints[CLASS, row]
        waiting_i[at.KEY, i] = session if session != 0 else key if key != 0 else request
        waiting_f[at.WAITING_LOAD, i] = ints[PROMPT, row] + ints[PRODUCED, row]
        waiting_f[at.SINCE_S, i] = floats[SINCE, row]
        expected = float(ints[EXPECTED, row])
        waiting_f[at.STEPS, i] = expected if expected > 0.0 else float("nan")


@declared(None if INT is None else INT(I1, INT, I2, F2, F2, I1, F1))
def holds(worker, waiting, workers_i, workers_f, waiting_f, slots, tokens):
    """Whether an answer keeps the contract's limits: known workers, their free slots and KV memory.

    Args:
        worker: int64[>= W], of each waiting request.
        slots, tokens: int64[G] and float64[G], working space.
    """
    for g in range(slots.size):
        slots[g], tokens[g] = workers_i[at.FREE_SLOTS, g], 0.0
    for i in range(waiting):
        g = worker[i]
        if g == HOLD:
            continue
        if g < HOLD or g >= slots.size or slots[g] == 0:
            return False
        slots[g] -= 1
        tokens[g] += waiting_f[at.WAITING_LOAD, i]
    fits = True
    for g in range(slots.size):
        fits = fits and tokens[g] <= workers_f[at.KV_FREE, g]
    return fits


_SHOW = I2, F2, I2, F2, INT, INT, INT, INT, INT, FLOAT, I1, I1, I1, I1, I1, I2, F2, I2, F2, I1


@declared(None if INT is None else INT(*_SHOW))
def show(
    rows_i, rows_f, ints, floats, pool, size, most, margin, offered, reserve,
    gathers, shares, free, order, waiting, workers_i, workers_f, waiting_i, waiting_f, worker,
):  # fmt: skip
    """All that a policy sees of a round, unless no slot is free: then nothing but `free` is written.

    Args:
        rows_i, rows_f: the table of requests. ints, floats: the mirror's columns.
        pool, size: address and number of the rows that wait, oldest first, int64.
        most: of them that are shown, at most; no more than `size`.
        margin: slots that a worker may be sent beyond its own.
        offered: slots of all workers together that are offered at most, 0 = all.
        reserve: KV tokens kept free for the growth of every request.
        gathers: int64[G], 1 for groups that wait for more and are offered nothing.
        shares: int64[C]. order: int64[G]. Working space.
        free: int64[G], written: slots each worker is offered.
        waiting: int64[>= most], written: the rows that are shown.
        workers_i, workers_f, waiting_i, waiting_f: as in `routing.view`, written.
        worker: int64[>= most], the answer, written: all `HOLD`.

    Returns:
        Free slots, offered or not.
    """
    free_slots(ints, margin, free)
    total = 0
    for g in range(free.size):
        if gathers[ints[GROUP, g]] != 0:
            free[g] = 0
        total += free[g]
    if total == 0:
        return 0
    if offered != 0 and total > offered:
        lightest_first(floats, order)
        offer(free, offered, order)
    here, shown = array_at(pool, size, np.int64), waiting[:most]
    if most < size:
        window(rows_i, here, most, shares, shown)
    else:
        for i in range(size):
            shown[i] = here[i]
    for i in range(most):
        worker[i] = HOLD
    show_workers(ints, floats, free, reserve, workers_i, workers_f)
    show_waiting(rows_i, rows_f, shown, waiting_i, waiting_f)
    return total
