# pyright: basic
# ruff: noqa: F403, F405 - the names of the state's sections are this file's vocabulary
"""Slots and queues of the compiled cluster: who starts where, who leaves, who goes back to the pool."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import inlined, jit
from evenstep.predict.window_kernel import enter
from evenstep.routing.view import FREE_SLOTS, GROUP, LOAD, QUEUED, QUEUED_LOAD
from evenstep.routing.view import RUNNING as ON_WORKER
from evenstep.sim.cluster_layout import *
from evenstep.sim.pool_kernel import carried, drop_carry, push


@jit
def weight(kind, row, age, prompt, delta, profile):
    """Load units of a request after `age` steps: linear, common sequence, or its own profile."""
    if kind == 0:
        return prompt + age * delta
    if kind == 1:
        return max(np.int64(0), prompt + profile[min(age, profile.size - 1)])
    return profile[min(profile[row] + age, profile[row + 1] - 1)]


@jit
def steps_of(sc, row, output, profile):
    """Decode steps of a request."""
    if sc[PROFILE_KIND] == 2:
        return profile[np.int64(row) + 1] - profile[row]
    m = sc[TOKENS_PER_STEP]
    return output[row] if m == 1 else (output[row] + m - 1) // m


@inlined
def set_free(sc, wi, worker_i, g):
    """Recompute the requests worker g may still be sent."""
    room = 0
    if worker_i[UP, g] == 1:
        room = max(np.int64(0), worker_i[SLOTS_OF, g] + sc[DEPTH] - wi[ON_WORKER, g] - wi[QUEUED, g])
    sc[FREE_TOTAL] += room - wi[FREE_SLOTS, g]
    wi[FREE_SLOTS, g] = room


@jit
def window_add(sc, slot_i, look, leaves, slot, delta, sign):
    """Enter (or take back) a slot's departure in its worker's window of departures."""
    g = slot_i[slot, ON]
    leave = look[slot, LEAVE]
    column = leave & sc[WINDOW_MASK]
    enter(
        leaves[0, g], leaves[1, g], column, slot_i[slot, LOAD0] + (leave - slot_i[slot, ADMIT]) * delta, sign
    )
    look[slot, IN_WINDOW] = 1 if sign > 0 else 0


@inlined
def units_of(sc, slot_i, slot, step, prompt, profile):
    """Load units of the request in a slot at a step of its group."""
    mine = slot_i[slot]
    if sc[PROFILE_KIND] == 0:
        return mine[LOAD0] + (step - mine[ADMIT]) * sc[DELTA]
    row, age = mine[ROW], mine[DONE0] + step - mine[ADMIT]
    return weight(sc[PROFILE_KIND], row, age, prompt[row] * sc[SCALE], sc[DELTA], profile)


@jit
def longest_units(sc, worker_i, slot_i, prompt, profile, g, step):
    """Load units of the longest request on worker g at its group's coming step; 0 where none runs.

    Requests that grow alike keep their order, so the slot of the longest is looked for only when that request has left; a
    newcomer is compared when it starts (`seat`). Others are looked at every step.
    """
    known = worker_i[LONGEST_SLOT, g]
    if known >= 0 and sc[PROFILE_KIND] == 0:
        return units_of(sc, slot_i, known, step, prompt, profile)
    most, found = np.int64(0), np.int64(-1)
    for slot in range(g * sc[SLOTS_MAX], (g + 1) * sc[SLOTS_MAX]):
        if slot_i[slot, ROW] >= 0:
            units = units_of(sc, slot_i, slot, step, prompt, profile)
            if found < 0 or units > most:
                most, found = units, slot
    worker_i[LONGEST_SLOT, g] = found
    return most


@inlined
def seat(sc, sf, wi, wf, worker_i, load, group_i, slot_i, slot_f, look, free_stack, buckets, leaves, carry_i, carry_f,
         row, g, units, since, output, profile):  # fmt: skip
    """A request starts on worker g at its group's coming step."""
    w = np.uintp(g)  # unsigned indices: numba then makes no allowance for negative ones
    q = np.uintp(wi[GROUP, w])
    slot = free_stack[w, np.uintp(worker_i[SLOTS_OF, w] - wi[ON_WORKER, w] - 1)]
    mine, times = slot_i[np.uintp(slot)], slot_f[np.uintp(slot)]
    step = group_i[STEP, q]
    done, restarts = 0, 0
    times[VISIBLE] = since
    if sc[CARRIED] > 0:
        at = carried(sc, carry_i, row)
        if at >= 0:
            done, restarts = carry_i[at, C_DONE], carry_i[at, C_RESTARTS]
            times[ADMITTED], times[FIRST_TOKEN] = carry_f[at, C_ADMITTED], carry_f[at, C_FIRST_TOKEN]
            drop_carry(sc, carry_i, carry_f, at)
    finish = step + steps_of(sc, np.uintp(row), output, profile) - done - 1
    bucket = np.uintp(finish & sc[RING_MASK])
    mine[ROW], mine[ON], mine[FINISH], mine[ADMIT] = row, g, finish, step
    mine[LOAD0], mine[DONE0], mine[SLOT_RESTARTS] = units, done, restarts
    mine[FOLLOWER] = buckets[q, bucket]
    buckets[q, bucket] = slot
    loaded = load[w] + units
    load[w], wf[LOAD, w] = loaded, loaded * sf[UNIT]
    wi[ON_WORKER, w] += 1
    group_i[GROUP_RUNNING, q] += 1
    group_i[GROUP_ADMITTED, q] += 1
    sc[RUNNING_ALL] += 1
    if sc[LAW_KIND] == LINES_OF_LONGEST and worker_i[LONGEST_SLOT, w] >= 0:
        known = slot_i[worker_i[LONGEST_SLOT, w]]
        if units > known[LOAD0] + (step - known[ADMIT]) * sc[DELTA]:
            worker_i[LONGEST_SLOT, w] = slot
    if sc[HORIZON] > 0:
        look[slot, PREDICTED], look[slot, IN_WINDOW], look[slot, LEAVE] = -1, 0, NEVER
        if sc[PREDICTION] == 1:
            look[slot, LEAVE] = finish + 1
            if sc[PROFILE_KIND] == 0 and finish + 1 <= step + sc[HORIZON]:
                window_add(sc, slot_i, look, leaves, slot, sc[DELTA], 1)


