# pyright: basic
# ruff: noqa: F403, F405 - the names of the state's sections are this file's vocabulary
"""The compiled loop of the decode cluster: `cluster.py` gives the order of events, `cluster_reference.py` the same plainly.

Loads are int64 in units of 1 / `SCALE` tokens, so sums are exact in any order. With a linear drift a worker's load
grows by ``running * delta`` a step and requests leave through a calendar of completions keyed by finish step, so a step
costs one pass over G plus its completions and admissions. The loop stops (see `RUNNING ... BROKEN` in `cluster_layout`)
at decisions of plain policies, at predictions, and when a buffer is full, and goes on where it stood.
"""

from __future__ import annotations

from evenstep.compiled import F1, F2, I1, I2, INT, ROUTE_TYPE, declared, jit
from evenstep.routing.idle_kernel import send_to_idle
from evenstep.sim.arrivals_kernel import reveal
from evenstep.sim.cluster_layout import *
from evenstep.sim.events_kernel import (
    apply_decision,
    apply_outages,
    complete_group,
    evict_overflow,
    next_event,
    refill_slots,
)
from evenstep.sim.lookahead_kernel import build_view, due_predictions, overloaded, take_predictions
from evenstep.sim.step_kernel import sample, sample_longest_of, start_step


@jit
def loop(route, sc, sf, wi, wf, load, worker_i, group_i, group_f, slot_i, slot_f, free_stack, buckets,
         waiting_i, waiting_f, worker, heap_i, heap_f, carry_i, carry_f, queue_i, queue_f, outages, leaves, memory,
         scratch_i, scratch_f, due, due_f, curves, projections, growth, parameters, count_power, table, local, look,
         step_times, ended, step_i, step_f, decision_i, decision_f, sample_i, sample_f, sample_load, sample_longest,
         sample_running, prompt, output, arrival, columns, links, think, profile, law, cached, done_i, done_f):  # fmt: skip
    """Go on until the run is done or the host is needed; answers why."""
    while True:
        phase = sc[PHASE]
        if phase == NEXT:
            status = next_event(sc, sf, group_i, group_f, heap_f, heap_i, arrival, prompt)
            if status == STUCK and sc[OUTAGES_LEFT] > 0:
                status = apply_outages(sc, sf, wi, wf, worker_i, load, group_i, slot_i, slot_f, look, step_times,
                                       free_stack, buckets,
                                       leaves, carry_i, carry_f, waiting_i, waiting_f, queue_i, queue_f, outages, columns,
                                       prompt, profile, -1)  # fmt: skip
                sc[PHASE] = REVEAL if status == RUNNING else NEXT
            if status != RUNNING:
                return status
            phase = sc[PHASE]
        if phase == COMPLETE:
            for q in range(sc[GROUPS]):
                if group_i[BOUNDARY, q] == 1:
                    status = complete_group(sc, sf, wi, wf, worker_i, load, group_i, slot_i, slot_f, look,
                                            step_times, free_stack, buckets, leaves,
                                            heap_f, heap_i, links, think, prompt, output, arrival, profile,
                                            ended, done_i, done_f, q)  # fmt: skip
                    if status != RUNNING:
                        return status
                    group_i[BOUNDARY, q] = 2
                if group_i[BOUNDARY, q] == 2 and sc[OUTAGES_LEFT] > 0:
                    status = apply_outages(sc, sf, wi, wf, worker_i, load, group_i, slot_i, slot_f, look, step_times,
                                           free_stack, buckets,
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
            sc[OVERLOADED_NOW] = overloaded(waiting_f, sc[FIRST], sc[WAITING], sc[FREE_TOTAL])
            phase = DECIDE
        while phase == DECIDE or phase == APPLY:  # noqa: SIM109, PLR1714 - a tuple would be built every time
            if phase == DECIDE:
                if sc[WAITING] == 0 or sc[FREE_TOTAL] == 0:
                    phase = START
                    break
                sc[PHASE] = DECIDE
                if sc[PREDICTION] >= DEPARTURES:
                    if sc[DUE_COUNT] == 0:
                        due_predictions(sc, wi, group_i, slot_i, look, curves, due)
                        if sc[DUE_COUNT] > 0:
                            return PREDICT
                    take_predictions(sc, wi, group_i, slot_i, look, leaves, due, due_f)
                build_view(sc, sf, wi, wf, load, projections, group_i, slot_i, look, leaves, curves, growth, prompt,
                           profile)  # fmt: skip
                sc[PHASE] = APPLY
                if route is None:
                    return DECISION
                offered = 1 if sc[INSTANT] == 1 else sc[WAITING]
                sf[BOUND] = route(
                    sc[DECISIONS], sc[SEED], sf[NOW], sf[MEAN_WAIT], sc[FIRST], offered, wi, wf, waiting_i, waiting_f,
                    projections, growth, cached, memory, parameters, scratch_i, scratch_f, worker,
                )  # fmt: skip
            if sc[RECORD_DECISIONS] == 1 and sc[DECISION_ROWS] == decision_i.shape[0]:
                return FLUSH
            if sc[FREE_TOTAL] > queue_i.shape[0] - sc[QUEUED_ALL] and (
                min(sc[WAITING], sc[FREE_TOTAL]) > queue_i.shape[0] - sc[QUEUED_ALL]
            ):
                return GROW
            waiting, free = sc[WAITING], sc[FREE_TOTAL]
            if sc[MAY_HOLD] == 0:
                offered = 1 if sc[INSTANT] == 1 else waiting
                sc[HELD] += send_to_idle(sc[FIRST], offered, wi, wf, waiting_f, worker) > 0
            status = apply_decision(sc, sf, wi, wf, worker_i, load, group_i, slot_i, slot_f, look, free_stack,
                                    buckets, leaves, carry_i, carry_f, waiting_i, waiting_f, queue_i, queue_f, worker,
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
                refill_slots(sc, sf, wi, wf, worker_i, load, group_i, slot_i, slot_f, look, free_stack, buckets,
                             leaves, carry_i, carry_f, queue_i, queue_f, output, profile, q)  # fmt: skip
            if sc[KV_LIMITED] == 1:
                status = evict_overflow(sc, sf, wi, wf, worker_i, load, group_i, slot_i, slot_f, look, step_times,
                                        free_stack, buckets, leaves,
                                        carry_i, carry_f, waiting_i, waiting_f, columns, prompt, profile, q)  # fmt: skip
                if status != RUNNING:
                    return status
            if group_i[GROUP_RUNNING, q] == 0:
                group_i[GROUP_ADMITTED, q] = 0
                continue
            if sc[STEP_ROWS] == step_i.shape[1]:
                return FLUSH
            if sc[STRIDE] > 0 and group_i[STEP, q] % sc[STRIDE] == 0:
                sample(
                    sc,
                    sf,
                    wi,
                    load,
                    group_i,
                    sample_i,
                    sample_f,
                    sample_load,
                    sample_longest,
                    sample_running,
                    q,
                )
                if sc[LAW_KIND] == LINES_OF_LONGEST:
                    sample_longest_of(sc, sf, wi, worker_i, group_i, slot_i, prompt, profile, sample_longest)
            start_step(sc, sf, wi, worker_i, load, group_i, group_f, step_times, slot_i, buckets, prompt, output, profile,
                       local, count_power, table, law, step_i, step_f, q)  # fmt: skip
            newest = sc[SAMPLES] - 1
            if newest >= 0 and sample_i[newest, 0] == group_i[STEP, q] and sample_i[newest, 1] == q:
                sample_f[newest, 1] = group_f[END, q] - sf[NOW]
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
    curved = S if sc[PREDICTION] == EXPECTED else 0
    rows, decisions, samples = sc[RECORD_ROOM], sc[DECISION_ROOM], sc[SAMPLE_ROOM]
    asked = samples if sc[LAW_KIND] == LINES_OF_LONGEST else 0
    return loop(
        route,
        sc,
        sf,
        ints[at_i[WORKERS_I] : at_i[WORKERS_I] + 4 * G].reshape((4, G)),
        floats[at_f[WORKERS_F] : at_f[WORKERS_F] + 4 * G].reshape((4, G)),
        ints[at_i[LOADS] : at_i[LOADS] + G],
        ints[at_i[WORKER_INTS] : at_i[WORKER_INTS] + WORKER_ROWS * G].reshape((WORKER_ROWS, G)),
        ints[at_i[GROUP_INTS] : at_i[GROUP_INTS] + 9 * NG].reshape((9, NG)),
        floats[at_f[GROUP_FLOATS] : at_f[GROUP_FLOATS] + 3 * NG].reshape((3, NG)),
        ints[at_i[SLOT_INTS] : at_i[SLOT_INTS] + 8 * S].reshape((S, 8)),
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
        floats[at_f[CURVES] : at_f[CURVES] + curved * sc[CURVE_STEPS]].reshape((curved, sc[CURVE_STEPS])),
        floats[at_f[PROJECTIONS] : at_f[PROJECTIONS] + G * sc[PROJECTED]].reshape((G, sc[PROJECTED])),
        floats[at_f[GROWTH] : at_f[GROWTH] + H + 1],
        floats[at_f[PARAMETERS] : at_f[PARAMETERS + 1]],
        floats[at_f[COUNT_POWER] : at_f[COUNT_POWER + 1]],
        floats[at_f[ROOT_TABLE] : at_f[ROOT_TABLE] + sc[ROOT_SIZE]],
        floats[at_f[LOCAL_S] : at_f[LOCAL_S] + G],
        ints[at_i[LOOK] : at_i[LOOK] + sc[LOOK_ROWS] * 4].reshape((sc[LOOK_ROWS], 4)),
        floats[at_f[STEP_TIMES] : at_f[STEP_TIMES] + 2 * NG * ring].reshape((2, NG, ring)),
        ints[at_i[ENDED] : at_i[ENDED] + rows],
        ints[at_i[STEP_OUT_I] : at_i[STEP_OUT_I] + 6 * rows].reshape((6, rows)),
        floats[at_f[STEP_OUT_F] : at_f[STEP_OUT_F] + 9 * rows].reshape((9, rows)),
        ints[at_i[DECISION_OUT_I] : at_i[DECISION_OUT_I] + 4 * decisions].reshape((decisions, 4)),
        floats[at_f[DECISION_OUT_F] : at_f[DECISION_OUT_F] + 2 * decisions].reshape((decisions, 2)),
        ints[at_i[SAMPLE_I] : at_i[SAMPLE_I] + 2 * samples].reshape((samples, 2)),
        floats[at_f[SAMPLE_F] : at_f[SAMPLE_F] + 2 * samples].reshape((samples, 2)),
        floats[at_f[SAMPLE_LOAD] : at_f[SAMPLE_LOAD] + samples * G].reshape((samples, G)),
        floats[at_f[SAMPLE_LONGEST] : at_f[SAMPLE_LONGEST] + asked * G].reshape((asked, G)),
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
