# pyright: basic
# ruff: noqa: F403, F405 - the names of the state's sections are this file's vocabulary
"""The short compiled loop: the same model and the same bits as `cluster_kernel` for the fleets most runs are about.

One barrier group, one decision over the whole pool, workers limited by slots alone, loads that grow by the same amount
every step, nobody looks ahead, nobody is lost (`short_loop.fits` asks). Then a request's last step and its load there are
known when it is admitted: the calendar of completions holds chains of slots of two words each, and a step is two passes
over the workers, its completions and its admissions. A request's record is two words, written at its admission; its times
follow from the steps' (`short_loop`).
"""

from __future__ import annotations

import numpy as np

from evenstep.compiled import F1, F2, I1, I2, INT, ROUTE_TYPE, declared, inlined
from evenstep.routing.idle_kernel import send_to_idle
from evenstep.routing.view import CLASS, FREE_SLOTS, HOLD, ID, KEY, LOAD, SINCE_S, WAITING_LOAD
from evenstep.routing.view import RUNNING as ON_WORKER
from evenstep.sim.cluster_layout import *
from evenstep.sim.lookahead_kernel import overloaded
from evenstep.sim.pool_kernel import take_out
from evenstep.sim.step_kernel import energy, sample


@inlined
def grow(load, running, shown, delta, unit):
    """Every running request grows by a step."""
    for g in range(load.size):
        loaded = load[g] + running[g] * delta
        load[g], shown[g] = loaded, loaded * unit


@inlined
def leave(slots, slot, spare, load, running, free, shown, unit):
    """The requests in a chain of slots leave, and the chain joins the spare slots; answers how many and its first."""
    head, last, left = slot, slot, 0
    while slot != NO_SLOT:
        link = slots[np.uintp(slot), S_LINK]
        w = np.uintp(link >> S_SHIFT)
        loaded = load[w] - slots[np.uintp(slot), S_UNITS]
        load[w], shown[w] = loaded, loaded * unit
        running[w] -= 1
        free[w] += 1
        left += 1
        last = slot
        slot = link & NO_SLOT
    if left == 0:
        return 0, spare
    slots[np.uintp(last), S_LINK] = spare
    return left, head


@inlined
def make_room(waiting_i, waiting_f, first, waiting, has_columns):
    """The pool moves to the front of its columns."""
    for i in range(waiting):
        waiting_i[ID, i], waiting_i[KEY, i] = waiting_i[ID, first + i], waiting_i[KEY, first + i]
        waiting_f[WAITING_LOAD, i] = waiting_f[WAITING_LOAD, first + i]
        waiting_f[SINCE_S, i] = waiting_f[SINCE_S, first + i]
        if has_columns:
            waiting_i[CLASS, i] = waiting_i[CLASS, first + i]


@inlined
def measured(load):
    """Largest, smallest and total load."""
    top, bottom, total = load[0], load[0], np.int64(0)
    for g in range(load.size):
        top = max(top, load[g])
        bottom = min(bottom, load[g])
        total += load[g]
    return top, bottom, total


@inlined
def sent_in_vain(worker, start, offered):
    """An answer past the last possible one: a worker that does not exist before one that has no slot; else `HOLD`."""
    rest = worker[start:offered]
    every = np.int64(HOLD)
    for j in range(rest.size):
        every &= rest[j]
    if every == HOLD:
        return every
    most, least = np.int64(HOLD), np.int64(HOLD)
    for j in range(rest.size):
        most, least = max(most, rest[j]), min(least, rest[j])
    return least if least < HOLD else most