@inlined
def unseat(sc, sf, wi, wf, load, step, slot_i, look, free_stack, worker_i, leaves, slot, units):
    """A slot falls free: its worker's sums, free slots and window of departures; the group's sums are the caller's."""
    mine = slot_i[np.uintp(slot)]
    g = np.uintp(mine[ON])
    loaded = load[g] - units
    load[g], wf[LOAD, g] = loaded, loaded * sf[UNIT]
    running = wi[ON_WORKER, g] - 1
    wi[ON_WORKER, g] = running
    free_stack[g, np.uintp(worker_i[SLOTS_OF, g] - running - 1)] = slot
    mine[ROW] = -1
    if sc[LAW_KIND] == LINES_OF_LONGEST and worker_i[LONGEST_SLOT, g] == slot:
        worker_i[LONGEST_SLOT, g] = -1
    if sc[HORIZON] > 0 and look[slot, IN_WINDOW] == 1 and look[slot, LEAVE] > step:
        window_add(sc, slot_i, look, leaves, slot, sc[DELTA], -1)


@inlined
def first_admitted(sc, mine, times, step_times, q):
    """When the request in a slot first began to decode."""
    if mine[SLOT_RESTARTS] > 0 and times[ADMITTED] >= 0.0:
        return times[ADMITTED]
    return step_times[BEGAN, q, np.uintp(mine[ADMIT] & sc[RING_MASK])]


@inlined
def first_token(sc, mine, times, step_times, q):
    """When the first decode step of the request in a slot ended."""
    if mine[SLOT_RESTARTS] > 0 and times[FIRST_TOKEN] >= 0.0:
        return times[FIRST_TOKEN]
    return step_times[ENDED_AT, q, np.uintp(mine[ADMIT] & sc[RING_MASK])]


