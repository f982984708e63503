"""Compiled parts of a round: the arrays that a policy reads, free slots, and the check of its answer."""

from __future__ import annotations

from typing import NamedTuple

from evenstep import compiled
from evenstep.compiled import F1, F2, FLOAT, I1, I2, INT, Ints, IntTable, Table, declared, part
from evenstep.dispatch.fleet.mirror import WorkerColumns
from evenstep.dispatch.requests.rows import RequestColumns
from evenstep.request import F8, I8
from evenstep.routing import view as at
from evenstep.routing.view import HOLD

_REQUESTS, _WORKERS = compiled.struct(RequestColumns), compiled.struct(WorkerColumns)


@declared(None if INT is None else INT(_WORKERS, INT, I1, I1, INT, I1))
def idle_workers(workers: WorkerColumns, margin: int, gathers: I8, worker: I8, waiting: int, found: I8) -> int:
    """List workers that hold no request, foreign or not, may be sent some, and get nothing by an answer; returns how many.

    Args:
        workers: the mirror's columns.
        margin: slots that a worker may be sent beyond its own.
        gathers: int64[G], 1 for groups that wait for more and are offered nothing.
        worker: int64[>= waiting], the answer to `waiting` requests.
        found: int64[G], written: places of the workers, ascending, at its front.
    """
    count = 0
    for g in range(len(workers.group)):
        held = workers.running[g] + workers.sent[g] + workers.reserved[g] + workers.foreign[g]
        found[count] = g
        count += held == 0 and workers.free_at_most[g] + margin > 0 and gathers[workers.group[g]] == 0
    left = 0
    for place in range(count):
        for i in range(waiting):
            if worker[i] == found[place]:
                break
        else:
            found[left] = found[place]
            left += 1
    return left


@declared(None if INT is None else INT(I1, INT))
def admitted(worker: I8, waiting: int) -> int:
    """How many of `waiting` requests an answer, int64[>= waiting], does not hold."""
    count = 0
    for i in range(waiting):
        count += worker[i] != HOLD
    return count


@part
def lightest_first(workers: WorkerColumns, order: I8) -> None:
    """Write the places of all workers to int64[G] `order`, by ascending KV tokens running and sent; ties by place."""
    for g in range(order.size):
        load, place = workers.load[g] + workers.sent_load[g], g
        while place > 0 and workers.load[order[place - 1]] + workers.sent_load[order[place - 1]] > load:
            order[place] = order[place - 1]
            place -= 1
        order[place] = g


@part
def level_of(values: I8, most: int) -> tuple[int, int]:
    """The largest level, up to `most`, for which ``sum(min(value, level))`` is at most `most`; and `most` less that sum."""
    low, high = 0, most
    while low < high:
        level, total = (low + high + 1) // 2, 0
        for i in range(values.size):
            total += min(values[i], level)
        if total <= most:
            low = level
        else:
            high = level - 1
    left = most
    for i in range(values.size):
        left -= min(values[i], low)
    return low, left


@part
def offer(free: I8, most: int, order: I8) -> None:
    """Lower the largest of int64[G] `free`, in place, to one level, so that the sum is `most`; a smaller sum stays.

    `order`: int64[G], places of workers: the first lowered ones in it get one slot above the level, to reach the sum.
    """
    low, left = level_of(free, most)
    for place in range(free.size):
        g = order[place]
        if free[g] > low:
            free[g] = low + (1 if left > 0 else 0)
            left -= 1


@part
def window(rows: RequestColumns, waiting: I8, most: int, shares: I8, shown: I8) -> None:
    """Select the requests a round looks at: the oldest of each class, up to an even share of `most`.

    What a small class leaves of its share goes to the others, so exactly `most` are selected.

    Args:
        rows: the table of requests.
        waiting: int64[W], rows, oldest first.
        most: number of requests to be shown, below W.
        shares: int64[C], working space; classes from C - 1 on share one.
        shown: int64[most], written: rows, oldest first.
    """
    C = shares.size
    for c in range(C):
        shares[c] = 0
    for i in range(waiting.size):
        shares[min(rows.request_class[waiting[i]], C - 1)] += 1
    low, left = level_of(shares, most)
    for c in range(C):
        shares[c] = min(shares[c], low)
    count = 0
    for i in range(waiting.size):
        c = min(rows.request_class[waiting[i]], C - 1)
        if shares[c] > 0:
            shares[c] -= 1
        elif shares[c] == 0 and left > 0:  # one more for the classes that are first
            shares[c] = -1
            left -= 1
        else:
            continue
        shown[count] = waiting[i]
        count += 1


