# pyright: basic
# ruff: noqa: F403, F405 - the names of the state's sections are this file's vocabulary
"""The events between two steps of the compiled cluster: completions, outages, decisions, overflow."""

from __future__ import annotations

import math

import numpy as np

from evenstep.compiled import inlined, jit
from evenstep.routing.view import FREE_SLOTS, GROUP, HOLD, ID, KV_FREE, LOAD, QUEUED, SINCE_S, WAITING_LOAD
from evenstep.routing.view import RUNNING as ON_WORKER
from evenstep.sim.arrivals_kernel import follow_up, follow_ups, next_visible
from evenstep.sim.cluster_layout import *
from evenstep.sim.lookahead_kernel import advance_window
from evenstep.sim.pool_kernel import carried, take_out
from evenstep.sim.slots_kernel import (
    dequeue,
    enqueue,
    first_admitted,
    first_token,
    seat,
    send_back,
    send_queue_back,
    set_free,
    unseat,
    weight,
)


@inlined
def complete_group(sc, sf, wi, wf, worker_i, load, group_i, slot_i, slot_f, look, step_times, free_stack, buckets, leaves,
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
            loads, running, shown, unit = (
                load[low:high],
                wi[ON_WORKER, low:high],
                wf[LOAD, low:high],
                sf[UNIT],
            )
            for g in range(loads.size):
                loads[g] += running[g] * delta
                shown[g] = loads[g] * unit
        else:
            for slot in range(low * B, high * B):
                row = slot_i[slot, ROW]
                if row >= 0:
                    age = slot_i[slot, DONE0] + step - slot_i[slot, ADMIT]
                    base = prompt[row] * sc[SCALE]
                    g = slot_i[slot, ON]
                    after = weight(kind, row, age + 1, base, delta, profile)
                    load[g] += after - weight(kind, row, age, base, delta, profile)
                    wf[LOAD, g] = load[g] * sf[UNIT]
    bucket = step & sc[RING_MASK]
    slot = buckets[q, bucket]
    keep = sc[KEEP] == 1
    listed = not keep or sc[PREDICTION] == 2  # somebody reads the list of those that ended
    at, tokens, left, freed = sc[REQUEST_ROWS], sc[OUTPUT_TOKENS], 0, 0
    now = sf[NOW]
    while slot >= 0:
        mine, times = slot_i[np.uintp(slot)], slot_f[np.uintp(slot)]
        row, g = mine[ROW], mine[ON]
        if at == ended.size:
            if listed:
                status = FLUSH
                break
            at = 0
        if sc[ARRIVALS] >= USERS and sc[HEAP_SIZE] + follow_ups(sc, links, row) >= heap_i.size:
            status = GROW
            break
        # unsigned indices: numba then makes no allowance for negative ones
        r, worker, kept = np.uintp(row), np.uintp(g), np.uintp(row if keep else at)
        if kind == 0:
            units = mine[LOAD0] + (step + 1 - mine[ADMIT]) * delta
        else:
            done = mine[DONE0] + step + 1 - mine[ADMIT]
            units = weight(kind, row, done, prompt[row] * sc[SCALE], delta, profile)
        ints, floats = done_i[kept], done_f[kept]
        ints[D_WORKER], ints[D_ADMITTED_STEP], ints[D_FINISHED_STEP] = g, mine[ADMIT], step
        ints[D_RESTARTS] = mine[SLOT_RESTARTS]
        floats[D_VISIBLE] = arrival[r] if sc[ARRIVALS] == TIMED else times[VISIBLE]
        floats[D_ADMITTED] = first_admitted(sc, mine, times, step_times, q)
        floats[D_FIRST_TOKEN], floats[D_FINISHED] = first_token(sc, mine, times, step_times, q), now
        ended[np.uintp(at)] = row
        at += 1
        tokens += output[r]
        following = mine[FOLLOWER]
        unseat(sc, sf, wi, wf, load, step, slot_i, look, free_stack, worker_i, leaves, slot, units)
        left += 1
        if worker_i[UP, worker] == 1:  # what is running and queued never exceeds slots and depth
            wi[FREE_SLOTS, worker] += 1
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
            advance_window(sc, group_i, slot_i, look, buckets, leaves, q, low, high)
    return status


@jit
def apply_outages(sc, sf, wi, wf, worker_i, load, group_i, slot_i, slot_f, look, step_times, free_stack, buckets,
                  leaves, carry_i, carry_f,
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
                    send_back(sc, sf, wi, wf, worker_i, load, group_i, slot_i, slot_f, look, step_times, free_stack,
                              buckets, leaves, carry_i,
                              carry_f, waiting_i, waiting_f, columns, slot, profile, prompt)  # fmt: skip
            send_queue_back(sc, sf, wi, wf, worker_i, group_i, queue_i, queue_f, carry_i, carry_f,
                            waiting_i, waiting_f, columns, g)  # fmt: skip
        worker_i[UP, g] = outages[i, 2]
        outages[i, 3] = 1
        sc[OUTAGES_LEFT] -= 1
        set_free(sc, wi, worker_i, g)
    return RUNNING


@inlined
def apply_decision(sc, sf, wi, wf, worker_i, load, group_i, slot_i, slot_f, look, free_stack, buckets, leaves,
                   carry_i, carry_f, waiting_i, waiting_f, queue_i, queue_f, worker, output, profile):  # fmt: skip
    """Carry out the answer in `worker`: start or queue what is sent. BROKEN, and what, when it breaks the contract."""
    status = RUNNING
    first = sc[FIRST]
    offered = 1 if sc[INSTANT] == 1 else sc[WAITING]
    possible = min(offered, sc[FREE_TOTAL])
    sent, last = 0, -1
    waited, waits = sf[WAIT_SUM], sc[WAITS]
    for i in range(offered):
        g = worker[np.uintp(i)]
        if g == HOLD:
            continue
        if g < HOLD or g >= sc[WORKERS]:
            sc[ERROR_KIND], sc[ERROR_WORKER], sc[ERROR_AT] = UNKNOWN_WORKER, g, i
            status = BROKEN
            break
        if wi[FREE_SLOTS, np.uintp(g)] <= 0:
            sc[ERROR_KIND], sc[ERROR_WORKER], sc[ERROR_AT] = OVER_SLOTS, g, i
            status = BROKEN
            break
        place, w, q = np.uintp(first + i), np.uintp(g), np.uintp(wi[GROUP, np.uintp(g)])
        tokens = waiting_f[WAITING_LOAD, place]
        if sc[KV_LIMITED] == 1:
            wf[KV_FREE, w] -= tokens
            if wf[KV_FREE, w] < 0.0:
                sc[ERROR_KIND], sc[ERROR_WORKER], sc[ERROR_AT] = OVER_KV, g, i
                status = BROKEN
                break
        row, since = waiting_i[ID, place], waiting_f[SINCE_S, place]
        units = np.int64(tokens * sc[SCALE])
        if sc[CARRIED] == 0 or carried(sc, carry_i, row) < 0:
            waited += sf[NOW] - since
            waits += 1
        if group_i[BUSY, q] == 0 and wi[QUEUED, w] == 0 and wi[ON_WORKER, w] < worker_i[SLOTS_OF, w]:
            seat(sc, sf, wi, wf, worker_i, load, group_i, slot_i, slot_f, look, free_stack, buckets, leaves, carry_i,
                 carry_f, row, g, units, since, output, profile)  # fmt: skip
        else:
            enqueue(sc, sf, wi, wf, worker_i, group_i, queue_i, queue_f, row, g, units, since)
        wi[FREE_SLOTS, w] -= 1
        sent += 1
        last = i
        if sent == possible:
            most, least = np.int64(HOLD), np.int64(HOLD)
            rest = worker[i + 1 : offered]
            for j in range(rest.size):
                most, least = max(most, rest[j]), min(least, rest[j])
            if most > HOLD or least < HOLD:
                unknown = least < HOLD or most >= sc[WORKERS]
                sc[ERROR_KIND], sc[ERROR_AT] = UNKNOWN_WORKER if unknown else OVER_SLOTS, i + 1
                sc[ERROR_WORKER] = least if least < HOLD else most
                status = BROKEN
            break
    sf[WAIT_SUM], sc[WAITS] = waited, waits
    sc[FREE_TOTAL] -= sent
    if sent > 0 and status == RUNNING:
        take_out(waiting_i, waiting_f, worker, first, sent, last)
        sc[FIRST] = first + sent
        sc[WAITING] -= sent
    sc[ADMITTED_NOW] = sent
    return status


@jit
def refill_slots(sc, sf, wi, wf, worker_i, load, group_i, slot_i, slot_f, look, free_stack, buckets, leaves, carry_i,
                 carry_f, queue_i, queue_f, output, profile, q):  # fmt: skip
    """Queues of a group's workers move up into free slots."""
    for g in range(group_i[GROUP_FIRST, q], group_i[GROUP_FIRST, q] + group_i[GROUP_SIZE, q]):
        while wi[QUEUED, g] > 0 and wi[ON_WORKER, g] < worker_i[SLOTS_OF, g]:
            node = dequeue(sc, sf, wi, wf, worker_i, group_i, queue_i, g)
            seat(sc, sf, wi, wf, worker_i, load, group_i, slot_i, slot_f, look, free_stack, buckets, leaves, carry_i,
                 carry_f, queue_i[node, Q_ROW], g, queue_i[node, Q_LOAD], queue_f[node], output, profile)  # fmt: skip


@jit
def evict_overflow(sc, sf, wi, wf, worker_i, load, group_i, slot_i, slot_f, look, step_times, free_stack, buckets,
                   leaves, carry_i, carry_f, waiting_i, waiting_f, columns, prompt, profile, q):  # fmt: skip
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
            group_i[GROUP_ADMITTED, q] -= slot_i[newest, ADMIT] == group_i[STEP, q]  # it never ran
            send_back(sc, sf, wi, wf, worker_i, load, group_i, slot_i, slot_f, look, step_times, free_stack, buckets,
                      leaves, carry_i, carry_f, waiting_i, waiting_f, columns, newest, profile, prompt)  # fmt: skip
            set_free(sc, wi, worker_i, g)
    return RUNNING


@inlined
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