def continued(route, ints, floats, prompt, output, arrival, columns, done_i, done_f):
    """Go on until the run is done or the host is needed; answers why. The phases are those of `cluster_kernel.loop`."""
    sc = ints[:SCALARS]
    at_i, at_f = sc[OFFSETS_I:], sc[OFFSETS_F:]
    sf = floats[: at_f[SCALARS_F + 1]]
    G, cap, rows, samples = sc[WORKERS], sc[POOL_ROOM], sc[RECORD_ROOM], sc[SAMPLE_ROOM]
    wi = ints[at_i[WORKERS_I] : at_i[WORKERS_I] + 4 * G].reshape((4, G))
    wf = floats[at_f[WORKERS_F] : at_f[WORKERS_F] + 4 * G].reshape((4, G))
    running, free, shown = wi[ON_WORKER], wi[FREE_SLOTS], wf[LOAD]
    load = ints[at_i[LOADS] : at_i[LOADS] + G]
    group_i = ints[at_i[GROUP_INTS] : at_i[GROUP_INTS] + 9].reshape((9, 1))
    buckets = ints[at_i[BUCKETS] : at_i[BUCKETS + 1]]
    slots = ints[at_i[SLOT_INTS] : at_i[SLOT_INTS] + 2 * G * sc[SLOTS_MAX]].reshape((G * sc[SLOTS_MAX], 2))
    waiting_i = ints[at_i[WAITING_I] : at_i[WAITING_I] + 3 * cap].reshape((3, cap))
    waiting_f = floats[at_f[WAITING_F] : at_f[WAITING_F] + 3 * cap].reshape((3, cap))
    worker = ints[at_i[WORKER_OUT] : at_i[WORKER_OUT] + cap]
    memory = ints[at_i[MEMORY] : at_i[MEMORY] + sc[MEMORY_WORDS]]
    scratch_i = ints[at_i[SCRATCH_I] : at_i[SCRATCH_I + 1]]
    scratch_f = floats[at_f[SCRATCH_F] : at_f[SCRATCH_F + 1]]
    growth, parameters = (
        floats[at_f[GROWTH] : at_f[GROWTH] + 1],
        floats[at_f[PARAMETERS] : at_f[PARAMETERS + 1]],
    )
    nothing, unknown = floats[:0].reshape((G, 0)), floats[:0].reshape((0, 0))
    count_power = floats[at_f[COUNT_POWER] : at_f[COUNT_POWER + 1]]
    table = floats[at_f[ROOT_TABLE] : at_f[ROOT_TABLE] + sc[ROOT_SIZE]]
    local = floats[at_f[LOCAL_S] : at_f[LOCAL_S] + G]
    ended = ints[at_i[ENDED] : at_i[ENDED] + rows]
    out_i = ints[at_i[STEP_OUT_I] : at_i[STEP_OUT_I] + SHORT_INTS * rows].reshape((SHORT_INTS, rows))
    out_f = floats[at_f[STEP_OUT_F] : at_f[STEP_OUT_F] + SHORT_FLOATS * rows].reshape((SHORT_FLOATS, rows))
    sample_i = ints[at_i[SAMPLE_I] : at_i[SAMPLE_I] + 2 * samples].reshape((samples, 2))
    sample_f = floats[at_f[SAMPLE_F] : at_f[SAMPLE_F] + 2 * samples].reshape((samples, 2))
    sample_load = floats[at_f[SAMPLE_LOAD] : at_f[SAMPLE_LOAD] + samples * G].reshape((samples, G))
    sample_running = ints[at_i[SAMPLE_RUNNING] : at_i[SAMPLE_RUNNING] + samples * G].reshape((samples, G))

    requests, seed, scale, delta, mask = sc[REQUESTS], sc[SEED], sc[SCALE], sc[DELTA], sc[RING_MASK]
    target, saturated, keep, priced = (
        sc[POOL_TARGET],
        sc[ARRIVALS] == SATURATED,
        sc[KEEP] == 1,
        sc[ENERGY] == 1,
    )
    unit, slope, overhead = sf[UNIT], sf[SLOPE], floats[at_f[GROUP_FLOATS] + OVERHEAD]
    span_w = sf[SPAN_W]
    has_columns = columns.shape[0] > 0
    phase, step, end, now = sc[PHASE], group_i[STEP, 0], floats[at_f[GROUP_FLOATS] + END], sf[NOW]
    first, waiting, cursor, free_total, active = (
        sc[FIRST],
        sc[WAITING],
        sc[CURSOR],
        sc[FREE_TOTAL],
        sc[RUNNING_ALL],
    )
    completed, decisions, admitted = sc[COMPLETED], sc[DECISIONS], group_i[GROUP_ADMITTED, 0]
    wait_sum, waits, logged, at = sf[WAIT_SUM], sc[WAITS], sc[REQUEST_ROWS], sc[STEP_ROWS]
    load_steps, active_steps, overloads, over = (
        sc[LOAD_STEPS],
        sc[ACTIVE_STEPS],
        sc[OVERLOADED],
        sc[OVERLOADED_NOW],
    )
    steps, spare = sc[STEPS], sc[SPARE_SLOT]
    status = np.int64(RUNNING)
    while status == RUNNING:
        if phase == COMPLETE:
            if active > 0:
                now = end
                grow(load, running, shown, delta, unit)
                bucket = np.uintp(step & mask)
                left, spare = leave(slots, buckets[bucket], spare, load, running, free, shown, unit)
                buckets[bucket] = NO_SLOT
                completed, active, free_total, step = (
                    completed + left,
                    active - left,
                    free_total + left,
                    step + 1,
                )
            phase = REVEAL
        if phase == REVEAL:
            count = min(target - waiting, requests - cursor)
            if not saturated:
                count = 0
                while cursor + count < requests and arrival[np.uintp(cursor + count)] <= now:
                    count += 1
            if count > 0:
                if waiting + count > cap:
                    status = GROW
                    break
                if first + waiting + count > cap:
                    make_room(waiting_i, waiting_f, first, waiting, has_columns)
                    first = 0
                for i in range(count):
                    new, here = np.uintp(cursor + i), np.uintp(first + waiting + i)
                    waiting_i[ID, here], waiting_i[KEY, here] = cursor + i, cursor + i
                    waiting_f[WAITING_LOAD, here] = (prompt[new] * scale) * unit
                    waiting_f[SINCE_S, here] = now if saturated else arrival[new]
                    if has_columns:
                        waiting_i[CLASS, here], waiting_i[KEY, here] = columns[0, new], columns[1, new]
                waiting += count
                cursor += count
            over = overloaded(waiting_f, first, waiting, free_total)
            phase = DECIDE
        if phase == DECIDE or phase == APPLY:  # noqa: SIM109, PLR1714 - a tuple would be built every time
            if waiting > 0 and free_total > 0:
                possible = min(waiting, free_total)
                if phase == DECIDE:
                    if not keep and logged + possible > ended.size:
                        status = FLUSH
                        break
                    mean_wait = wait_sum / waits if waits > 0 else 0.0
                    phase = APPLY
                    if route is None:
                        sf[MEAN_WAIT] = mean_wait
                        status = DECISION
                        break
                    sf[BOUND] = route(
                        decisions, seed, now, mean_wait, first, waiting, wi, wf, waiting_i, waiting_f,
                        nothing, growth, unknown, memory, parameters, scratch_i, scratch_f, worker,
                    )  # fmt: skip
                if sc[MAY_HOLD] == 0:
                    sc[HELD] += send_to_idle(first, waiting, wi, wf, waiting_f, worker) > 0
                sent, last = 0, -1
                for i in range(waiting):
                    g = worker[np.uintp(i)]
                    if g == HOLD:
                        continue
                    if g < HOLD or g >= G or free[np.uintp(g)] <= 0:
                        sc[ERROR_KIND] = UNKNOWN_WORKER if g < HOLD or g >= G else OVER_SLOTS
                        sc[ERROR_WORKER], sc[ERROR_AT] = g, i
                        status = BROKEN
                        break
                    place, w = np.uintp(first + i), np.uintp(g)
                    row, since = waiting_i[ID, place], waiting_f[SINCE_S, place]
                    r = np.uintp(row)
                    units, length = prompt[r] * scale, output[r]
                    wait_sum += now - since
                    waits += 1
                    seat, leaving = np.uintp(spare), np.uintp((step + length - 1) & mask)
                    spare = slots[seat, S_LINK] & NO_SLOT
                    slots[seat, S_LINK] = g << S_SHIFT | buckets[leaving]
                    slots[seat, S_UNITS] = units + length * delta
                    buckets[leaving] = np.int64(seat)
                    load[w] += units
                    running[w] += 1
                    free[w] -= 1
                    kept = r
                    if not keep:
                        kept = np.uintp(logged)
                        ended[kept] = row
                        logged += 1
                    done_i[kept, S_PLACE] = step << S_SHIFT | g
                    done_f[kept, S_VISIBLE] = since
                    sent, last = sent + 1, i
                    if sent == possible:
                        break
                if status == RUNNING and sent == possible:
                    wrong = sent_in_vain(worker, last + 1, waiting)
                    if wrong != HOLD:
                        sc[ERROR_KIND] = UNKNOWN_WORKER if wrong < HOLD or wrong >= G else OVER_SLOTS
                        sc[ERROR_WORKER], sc[ERROR_AT] = wrong, last + 1
                        status = BROKEN
                if status == BROKEN:
                    break
                admitted += sent
                active += sent
                free_total -= sent
                decisions += 1
                take_out(waiting_i, waiting_f, worker, first, sent, last)
                first += sent
                waiting -= sent
            phase = START
        if active == 0:
            admitted = 0
            if not saturated and cursor < requests:
                now = max(now, arrival[np.uintp(cursor)])
                phase = REVEAL
                continue
            status = DONE if completed == requests else STUCK
            break
        if at == rows:
            status = FLUSH
            break
        top, bottom, total = measured(load)
        largest = slope * (top * unit)
        duration = overhead + largest
        end = now + duration
        if sc[STRIDE] > 0 and step % sc[STRIDE] == 0:
            sf[NOW], group_i[STEP, 0] = now, step
            sample(
                sc, sf, wi, load, group_i, sample_i, sample_f, sample_load, sample_load[:0], sample_running, 0
            )
            newest = sc[SAMPLES] - 1
            if newest >= 0 and sample_i[newest, 0] == step:
                sample_f[newest, 1] = end - now
        to = np.uintp(at)
        out_i[0, to], out_i[1, to] = active, admitted
        out_f[0, to], out_f[1, to], out_f[2, to] = now, duration, top * unit
        out_f[3, to], out_f[4, to] = total * unit, bottom * unit
        if priced:
            busy, average = energy(running, load, local, 0, slope * unit, overhead, slope * (total * unit), duration,
                                   sf[FULL_POWER_S], count_power, table)  # fmt: skip
            idle = sf[IDLE_W] * duration * G
            out_f[5, to], out_f[6, to] = idle + span_w * busy, idle + span_w * average
        at += 1
        load_steps += total
        active_steps += active
        steps += 1
        overloads += over
        admitted = 0
        phase = COMPLETE
    sc[PHASE], group_i[STEP, 0], floats[at_f[GROUP_FLOATS] + END], sf[NOW] = phase, step, end, now
    sc[FIRST], sc[WAITING], sc[CURSOR], sc[FREE_TOTAL], sc[RUNNING_ALL] = (
        first,
        waiting,
        cursor,
        free_total,
        active,
    )
    sc[COMPLETED], sc[DECISIONS], group_i[GROUP_ADMITTED, 0] = completed, decisions, admitted
    sf[WAIT_SUM], sc[WAITS], sc[REQUEST_ROWS], sc[STEP_ROWS] = wait_sum, waits, logged, at
    sc[LOAD_STEPS], sc[ACTIVE_STEPS], sc[OUTPUT_TOKENS] = load_steps, active_steps, active_steps
    sc[OVERLOADED], sc[OVERLOADED_NOW], sc[STEPS], sc[SPARE_SLOT] = overloads, over, steps, spare
    return status


#: Types of what follows the policy's kernel: two buffers, the trace, the records.
SHORT_TYPES = (I1, F1, I1, I1, F1, I2, I2, F2)

#: The compiled door of the short loop: see `cluster_kernel.advance`.
advance = declared(None if INT is None else INT(ROUTE_TYPE, *SHORT_TYPES))(continued)
