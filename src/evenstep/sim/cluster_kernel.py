# pyright: basic
# ruff: noqa: F403, F405 - the names of the state's sections are this file's vocabulary
"""The compiled loop of the decode cluster; `cluster.py` gives the order of events, `cluster_reference.py` the same in plain Python.

Loads are int64 in units of 1 / `SCALE` tokens, so sums are exact in any order. With a linear drift a worker's load
grows by ``running * delta`` a step and requests leave through a calendar of completions keyed by finish step, so a step
costs one pass over G plus its completions and admissions. The loop stops (see `RUNNING ... BROKEN` in `cluster_layout`)
at decisions of plain policies, at predictions, and when a buffer is full, and goes on where it stood.
"""

from __future__ import annotations

import math

import numpy as np

from evenstep.compiled import F1, F2, I1, I2, INT, ROUTE_TYPE, declared, inlined, jit
from evenstep.routing.view import (
    FREE_SLOTS, GROUP, HOLD, ID, KV_FREE, LOAD, QUEUED, QUEUED_LOAD, SINCE_S, WAITING_LOAD,
)  # fmt: skip
from evenstep.routing.view import RUNNING as ON_WORKER
from evenstep.sim.cluster_layout import *
from evenstep.sim.pool_kernel import carried, drop_carry, heap_pop, heap_push, push, remove_sent

# What links[] holds when sessions are replayed: per row offsets of its successors, the successors, per row its session,
# per session requests left (counted down), per session offsets of its roots, the roots.


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
        return profile[row + 1] - profile[row]
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


@inlined
def reveal_row(sc, sf, waiting_i, waiting_f, columns, row, prompt, profile, since):
    """A request the cluster has not seen before enters the pool."""
    load = weight(sc[PROFILE_KIND], row, 0, prompt[row] * sc[SCALE], sc[DELTA], profile)
    push(sc, waiting_i, waiting_f, columns, row, load * sf[UNIT], since)


@jit
def window_add(sc, slot_i, leaves, slot, delta, sign):
    """Enter (or take back) a slot's departure in its worker's window of departures."""
    g = slot // sc[SLOTS_MAX]
    leave = slot_i[slot, LEAVE]
    column = leave & sc[WINDOW_MASK]
    leaves[0, g, column] += sign
    leaves[1, g, column] += sign * (slot_i[slot, LOAD0] + (leave - slot_i[slot, ADMIT]) * delta)
    slot_i[slot, IN_WINDOW] = 1 if sign > 0 else 0


@inlined
def seat(sc, sf, wi, worker_i, load, group_i, slot_i, slot_f, free_stack, buckets, leaves, carry_i, carry_f,
         row, g, units, since, output, profile):  # fmt: skip
    """A request starts on worker g at its group's coming step."""
    q = wi[GROUP, g]
    top = worker_i[SLOTS_OF, g] - wi[ON_WORKER, g] - 1
    slot = free_stack[g, top]
    step = group_i[STEP, q]
    done = 0
    slot_i[slot, SLOT_RESTARTS] = 0
    slot_f[slot, ADMITTED] = sf[NOW]
    slot_f[slot, FIRST_TOKEN] = -1.0
    if sc[CARRIED] > 0:
        at = carried(sc, carry_i, row)
        if at >= 0:
            done = carry_i[at, C_DONE]
            slot_i[slot, SLOT_RESTARTS] = carry_i[at, C_RESTARTS]
            if carry_f[at, C_ADMITTED] >= 0.0:
                slot_f[slot, ADMITTED] = carry_f[at, C_ADMITTED]
            slot_f[slot, FIRST_TOKEN] = carry_f[at, C_FIRST_TOKEN]
            drop_carry(sc, carry_i, carry_f, at)
    finish = step + steps_of(sc, row, output, profile) - done - 1
    bucket = finish & sc[RING_MASK]
    mine = slot_i[slot]
    mine[ROW], mine[ON], mine[FINISH], mine[ADMIT], mine[LOAD0], mine[DONE0] = (
        row,
        g,
        finish,
        step,
        units,
        done,
    )
    mine[PREDICTED], mine[IN_WINDOW], mine[LEAVE] = -1, 0, NEVER
    mine[FOLLOWER] = buckets[q, bucket]
    slot_f[slot, VISIBLE] = since
    buckets[q, bucket] = slot
    load[g] += units
    wi[ON_WORKER, g] += 1
    group_i[GROUP_RUNNING, q] += 1
    group_i[GROUP_ADMITTED, q] += 1
    sc[RUNNING_ALL] += 1
    if sc[PREDICTION] == 1:
        slot_i[slot, LEAVE] = finish + 1
        if sc[PROFILE_KIND] == 0 and finish + 1 <= step + sc[HORIZON]:
            window_add(sc, slot_i, leaves, slot, sc[DELTA], 1)


@inlined
def unseat(sc, wi, load, step, slot_i, free_stack, worker_i, leaves, slot, units):
    """A slot falls free: its worker's sums, stack of free slots and window of departures; the group's sums are the caller's."""
    g = slot_i[slot, ON]
    load[g] -= units
    running = wi[ON_WORKER, g] - 1
    wi[ON_WORKER, g] = running
    free_stack[g, worker_i[SLOTS_OF, g] - running - 1] = slot
    if slot_i[slot, IN_WINDOW] == 1 and slot_i[slot, LEAVE] > step:
        window_add(sc, slot_i, leaves, slot, sc[DELTA], -1)
    slot_i[slot, ROW] = -1