@part
def show_workers(workers: WorkerColumns, free: I8, reserve: float, workers_i: I8, workers_f: F8) -> None:
    """Write the workers' part of the policy's view to `workers_i` and `workers_f`.

    `free`: int64[G], slots offered. `reserve`: KV tokens kept free for each request; free KV memory is 0 or more.
    """
    for g in range(len(workers.group)):
        running, load = workers.running[g] + workers.foreign[g], workers.load[g] + workers.foreign_load[g]
        workers_i[at.GROUP, g], workers_i[at.QUEUED, g] = workers.group[g], workers.sent[g]
        workers_i[at.FREE_SLOTS, g], workers_i[at.RUNNING, g] = free[g], running
        workers_f[at.LOAD, g], workers_f[at.QUEUED_LOAD, g] = load, workers.sent_load[g]
        taken = load + workers.sent_load[g] + reserve * (running + workers.sent[g])
        workers_f[at.KV_FREE, g] = max(0.0, workers.capacity[g] - taken)
        workers_f[at.SECONDS_PER_TOKEN, g] = workers.seconds_per_token[g]


@part
def show_waiting(rows: RequestColumns, waiting: I8, waiting_i: I8, waiting_f: F8) -> None:
    """Write the part of the policy's view with the requests in these rows to `waiting_i` and `waiting_f`."""
    for i in range(waiting.size):
        row = waiting[i]
        request, session, key = rows.request[row], rows.session[row], rows.key[row]
        waiting_i[at.ID, i], waiting_i[at.CLASS, i] = request, rows.request_class[row]
        waiting_i[at.KEY, i] = session if session != 0 else key if key != 0 else request
        waiting_f[at.WAITING_LOAD, i] = rows.prompt[row] + rows.produced[row]
        waiting_f[at.SINCE_S, i] = rows.since_s[row]
        expected = float(rows.expected[row])
        waiting_f[at.STEPS, i] = expected if expected > 0.0 else float("nan")


@declared(None if INT is None else INT(I1, INT, I2, F2, F2, I1, F1))
def holds(worker: I8, waiting: int, workers_i: I8, workers_f: F8, waiting_f: F8, slots: I8, tokens: F8) -> int:
    """Whether an answer names known workers and respects their free slots and KV memory: 1 or 0.

    Args:
        worker: int64[>= W], the answer: a place for each request, or `HOLD`, which is always allowed.
        waiting: W.
        workers_i, workers_f, waiting_f: as in `routing.view`.
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


class Shown(NamedTuple):
    """The arrays that `show` writes, and its working space; W is at least the number of requests shown."""

    gathers: Ints  # [G], read: 1 for groups that wait for more and are offered nothing
    shares: Ints  # [C], working space of `window`
    order: Ints  # [G], working space
    free: Ints  # [G], slots each worker is offered
    waiting: Ints  # [W], the rows that are shown
    workers_i: IntTable  # as in `routing.view`
    workers_f: Table  # as in `routing.view`
    waiting_i: IntTable  # as in `routing.view`
    waiting_f: Table  # as in `routing.view`
    worker: Ints  # [W], the answer: `HOLD` is written for each request shown
    idle: Ints  # [1], number of workers that run nothing (`idle_workers` without an answer)


@declared(None if INT is None else INT(_REQUESTS, _WORKERS, I1, INT, INT, INT, FLOAT, compiled.struct(Shown)))
def show(
    rows: RequestColumns,
    workers: WorkerColumns,
    pool: I8,
    most: int,
    margin: int,
    offered: int,
    reserve: float,
    shown: Shown,
) -> int:
    """Write all that a policy sees of a round to `shown`; if no slot is free, only `free` and `idle`.

    Args:
        rows: the table of requests.
        workers: the mirror's columns.
        pool: the rows that wait, in the order of the pool.
        most: the largest number of them to show; at most the pool's size.
        margin: slots that a worker may be sent beyond its own.
        offered: slots of all workers together that are offered at most, 0 = all.
        reserve: KV tokens kept free for the growth of every request.

    Returns the number of free slots in all groups that do not gather, offered or not.
    """
    free, waiting = shown.free, shown.waiting[:most]
    total = idle = 0
    for g in range(free.size):
        held = workers.running[g] + workers.sent[g] + workers.reserved[g]
        is_offered = shown.gathers[workers.group[g]] == 0
        free[g] = max(0, workers.free_at_most[g] + margin - held) if is_offered else 0
        total += free[g]
        idle += held == 0 and workers.foreign[g] == 0 and free[g] > 0
    shown.idle[0] = idle
    if total == 0:
        return 0
    if offered != 0 and total > offered:
        lightest_first(workers, shown.order)
        offer(free, offered, shown.order)
    if most < pool.size:
        window(rows, pool, most, shown.shares, waiting)
    else:
        for i in range(most):
            waiting[i] = pool[i]
    for i in range(most):
        shown.worker[i] = HOLD
    show_workers(workers, free, reserve, shown.workers_i, shown.workers_f)
    show_waiting(rows, waiting, shown.waiting_i, shown.waiting_f)
    return int(total)