@jit
def send_back(sc, sf, wi, wf, worker_i, load, group_i, slot_i, slot_f, look, step_times, free_stack, buckets, leaves,
              carry_i, carry_f, waiting_i, waiting_f, columns, slot, profile, prompt):  # fmt: skip
    """A running request goes back to the pool with what it produced."""
    g = slot // sc[SLOTS_MAX]
    q = wi[GROUP, g]
    row = slot_i[slot, ROW]
    bucket = slot_i[slot, FINISH] & sc[RING_MASK]
    if buckets[q, bucket] == slot:
        buckets[q, bucket] = slot_i[slot, FOLLOWER]
    else:
        before = buckets[q, bucket]
        while slot_i[before, FOLLOWER] != slot:
            before = slot_i[before, FOLLOWER]
        slot_i[before, FOLLOWER] = slot_i[slot, FOLLOWER]
    done = slot_i[slot, DONE0] + group_i[STEP, q] - slot_i[slot, ADMIT]
    units = weight(sc[PROFILE_KIND], row, done, prompt[row] * sc[SCALE], sc[DELTA], profile)
    at = sc[CARRIED]
    sc[CARRIED] = at + 1
    carry_i[at, C_ROW] = row
    carry_i[at, C_DONE] = done
    carry_i[at, C_RESTARTS] = slot_i[slot, SLOT_RESTARTS] + 1
    mine, times = slot_i[slot], slot_f[slot]
    carry_f[at, C_ADMITTED] = first_admitted(sc, mine, times, step_times, q)
    carry_f[at, C_FIRST_TOKEN] = first_token(sc, mine, times, step_times, q)
    if group_i[STEP, q] == mine[ADMIT]:  # sent back before its step began
        carry_f[at, C_ADMITTED] = times[ADMITTED] if mine[SLOT_RESTARTS] > 0 else -1.0
        carry_f[at, C_FIRST_TOKEN] = times[FIRST_TOKEN] if mine[SLOT_RESTARTS] > 0 else -1.0
    sc[RESTARTS] += 1
    push(sc, waiting_i, waiting_f, columns, row, units * sf[UNIT], slot_f[slot, VISIBLE])
    unseat(sc, sf, wi, wf, load, group_i[STEP, q], slot_i, look, free_stack, worker_i, leaves, slot, units)
    group_i[GROUP_RUNNING, q] -= 1
    sc[RUNNING_ALL] -= 1


@jit
def send_queue_back(
    sc, sf, wi, wf, worker_i, group_i, queue_i, queue_f, carry_i, carry_f, waiting_i, waiting_f, columns, g
):
    """The requests in worker g's queue go back to the pool."""
    while wi[QUEUED, g] > 0:
        node = dequeue(sc, sf, wi, wf, worker_i, group_i, queue_i, g)
        row = queue_i[node, Q_ROW]
        at = carried(sc, carry_i, row)
        if at < 0:
            at = sc[CARRIED]
            sc[CARRIED] = at + 1
            carry_i[at, C_ROW], carry_i[at, C_DONE], carry_i[at, C_RESTARTS] = row, 0, 0
            carry_f[at, C_ADMITTED], carry_f[at, C_FIRST_TOKEN] = -1.0, -1.0
        carry_i[at, C_RESTARTS] += 1
        sc[RESTARTS] += 1
        push(sc, waiting_i, waiting_f, columns, row, queue_i[node, Q_LOAD] * sf[UNIT], queue_f[node])


@jit
def enqueue(sc, sf, wi, wf, worker_i, group_i, queue_i, queue_f, row, g, units, since):
    """A request joins worker g's first-in-first-out queue."""
    node = sc[QUEUE_FREE]
    sc[QUEUE_FREE] = queue_i[node, Q_NEXT]
    queue_i[node, Q_ROW] = row
    queue_i[node, Q_NEXT] = -1
    queue_i[node, Q_LOAD] = units
    queue_f[node] = since
    if worker_i[QUEUE_TAIL, g] >= 0:
        queue_i[worker_i[QUEUE_TAIL, g], Q_NEXT] = node
    else:
        worker_i[QUEUE_HEAD, g] = node
    worker_i[QUEUE_TAIL, g] = node
    wi[QUEUED, g] += 1
    wf[QUEUED_LOAD, g] += units * sf[UNIT]
    group_i[GROUP_QUEUED, wi[GROUP, g]] += 1
    sc[QUEUED_ALL] += 1


@jit
def dequeue(sc, sf, wi, wf, worker_i, group_i, queue_i, g):
    """Take the head of worker g's queue; answers its node, still readable until the next `enqueue`."""
    node = worker_i[QUEUE_HEAD, g]
    worker_i[QUEUE_HEAD, g] = queue_i[node, Q_NEXT]
    if queue_i[node, Q_NEXT] < 0:
        worker_i[QUEUE_TAIL, g] = -1
    queue_i[node, Q_NEXT] = sc[QUEUE_FREE]
    sc[QUEUE_FREE] = node
    wi[QUEUED, g] -= 1
    wf[QUEUED_LOAD, g] -= queue_i[node, Q_LOAD] * sf[UNIT]
    group_i[GROUP_QUEUED, wi[GROUP, g]] -= 1
    sc[QUEUED_ALL] -= 1
    return node