@jit
def send_back(sc, sf, wi, worker_i, load, group_i, slot_i, slot_f, free_stack, buckets, leaves, carry_i, carry_f,
              waiting_i, waiting_f, columns, slot, profile, prompt):  # fmt: skip
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
    # a request sent back before its first step has not been admitted
    started = done > 0
    carry_f[at, C_ADMITTED] = slot_f[slot, ADMITTED] if started else -1.0
    carry_f[at, C_FIRST_TOKEN] = slot_f[slot, FIRST_TOKEN]
    sc[RESTARTS] += 1
    push(sc, waiting_i, waiting_f, columns, row, units * sf[UNIT], slot_f[slot, VISIBLE])
    unseat(sc, wi, load, group_i[STEP, q], slot_i, free_stack, worker_i, leaves, slot, units)
    group_i[GROUP_RUNNING, q] -= 1
    sc[RUNNING_ALL] -= 1


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


@jit
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


@jit
def project(sc, sf, wi, load, group_i, slot_i, leaves, projections, prompt, profile):
    """Projected load of the running requests, [G, H+1], from the windows of departures."""
    G, H, delta, unit = sc[WORKERS], sc[HORIZON], sc[DELTA], sf[UNIT]
    B = sc[SLOTS_MAX]
    if sc[PROFILE_KIND] == 0:
        mask = sc[WINDOW_MASK]
        for g in range(G):
            step = group_i[STEP, wi[GROUP, g]]
            units, count = load[g], wi[ON_WORKER, g]
            projections[g, 0] = units * unit
            for h in range(1, H + 1):
                column = (step + h) & mask
                units += count * delta - leaves[1, g, column]
                count -= leaves[0, g, column]
                projections[g, h] = units * unit
        return
    for g in range(G):
        step = group_i[STEP, wi[GROUP, g]]
        for h in range(H + 1):
            projections[g, h] = 0.0
        for slot in range(g * B, (g + 1) * B):
            row = slot_i[slot, ROW]
            if row >= 0:
                age = slot_i[slot, DONE0] + step - slot_i[slot, ADMIT]
                base = prompt[row] * sc[SCALE]
                for h in range(min(H + 1, slot_i[slot, LEAVE] - step)):
                    projections[g, h] += weight(sc[PROFILE_KIND], row, age + h, base, delta, profile) * unit


@jit
def due_predictions(sc, wi, group_i, slot_i, due):
    """List the slots whose prediction is missing, old or overtaken, by worker; they are answered in `due`."""
    count = 0
    B = sc[SLOTS_MAX]
    for g in range(sc[WORKERS]):
        if wi[ON_WORKER, g] == 0:
            continue
        step = group_i[STEP, wi[GROUP, g]]
        for slot in range(g * B, (g + 1) * B):
            if slot_i[slot, ROW] < 0:
                continue
            predicted = slot_i[slot, PREDICTED]
            every = sc[REFRESH_EVERY]
            if (
                predicted < 0
                or (step - predicted) * sc[TOKENS_PER_STEP] >= every
                or slot_i[slot, LEAVE] <= step
            ):
                due[count] = slot
                count += 1
    sc[DUE_COUNT] = count


@jit
def take_predictions(sc, wi, group_i, slot_i, leaves, due, answer):
    """Enter the host's answers: `answer[i]` is the slot's steps left, or a negative number for "not in the window"."""
    for i in range(sc[DUE_COUNT]):
        slot = due[i]
        step = group_i[STEP, wi[GROUP, slot // sc[SLOTS_MAX]]]
        if slot_i[slot, IN_WINDOW] == 1 and slot_i[slot, LEAVE] > step:
            window_add(sc, slot_i, leaves, slot, sc[DELTA], -1)
        slot_i[slot, IN_WINDOW] = 0
        slot_i[slot, PREDICTED] = step
        slot_i[slot, LEAVE] = NEVER
        if answer[i] >= 0.0:
            slot_i[slot, LEAVE] = step + max(np.int64(1), np.int64(math.ceil(answer[i])))
            if sc[PROFILE_KIND] == 0:
                window_add(sc, slot_i, leaves, slot, sc[DELTA], 1)
    sc[DUE_COUNT] = 0


@jit
def overloaded(sc, waiting_f):
    """BF-IO's Definition 1: without its most frequent load the pool still fills all free slots."""
    W, C = sc[WAITING], sc[FREE_TOTAL]
    if W < C:
        return False
    if C == 0:
        return True
    # A class that breaks it has more than W - C members, so at least C of any 2C - 1 requests: look for a majority there.
    first = sc[FIRST]
    span = min(W, 2 * C - 1)
    candidate, votes = 0.0, 0
    for i in range(first, first + span):
        value = waiting_f[WAITING_LOAD, i]
        if votes == 0:
            candidate, votes = value, 1
        elif value == candidate:
            votes += 1
        else:
            votes -= 1
    same = 0
    for i in range(first, first + span):
        same += waiting_f[WAITING_LOAD, i] == candidate
    if same < C:
        return True
    for i in range(first + span, first + W):
        same += waiting_f[WAITING_LOAD, i] == candidate
    return W - same >= C


@inlined
def build_view(sc, sf, wi, wf, load, projections, group_i, slot_i, leaves, prompt, profile):
    """Bring what the policy sees up to date."""
    unit = sf[UNIT]
    for g in range(sc[WORKERS]):
        wf[LOAD, g] = load[g] * unit
    if sc[KV_LIMITED] == 1:
        for g in range(sc[WORKERS]):
            used = wf[LOAD, g] + wf[QUEUED_LOAD, g] + sf[KV_RESERVE] * (wi[ON_WORKER, g] + wi[QUEUED, g])
            wf[KV_FREE, g] = max(0.0, sf[KV_TOKENS] - used)
    if sc[WAITS] > 0:
        sf[MEAN_WAIT] = sf[WAIT_SUM] / sc[WAITS]
    if sc[HORIZON] > 0:
        project(sc, sf, wi, load, group_i, slot_i, leaves, projections, prompt, profile)


@jit
def advance_window(sc, group_i, slot_i, buckets, leaves, q, low, high):
    """The windows of departures of a group move on by one step."""
    step = group_i[STEP, q]
    if (
        sc[PREDICTION] == 1
    ):  # the oracle: who leaves just inside the new end of the window stands in one bucket
        slot = buckets[q, (step + sc[HORIZON] - 1) & sc[RING_MASK]]
        while slot >= 0:
            if slot_i[slot, LEAVE] == step + sc[HORIZON] and slot_i[slot, IN_WINDOW] == 0:
                window_add(sc, slot_i, leaves, slot, sc[DELTA], 1)
            slot = slot_i[slot, FOLLOWER]
    else:  # who was expected to have left by now and has not is out of the window until predicted anew
        column = step & sc[WINDOW_MASK]
        for g in range(low, high):
            leaves[0, g, column] = 0
            leaves[1, g, column] = 0


@inlined
def complete_group(sc, sf, wi, worker_i, load, group_i, slot_i, slot_f, free_stack, buckets, leaves,
                   heap_f, heap_i, links, think, prompt, output, arrival, profile, ended, done_i, done_f, q):  # fmt: skip
    """A group's step ends: growth, completions, the next step number. FLUSH or GROW when a buffer is full."""
    status = RUNNING
    step = group_i[STEP, q]
    low = group_i[GROUP_FIRST, q]
    high = low + group_i[GROUP_SIZE, q]
    kind, delta, B = sc[PROFILE_KIND], sc[DELTA], sc[SLOTS_MAX]
    if group_i[GROWN, q] == 0:
        group_i[GROWN, q] = 1
        if kind == 0:
            loads, running = load[low:high], wi[ON_WORKER, low:high]
            for g in range(loads.size):
                loads[g] += running[g] * delta
        else:
            for slot in range(low * B, high * B):
                row = slot_i[slot, ROW]
                if row >= 0:
                    age = slot_i[slot, DONE0] + step - slot_i[slot, ADMIT]
                    base = prompt[row] * sc[SCALE]
                    load[slot // B] += weight(kind, row, age + 1, base, delta, profile) - weight(
                        kind, row, age, base, delta, profile
                    )
    bucket = step & sc[RING_MASK]
    slot = buckets[q, bucket]
    at, tokens, left, freed = sc[REQUEST_ROWS], sc[OUTPUT_TOKENS], 0, 0
    now = sf[NOW]
    while slot >= 0:
        row = slot_i[slot, ROW]
        if at == ended.size:
            status = FLUSH
            break
        if sc[ARRIVALS] >= USERS and sc[HEAP_SIZE] + follow_ups(sc, links, row) >= heap_i.size:
            status = GROW
            break
        g = slot_i[slot, ON]
        done = slot_i[slot, DONE0] + step + 1 - slot_i[slot, ADMIT]
        if kind == 0:
            units = slot_i[slot, LOAD0] + (step + 1 - slot_i[slot, ADMIT]) * delta
        else:
            units = weight(kind, row, done, prompt[row] * sc[SCALE], delta, profile)
        made = output[row]
        kept = row if sc[KEEP] == 1 else at
        done_i[0, kept], done_i[1, kept], done_i[2, kept] = row, g, slot_i[slot, ADMIT]
        done_i[3, kept], done_i[4, kept] = step, slot_i[slot, SLOT_RESTARTS]
        done_f[0, kept] = arrival[row] if sc[ARRIVALS] == TIMED else slot_f[slot, VISIBLE]
        done_f[1, kept], done_f[2, kept], done_f[3, kept] = (
            slot_f[slot, ADMITTED],
            slot_f[slot, FIRST_TOKEN],
            now,
        )
        ended[at] = row
        at += 1
        tokens += made
        following = slot_i[slot, FOLLOWER]
        unseat(sc, wi, load, step, slot_i, free_stack, worker_i, leaves, slot, units)
        left += 1
        if worker_i[UP, g] == 1:  # what is running and queued never exceeds slots and depth
            wi[FREE_SLOTS, g] += 1
            freed += 1
        if sc[ARRIVALS] >= USERS:
            follow_up(sc, sf, heap_f, heap_i, links, think, row)
        slot = following
    buckets[q, bucket] = slot
    sc[COMPLETED] += left
    sc[RUNNING_ALL] -= left
    group_i[GROUP_RUNNING, q] -= left
    sc[REQUEST_ROWS], sc[OUTPUT_TOKENS] = at, tokens
    sc[FREE_TOTAL] += freed
    if status == RUNNING:
        group_i[STEP, q] = step + 1
        if sc[HORIZON] > 0 and kind == 0:
            advance_window(sc, group_i, slot_i, buckets, leaves, q, low, high)
    return status


@jit
def apply_outages(sc, sf, wi, wf, worker_i, load, group_i, slot_i, slot_f, free_stack, buckets, leaves, carry_i, carry_f,
                  waiting_i, waiting_f, queue_i, queue_f, outages, columns, prompt, profile, q):  # fmt: skip
    """Outages due in group q (q = -1: the earliest pending ones, wherever). GROW when the pool has no room."""
    B = sc[SLOTS_MAX]
    earliest = NEVER
    for i in range(outages.shape[0]):
        if outages[i, 3] == 0:
            earliest = min(earliest, outages[i, 0])
    for i in range(outages.shape[0]):
        g = outages[i, 1]
        if outages[i, 3] == 1:
            continue
        if q >= 0 and (wi[GROUP, g] != q or outages[i, 0] > group_i[STEP, q]):
            continue
        if q < 0 and outages[i, 0] != earliest:
            continue
        if outages[i, 2] == 0:
            need = wi[ON_WORKER, g] + wi[QUEUED, g]
            if sc[WAITING] + need > waiting_i.shape[1] or sc[CARRIED] + need > carry_i.shape[0]:
                return GROW
            for slot in range(g * B, (g + 1) * B):
                if slot_i[slot, ROW] >= 0:
                    send_back(sc, sf, wi, worker_i, load, group_i, slot_i, slot_f, free_stack, buckets, leaves, carry_i,
                              carry_f, waiting_i, waiting_f, columns, slot, profile, prompt)  # fmt: skip
            while wi[QUEUED, g] > 0:
                node = dequeue(sc, sf, wi, wf, worker_i, group_i, queue_i, g)
                push(
                    sc,
                    waiting_i,
                    waiting_f,
                    columns,
                    queue_i[node, Q_ROW],
                    queue_i[node, Q_LOAD] * sf[UNIT],
                    queue_f[node],
                )
        worker_i[UP, g] = outages[i, 2]
        outages[i, 3] = 1
        sc[OUTAGES_LEFT] -= 1
        set_free(sc, wi, worker_i, g)
    return RUNNING


@inlined
def apply_decision(sc, sf, wi, wf, worker_i, load, group_i, slot_i, slot_f, free_stack, buckets, leaves, carry_i, carry_f,
                   waiting_i, waiting_f, queue_i, queue_f, fresh, worker, output, profile):  # fmt: skip
    """Carry out the answer in `worker`: start or queue what is sent. BROKEN, and what, when it breaks the contract."""
    status = RUNNING
    first = sc[FIRST]
    offered = 1 if sc[INSTANT] == 1 else sc[WAITING]
    possible = min(offered, sc[FREE_TOTAL])
    sent, last = 0, -1
    for i in range(offered):
        g = worker[i]
        if g == HOLD:
            continue
        if g < HOLD or g >= sc[WORKERS]:
            sc[ERROR_KIND], sc[ERROR_WORKER], sc[ERROR_AT] = UNKNOWN_WORKER, g, i
            status = BROKEN
            break
        if wi[FREE_SLOTS, g] <= 0:
            sc[ERROR_KIND], sc[ERROR_WORKER], sc[ERROR_AT] = OVER_SLOTS, g, i
            status = BROKEN
            break
        tokens = waiting_f[WAITING_LOAD, first + i]
        if sc[KV_LIMITED] == 1:
            wf[KV_FREE, g] -= tokens
            if wf[KV_FREE, g] < 0.0:
                sc[ERROR_KIND], sc[ERROR_WORKER], sc[ERROR_AT] = OVER_KV, g, i
                status = BROKEN
                break
        row, since = waiting_i[ID, first + i], waiting_f[SINCE_S, first + i]
        units = np.int64(tokens * sc[SCALE])
        if sc[CARRIED] == 0 or carried(sc, carry_i, row) < 0:
            sf[WAIT_SUM] += sf[NOW] - since
            sc[WAITS] += 1
        q = wi[GROUP, g]
        if group_i[BUSY, q] == 0 and wi[QUEUED, g] == 0 and wi[ON_WORKER, g] < worker_i[SLOTS_OF, g]:
            fresh[sc[FRESH_COUNT]] = free_stack[g, worker_i[SLOTS_OF, g] - wi[ON_WORKER, g] - 1]
            sc[FRESH_COUNT] += 1
            seat(sc, sf, wi, worker_i, load, group_i, slot_i, slot_f, free_stack, buckets, leaves, carry_i, carry_f,
                 row, g, units, since, output, profile)  # fmt: skip
        else:
            enqueue(sc, sf, wi, wf, worker_i, group_i, queue_i, queue_f, row, g, units, since)
        wi[FREE_SLOTS, g] -= 1
        sc[FREE_TOTAL] -= 1
        sent += 1
        last = i
        if sent == possible:
            beyond = np.int64(HOLD)
            rest = worker[i + 1 : offered]
            for j in range(rest.size):
                beyond = max(beyond, rest[j])
            if beyond > HOLD:
                sc[ERROR_KIND], sc[ERROR_WORKER], sc[ERROR_AT] = OVER_SLOTS, beyond, i + 1
                status = BROKEN
            break
    if sent > 0 and status == RUNNING:
        remove_sent(sc, waiting_i, waiting_f, worker, last)
    sc[ADMITTED_NOW] = sent
    return status


@jit
def refill_slots(sc, sf, wi, wf, worker_i, load, group_i, slot_i, slot_f, free_stack, buckets, leaves, carry_i, carry_f,
                 queue_i, queue_f, fresh, output, profile, q):  # fmt: skip
    """Queues of a group's workers move up into free slots."""
    for g in range(group_i[GROUP_FIRST, q], group_i[GROUP_FIRST, q] + group_i[GROUP_SIZE, q]):
        while wi[QUEUED, g] > 0 and wi[ON_WORKER, g] < worker_i[SLOTS_OF, g]:
            node = dequeue(sc, sf, wi, wf, worker_i, group_i, queue_i, g)
            fresh[sc[FRESH_COUNT]] = free_stack[g, worker_i[SLOTS_OF, g] - wi[ON_WORKER, g] - 1]
            sc[FRESH_COUNT] += 1
            seat(sc, sf, wi, worker_i, load, group_i, slot_i, slot_f, free_stack, buckets, leaves, carry_i, carry_f,
                 queue_i[node, Q_ROW], g, queue_i[node, Q_LOAD], queue_f[node], output, profile)  # fmt: skip


@jit
def evict_overflow(sc, sf, wi, worker_i, load, group_i, slot_i, slot_f, free_stack, buckets, leaves, carry_i, carry_f,
                   waiting_i, waiting_f, columns, prompt, profile, q):  # fmt: skip
    """Workers beyond their KV memory send their newest requests back. GROW when the pool has no room."""
    B = sc[SLOTS_MAX]
    for g in range(group_i[GROUP_FIRST, q], group_i[GROUP_FIRST, q] + group_i[GROUP_SIZE, q]):
        while load[g] * sf[UNIT] > sf[KV_TOKENS] and wi[ON_WORKER, g] > 1:
            if sc[WAITING] == waiting_i.shape[1] or sc[CARRIED] == carry_i.shape[0]:
                return GROW
            newest = -1
            for slot in range(g * B, (g + 1) * B):
                if slot_i[slot, ROW] >= 0 and (
                    newest < 0
                    or slot_i[slot, ADMIT] > slot_i[newest, ADMIT]
                    or (
                        slot_i[slot, ADMIT] == slot_i[newest, ADMIT]
                        and slot_i[slot, ROW] > slot_i[newest, ROW]
                    )
                ):
                    newest = slot
            send_back(sc, sf, wi, worker_i, load, group_i, slot_i, slot_f, free_stack, buckets, leaves, carry_i,
                      carry_f, waiting_i, waiting_f, columns, newest, profile, prompt)  # fmt: skip
            set_free(sc, wi, worker_i, g)
    return RUNNING


@inlined
def root(x, table):
    """x ** exponent from the table (`cluster_layout.root_table`); x is held inside its range."""
    bits = np.float64(x).view(np.int64)
    cell = np.uintp(min(max((bits >> 43) - ((1023 + ROOT_OCTAVES[0]) << 9), 0), table.size - 2))
    part = (bits & 0x7FFFFFFFFFF) * 1.1368683772161603e-13
    return table[cell] + part * (table[cell + np.uintp(1)] - table[cell])


@jit
def energy(running, load, local, law_kind, slope, overhead, duration, count_power, table, busy):
    """Joules of one step of a group beyond idle power, without the factor `SPAN_W`: (busy/idle, step average).

    The arrays are the group's own parts; `busy` is working space. No branch inside, so that the loop runs in lanes.
    """
    whole = root(duration, table)
    for g in range(running.size):
        seconds = slope * load[g] if law_kind == 0 else local[g]
        x = overhead + seconds
        busy[g] = min(x, count_power[np.uintp(running[g])] * root(x, table))
    worked, average = 0.0, 0.0
    for g in range(running.size):
        worked += busy[g]
        average += min(duration, count_power[np.uintp(running[g])] * whole)
    return worked, average


@jit
def local_times(load, unit, law, local, low, high):
    """Local seconds of workers low..high-1 under a piecewise-linear law; returns (largest, sum)."""
    P = law.shape[1]
    rows = law.shape[0] - 1
    largest, total = 0.0, 0.0
    for g in range(low, high):
        tokens = load[g] * unit
        cell = 0
        while cell < P - 2 and tokens >= law[0, cell + 1]:
            cell += 1
        row = 1 + g % rows
        slope = (law[row, cell + 1] - law[row, cell]) / (law[0, cell + 1] - law[0, cell])
        seconds = law[row, cell] + slope * (tokens - law[0, cell])
        local[0, g] = seconds
        total += seconds
        if g == low or seconds > largest:
            largest = seconds
    return largest, total


@jit
def sample(sc, sf, wi, load, group_i, sample_i, sample_f, sample_load, sample_running):
    """Keep every worker's load at each stride-th step of group 0; a full table drops every other row."""
    at = sc[SAMPLES]
    if at == sample_i.size:
        half = at // 2
        for i in range(half):
            sample_i[i] = sample_i[2 * i]
            sample_f[i, 0], sample_f[i, 1] = sample_f[2 * i, 0], sample_f[2 * i, 1]
            for g in range(sc[WORKERS]):
                sample_load[i, g] = sample_load[2 * i, g]
                sample_running[i, g] = sample_running[2 * i, g]
        sc[STRIDE] *= 2
        sc[SAMPLES] = half
        at = half
        if group_i[STEP, 0] % sc[STRIDE] != 0:
            return
    sample_i[at] = group_i[STEP, 0]
    sample_f[at, 0] = sf[NOW]
    sample_f[at, 1] = 0.0
    for g in range(sc[WORKERS]):
        sample_load[at, g] = load[g] * sf[UNIT]
        sample_running[at, g] = wi[ON_WORKER, g]
    sc[SAMPLES] = at + 1


@inlined
def start_step(sc, sf, wi, load, group_i, group_f, local, count_power, table, law, out_i, out_f, q):
    """Measure a group that has running requests and start its step. The caller has seen to a free row in the records."""
    low = group_i[GROUP_FIRST, q]
    high = low + group_i[GROUP_SIZE, q]
    unit = sf[UNIT]
    loads = load[low:high]
    top, bottom, total = loads[0], loads[0], np.int64(0)
    for g in range(loads.size):
        top = max(top, loads[g])
        bottom = min(bottom, loads[g])
        total += loads[g]
    overhead = group_f[OVERHEAD, q]
    if sc[LAW_KIND] == 0:
        largest = sf[SLOPE] * (top * unit)
        summed = sf[SLOPE] * (total * unit)
    else:
        largest, summed = local_times(load, unit, law, local, low, high)
    duration = overhead + largest
    at = sc[STEP_ROWS]
    sc[STEP_ROWS] = at + 1
    tokens = group_i[GROUP_RUNNING, q] * sc[TOKENS_PER_STEP]
    out_i[0, at], out_i[1, at], out_i[2, at] = q, group_i[STEP, q], group_i[GROUP_RUNNING, q]
    out_i[3, at], out_i[4, at], out_i[5, at] = sc[RUNNING_ALL], group_i[GROUP_ADMITTED, q], tokens
    out_f[0, at], out_f[1, at], out_f[2, at], out_f[3, at] = sf[NOW], duration, top * unit, total * unit
    out_f[4, at], out_f[5, at], out_f[6, at] = bottom * unit, largest, summed
    if sc[ENERGY] == 1:
        busy, average = energy(wi[ON_WORKER, low:high], loads, local[0, low:high], sc[LAW_KIND], sf[SLOPE] * unit, overhead,
                               duration, count_power, table, local[1, low:high])  # fmt: skip
        idle = sf[IDLE_W] * duration * group_i[GROUP_SIZE, q]
        out_f[7, at], out_f[8, at] = idle + sf[SPAN_W] * busy, idle + sf[SPAN_W] * average
    sc[LOAD_STEPS] += total
    sc[ACTIVE_STEPS] += group_i[GROUP_RUNNING, q]
    sc[STEPS] += 1
    sc[OVERLOADED] += sc[OVERLOADED_NOW]
    group_i[GROUP_ADMITTED, q] = 0
    group_i[GROWN, q] = 0
    group_i[BUSY, q] = 1
    group_f[END, q] = sf[NOW] + duration


@jit
def next_event(sc, sf, group_i, group_f, heap_f, heap_i, arrival, prompt):
    """Move time to the next event and name the groups at their boundary. DONE or STUCK when there is none."""
    end, idle = math.inf, False
    for q in range(sc[GROUPS]):
        group_i[BOUNDARY, q] = 0
        if group_i[BUSY, q] == 1:
            end = min(end, group_f[END, q])
        else:
            idle = True
    if (idle and sc[ARRIVALS] != SATURATED) or sc[INSTANT] == 1:
        visible = next_visible(sc, sf, heap_f, heap_i, arrival, prompt)
        if visible < end:
            sf[NOW] = max(sf[NOW], visible)
            sc[PHASE] = REVEAL
            return RUNNING
    if end < math.inf:
        sf[NOW] = end
        for q in range(sc[GROUPS]):
            if group_i[BUSY, q] == 1 and group_f[END, q] == end:
                group_i[BOUNDARY, q] = 1
                group_i[BUSY, q] = 0
        sc[PHASE] = COMPLETE
        return RUNNING
    if sc[COMPLETED] == sc[REQUESTS]:
        return DONE
    return STUCK


@jit
def loop(route, sc, sf, wi, wf, load, worker_i, group_i, group_f, slot_i, slot_f, free_stack, buckets,
         waiting_i, waiting_f, worker, heap_i, heap_f, carry_i, carry_f, queue_i, queue_f, outages, leaves, memory,
         scratch_i, scratch_f, due, due_f, projections, growth, parameters, count_power, table, local, fresh,
         ended, step_i, step_f, decision_i, decision_f, sample_i, sample_f, sample_load, sample_running,
         prompt, output, arrival, columns, links, think, profile, law, cached, done_i, done_f):  # fmt: skip
    """Go on until the run is done or the host is needed; answers why."""
    while True:
        phase = sc[PHASE]
        if phase == NEXT:
            status = next_event(sc, sf, group_i, group_f, heap_f, heap_i, arrival, prompt)
            if status == STUCK and sc[OUTAGES_LEFT] > 0:
                status = apply_outages(sc, sf, wi, wf, worker_i, load, group_i, slot_i, slot_f, free_stack, buckets,
                                       leaves, carry_i, carry_f, waiting_i, waiting_f, queue_i, queue_f, outages, columns,
                                       prompt, profile, -1)  # fmt: skip
                sc[PHASE] = REVEAL if status == RUNNING else NEXT
            if status != RUNNING:
                return status
            phase = sc[PHASE]
        if phase == COMPLETE:
            for q in range(sc[GROUPS]):
                if group_i[BOUNDARY, q] == 1:
                    status = complete_group(sc, sf, wi, worker_i, load, group_i, slot_i, slot_f, free_stack, buckets, leaves,
                                            heap_f, heap_i, links, think, prompt, output, arrival, profile,
                                            ended, done_i, done_f, q)  # fmt: skip
                    if status != RUNNING:
                        return status
                    group_i[BOUNDARY, q] = 2
                if group_i[BOUNDARY, q] == 2 and sc[OUTAGES_LEFT] > 0:
                    status = apply_outages(sc, sf, wi, wf, worker_i, load, group_i, slot_i, slot_f, free_stack, buckets,
                                           leaves, carry_i, carry_f, waiting_i, waiting_f, queue_i, queue_f, outages,
                                           columns, prompt, profile, q)  # fmt: skip
                    if status != RUNNING:
                        return status
            phase = REVEAL
        if phase == REVEAL:
            sc[PHASE] = REVEAL
            status = reveal(sc, sf, heap_f, heap_i, arrival, prompt, profile, columns, waiting_i, waiting_f)
            if status != RUNNING:
                return status
            sc[OVERLOADED_NOW] = overloaded(sc, waiting_f)
            phase = DECIDE
        while phase == DECIDE or phase == APPLY:
            if phase == DECIDE:
                if sc[WAITING] == 0 or sc[FREE_TOTAL] == 0:
                    phase = START
                    break
                sc[PHASE] = DECIDE
                if sc[PREDICTION] == 2:
                    if sc[DUE_COUNT] == 0:
                        due_predictions(sc, wi, group_i, slot_i, due)
                        if sc[DUE_COUNT] > 0:
                            return PREDICT
                    take_predictions(sc, wi, group_i, slot_i, leaves, due, due_f)
                build_view(sc, sf, wi, wf, load, projections, group_i, slot_i, leaves, prompt, profile)
                sc[PHASE] = APPLY
                if route is None:
                    return DECISION
                offered = 1 if sc[INSTANT] == 1 else sc[WAITING]
                sf[BOUND] = route(sc[DECISIONS], sc[SEED], sf[NOW], sf[MEAN_WAIT], sc[FIRST], offered, wi, wf, waiting_i,
                                  waiting_f, projections, growth, cached, memory, parameters, scratch_i, scratch_f, worker)  # fmt: skip
            if sc[RECORD_DECISIONS] == 1 and sc[DECISION_ROWS] == decision_i.shape[0]:
                return FLUSH
            if sc[FREE_TOTAL] > queue_i.shape[0] - sc[QUEUED_ALL] and (
                min(sc[WAITING], sc[FREE_TOTAL]) > queue_i.shape[0] - sc[QUEUED_ALL]
            ):
                return GROW
            waiting, free = sc[WAITING], sc[FREE_TOTAL]
            status = apply_decision(sc, sf, wi, wf, worker_i, load, group_i, slot_i, slot_f, free_stack, buckets, leaves,
                                    carry_i, carry_f, waiting_i, waiting_f, queue_i, queue_f, fresh, worker,
                                    output, profile)  # fmt: skip
            if status != RUNNING:
                return status
            if sc[RECORD_DECISIONS] == 1:
                at = sc[DECISION_ROWS]
                sc[DECISION_ROWS] = at + 1
                decision_i[at, 0], decision_i[at, 1] = sc[DECISIONS], waiting
                decision_i[at, 2], decision_i[at, 3] = free, sc[ADMITTED_NOW]
                decision_f[at, 0], decision_f[at, 1] = sf[NOW], sf[BOUND]
            sc[DECISIONS] += 1
            phase = DECIDE if sc[INSTANT] == 1 and sc[ADMITTED_NOW] > 0 else START
        sc[PHASE] = START
        for q in range(sc[GROUPS]):
            if group_i[BUSY, q] == 1:
                continue
            if group_i[GROUP_QUEUED, q] > 0:
                refill_slots(sc, sf, wi, wf, worker_i, load, group_i, slot_i, slot_f, free_stack, buckets, leaves, carry_i,
                             carry_f, queue_i, queue_f, fresh, output, profile, q)  # fmt: skip
            if sc[KV_LIMITED] == 1:
                status = evict_overflow(sc, sf, wi, worker_i, load, group_i, slot_i, slot_f, free_stack, buckets, leaves,
                                        carry_i, carry_f, waiting_i, waiting_f, columns, prompt, profile, q)  # fmt: skip
                if status != RUNNING:
                    return status
            if group_i[GROUP_RUNNING, q] == 0:
                group_i[GROUP_ADMITTED, q] = 0
                continue
            if sc[STEP_ROWS] == step_i.shape[1]:
                return FLUSH
            if q == 0 and sc[STRIDE] > 0 and group_i[STEP, 0] % sc[STRIDE] == 0:
                sample(sc, sf, wi, load, group_i, sample_i, sample_f, sample_load, sample_running)
            start_step(sc, sf, wi, load, group_i, group_f, local, count_power, table, law, step_i, step_f, q)
            if q == 0 and sc[SAMPLES] > 0 and sample_i[sc[SAMPLES] - 1] == group_i[STEP, 0]:
                sample_f[sc[SAMPLES] - 1, 1] = group_f[END, 0] - sf[NOW]
        for i in range(sc[FRESH_COUNT]):
            slot = fresh[i]
            if slot_i[slot, ROW] >= 0 and slot_f[slot, FIRST_TOKEN] < 0.0:
                slot_f[slot, FIRST_TOKEN] = group_f[END, wi[GROUP, slot // sc[SLOTS_MAX]]]
        sc[FRESH_COUNT] = 0
        sc[PHASE] = NEXT


#: Types of `State.arguments`.
STATE_TYPES = (I1, I1, I1, F1, I1, I1, F1, I2, I1, F1, I1, F2, F2, I2, F2)


def continued(route, at_i, at_f, ints, floats, prompt, output, arrival, columns, links, think, profile, law, cached,
              done_i, done_f):  # fmt: skip
    """Take the windows of the two buffers and go on: see `loop`."""
    sc = ints[at_i[SCALARS_I] : at_i[SCALARS_I + 1]]
    sf = floats[at_f[SCALARS_F] : at_f[SCALARS_F + 1]]
    G, NG, B, H = sc[WORKERS], sc[GROUPS], sc[SLOTS_MAX], sc[HORIZON]
    S, window, ring = G * B, sc[WINDOW_MASK] + 1, sc[RING_MASK] + 1
    cap, heap, carry, queue, outages = (
        sc[POOL_ROOM],
        sc[HEAP_ROOM],
        sc[CARRY_ROOM],
        sc[QUEUE_ROOM],
        sc[OUTAGE_ROWS],
    )
    rows, decisions, samples = sc[RECORD_ROOM], sc[DECISION_ROOM], sc[SAMPLE_ROOM]
    return loop(
        route,
        sc,
        sf,
        ints[at_i[WORKERS_I] : at_i[WORKERS_I] + 4 * G].reshape((4, G)),
        floats[at_f[WORKERS_F] : at_f[WORKERS_F] + 4 * G].reshape((4, G)),
        ints[at_i[LOADS] : at_i[LOADS] + G],
        ints[at_i[WORKER_INTS] : at_i[WORKER_INTS] + 4 * G].reshape((4, G)),
        ints[at_i[GROUP_INTS] : at_i[GROUP_INTS] + 9 * NG].reshape((9, NG)),
        floats[at_f[GROUP_FLOATS] : at_f[GROUP_FLOATS] + 3 * NG].reshape((3, NG)),
        ints[at_i[SLOT_INTS] : at_i[SLOT_INTS] + 12 * S].reshape((S, 12)),
        floats[at_f[SLOT_FLOATS] : at_f[SLOT_FLOATS] + 4 * S].reshape((S, 4)),
        ints[at_i[FREE_STACK] : at_i[FREE_STACK] + S].reshape((G, B)),
        ints[at_i[BUCKETS] : at_i[BUCKETS] + NG * ring].reshape((NG, ring)),
        ints[at_i[WAITING_I] : at_i[WAITING_I] + 3 * cap].reshape((3, cap)),
        floats[at_f[WAITING_F] : at_f[WAITING_F] + 3 * cap].reshape((3, cap)),
        ints[at_i[WORKER_OUT] : at_i[WORKER_OUT] + cap],
        ints[at_i[HEAP_I] : at_i[HEAP_I] + heap],
        floats[at_f[HEAP_F] : at_f[HEAP_F] + heap],
        ints[at_i[CARRY_I] : at_i[CARRY_I] + 3 * carry].reshape((carry, 3)),
        floats[at_f[CARRY_F] : at_f[CARRY_F] + 2 * carry].reshape((carry, 2)),
        ints[at_i[QUEUE_I] : at_i[QUEUE_I] + 3 * queue].reshape((queue, 3)),
        floats[at_f[QUEUE_F] : at_f[QUEUE_F] + queue],
        ints[at_i[OUTAGES] : at_i[OUTAGES] + 4 * outages].reshape((outages, 4)),
        ints[at_i[LEAVES] : at_i[LEAVES] + 2 * G * window].reshape((2, G, window)),
        ints[at_i[MEMORY] : at_i[MEMORY] + sc[MEMORY_WORDS]],
        ints[at_i[SCRATCH_I] : at_i[SCRATCH_I + 1]],
        floats[at_f[SCRATCH_F] : at_f[SCRATCH_F + 1]],
        ints[at_i[DUE] : at_i[DUE + 1]],
        floats[at_f[DUE_F] : at_f[DUE_F + 1]],
        floats[at_f[PROJECTIONS] : at_f[PROJECTIONS] + G * sc[PROJECTED]].reshape((G, sc[PROJECTED])),
        floats[at_f[GROWTH] : at_f[GROWTH] + H + 1],
        floats[at_f[PARAMETERS] : at_f[PARAMETERS + 1]],
        floats[at_f[COUNT_POWER] : at_f[COUNT_POWER + 1]],
        floats[at_f[ROOT_TABLE] : at_f[ROOT_TABLE] + sc[ROOT_SIZE]],
        floats[at_f[BUSY_LOCAL] : at_f[BUSY_LOCAL] + 2 * G].reshape((2, G)),
        ints[at_i[FRESH] : at_i[FRESH + 1]],
        ints[at_i[ENDED] : at_i[ENDED] + rows],
        ints[at_i[STEP_OUT_I] : at_i[STEP_OUT_I] + 6 * rows].reshape((6, rows)),
        floats[at_f[STEP_OUT_F] : at_f[STEP_OUT_F] + 9 * rows].reshape((9, rows)),
        ints[at_i[DECISION_OUT_I] : at_i[DECISION_OUT_I] + 4 * decisions].reshape((decisions, 4)),
        floats[at_f[DECISION_OUT_F] : at_f[DECISION_OUT_F] + 2 * decisions].reshape((decisions, 2)),
        ints[at_i[SAMPLE_I] : at_i[SAMPLE_I] + samples],
        floats[at_f[SAMPLE_F] : at_f[SAMPLE_F] + 2 * samples].reshape((samples, 2)),
        floats[at_f[SAMPLE_LOAD] : at_f[SAMPLE_LOAD] + samples * G].reshape((samples, G)),
        ints[at_i[SAMPLE_RUNNING] : at_i[SAMPLE_RUNNING] + samples * G].reshape((samples, G)),
        prompt,
        output,
        arrival,
        columns,
        links,
        think,
        profile,
        law,
        cached,
        done_i,
        done_f,
    )


#: The compiled door: the policy's kernel is a value of the one declared type, so the loop comes from the disk cache.
advance = declared(None if INT is None else INT(ROUTE_TYPE, *STATE_TYPES))(continued)
