"""The events between two steps of the compiled cluster: completions, outages, decisions, overflow."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from evenstep.compiled import Floats, Ints, inlined, part
from evenstep.routing.idle import has_idle, send_to_idle
from evenstep.routing.view import HOLD
from evenstep.sim.cluster import model
from evenstep.sim.cluster import slots as seats
from evenstep.sim.cluster.arrivals import follow_up, follow_ups, next_visible
from evenstep.sim.cluster.lookahead import advance_window
from evenstep.sim.cluster.model import Fixed, Now, Run, Slot
from evenstep.sim.cluster.pool import carried_at, take_out


@part
def grow(units: Ints, running: Ints, load: Floats, delta: int, unit: float) -> None:
    """Add one decode step to each worker's `units` and `load`: `delta` load units of `unit` tokens a running request."""
    for g in range(units.size):
        loaded = units[g] + running[g] * delta
        units[g], load[g] = loaded, loaded * unit


@part
def grow_loads(run: Run, q: int) -> None:
    """Let the load of every running request of group q grow by one decode step. The step number stays."""
    fixed, fleet, group = run.fixed, run.fleet, run.fleet.groups[q]
    low, high = group.first, group.first + group.workers
    if fixed.profile_kind == model.LINEAR:
        grow(fleet.units[low:high], fleet.running[low:high], fleet.load[low:high], fixed.delta, fixed.unit)
        return
    for slot in range(low * fixed.slots_max, high * fixed.slots_max):
        mine = run.slots.rows[slot]
        if mine.row >= 0:
            fleet.units[mine.worker] += seats.units_of(run, slot, group.step + 1) - seats.units_of(run, slot, group.step)
            fleet.load[mine.worker] = fleet.units[mine.worker] * fixed.unit


@part
def write_down(run: Run, mine: Slot, at: int, q: int, step: int) -> None:
    """Write the record of the request in slot `mine` of group q, which ends at `step`.

    It goes to the request's own row of `Records.done` with `Fixed.keep`, else to place `at`. Place `at` of `Records.ended`
    gets the row.
    """
    fixed, records = run.fixed, run.records
    row = np.uintp(mine.row)
    kept = records.done[np.uintp(mine.row if fixed.keep == 1 else at)]
    kept.worker, kept.admitted_step, kept.finished_step = mine.worker, mine.admit, step
    kept.restarts = mine.restarts
    kept.visible_s = run.requests.arrival_s[row] if fixed.arrivals == model.TIMED else mine.visible_s
    kept.admitted_s, kept.first_token_s = seats.first_times(run, mine, q)
    kept.finished_s = run.now.now_s
    records.ended[np.uintp(at)] = mine.row


@part
def complete_group(run: Run, q: int) -> int:
    """End the step of group q: loads grow, requests at their last step complete, the step number rises, windows move on.

    Returns `RUNNING`; `FLUSH` if records that the host reads are full; `GROW` if the heap is. The next call continues here.
    """
    fixed, now, fleet, slots, group = run.fixed, run.now, run.fleet, run.slots, run.fleet.groups[q]
    status, step = model.RUNNING, group.step
    if group.grown == 0:
        group.grown = 1
        grow_loads(run, q)
    bucket = step & fixed.ring_mask
    slot = slots.calendar[q, bucket]
    listed = fixed.keep == 0 or fixed.prediction > model.ORACLE  # the host reads the list of requests that ended
    at, tokens, left, freed = now.request_rows, now.output_tokens, 0, 0
    while slot >= 0:
        mine = slots.rows[np.uintp(slot)]
        row = mine.row
        if at == run.records.ended.size:
            if listed:
                status = model.FLUSH
                break
            at = 0
        if fixed.arrivals >= model.USERS and now.coming + follow_ups(run, row) >= run.coming.size:
            status = model.GROW
            break
        units = seats.units_of(run, slot, step + 1)
        write_down(run, mine, at, q, step)
        at += 1
        tokens += run.requests.output[np.uintp(row)]
        following, g = mine.follower, np.uintp(mine.worker)
        seats.unseat(run, slot, step, units)
        left += 1
        if fleet.workers[g].up == 1:  # what is running and queued never exceeds slots and depth
            fleet.free_slots[g] += 1
            freed += 1
        if fixed.arrivals >= model.USERS:
            follow_up(run, row)
        slot = following
    slots.calendar[q, bucket] = slot
    now.completed += left
    now.running_all -= left
    group.running -= left
    now.request_rows, now.output_tokens = at, tokens
    now.free_total += freed
    if status == model.RUNNING:
        group.step = step + 1
        if fixed.horizon > 0 and fixed.profile_kind == model.LINEAR:
            advance_window(run, q)
    return status


@part
def apply_outages(run: Run, q: int) -> int:
    """Apply the outages due by the step number of group q; q = -1: those of the earliest pending step, in any group.

    Returns `RUNNING`, or `GROW` if pool or carry list has no room; outages applied by then stay applied.
    """
    now, fleet, slots_max, earliest = run.now, run.fleet, run.fixed.slots_max, -1
    for i in range(fleet.outages.size):  # in order of their steps
        outage = fleet.outages[i]
        g = outage.worker
        if outage.over == 1:
            continue
        if earliest < 0:
            earliest = outage.step
        if q >= 0 and (fleet.group[g] != q or outage.step > fleet.groups[q].step):
            continue
        if q < 0 and outage.step != earliest:
            continue
        if outage.back == 0:
            need = fleet.running[g] + fleet.queued[g]
            if now.waiting + need > run.pool.id.size or now.carried + need > run.carried.size:
                return model.GROW
            for slot in range(g * slots_max, (g + 1) * slots_max):
                if run.slots.rows[slot].row >= 0:
                    seats.send_back(run, slot)
            seats.send_queue_back(run, g)
        fleet.workers[g].up = outage.back
        outage.over = 1
        now.outages_left -= 1
        seats.set_free(run, g)
    return model.RUNNING


@part
def broken(fixed: Fixed, now: Now, worker: int) -> int:
    """Record the policy's mistake in `Now.error_*`: `worker` is unknown or has no free slot. Returns `BROKEN`."""
    unknown = worker < HOLD or worker >= fixed.workers
    now.error_kind, now.error_worker = model.UNKNOWN_WORKER if unknown else model.OVER_SLOTS, worker
    return model.BROKEN


@inlined
def ask(route: Any, run: Any, offered: int) -> int:
    """Ask the policy about the oldest `offered` requests. The view must be written already.

    The answer goes to `pool.worker`. The policy's certified lower bound on its objective goes to `now.bound`; nan = no
    bound. If the policy may not hold requests (`may_hold` is 0), workers that would stay idle then get held requests that
    fit (counted in `Now.held`). `route` is the policy's kernel, `run` a `Run` or a `ShortRun`. Returns `RUNNING`, or
    `BROKEN` if the policy raised or its answer has another shape or type.
    """
    # inlined: as a part, this function would make a step a fifth slower
    now, fleet, pool, policy, ahead = run.now, run.fleet, run.pool, run.policy, run.ahead
    now.bound = route(
        now.decisions,
        run.fixed.seed,
        now.now_s,
        now.mean_wait_s,
        now.first,
        offered,
        fleet.workers_i,
        fleet.workers_f,
        pool.waiting_i,
        pool.waiting_f,
        ahead.projections,
        ahead.growth,
        policy.cached,
        policy.memory,
        policy.parameters,
        policy.scratch_i,
        policy.scratch_f,
        pool.worker,
    )
    if now.error_kind != 0:
        return model.BROKEN
    if run.fixed.may_hold == 0 and has_idle(fleet.workers_i):
        added = send_to_idle(now.first, offered, fleet.workers_i, fleet.workers_f, pool.waiting_f, pool.worker)
        now.held += added > 0
    return model.RUNNING


@part
def sent_in_vain(worker: Ints, start: int, offered: int) -> int:
    """Find a request sent at places `start` .. `offered` - 1 of the answer, where none may be sent.

    Returns its worker, the lowest if one is below `HOLD`, else the highest; `HOLD` if all are held.
    """
    rest = worker[start:offered]
    every = HOLD
    for j in range(rest.size):
        every &= rest[j]
    if every == HOLD:
        return every
    most, least = HOLD, HOLD
    for j in range(rest.size):
        most, least = max(most, rest[j]), min(least, rest[j])
    return least if least < HOLD else most


@part
def send(run: Run, place: int, g: int) -> None:
    """Start the request at a place of the pool on worker g, or queue it inside a step, after others or without a slot.

    The worker's `free_slots` is lowered here, and a first wait is added to the sum of waits. The caller has checked
    `free_slots`, and that the queues have a free node. It then takes the request out of the pool and lowers `free_total`.
    """
    fixed, now, fleet, pool = run.fixed, run.now, run.fleet, run.pool
    row, since_s = pool.id[np.uintp(place)], pool.since_s[np.uintp(place)]
    units = int(pool.load[np.uintp(place)] * fixed.scale)
    if now.carried == 0 or carried_at(now, run.carried, row) < 0:
        now.wait_sum_s += now.now_s - since_s
        now.waits += 1
    w = np.uintp(g)
    busy = fleet.groups[np.uintp(fleet.group[w])].busy
    if busy == 0 and fleet.queued[w] == 0 and fleet.running[w] < fleet.workers[w].slots:
        seats.seat(run, row, g, units, since_s)
    else:
        seats.enqueue(run, row, g, units, since_s)
    fleet.free_slots[w] -= 1


@part
def apply_decision(run: Run) -> int:
    """Carry out the policy's answer in `pool.worker`: start or queue the requests it sends, and take them out of the pool.

    `Now.admitted_now` becomes their number. Returns `RUNNING`, or `BROKEN` (see `Now.error_kind`) if the answer is invalid;
    it may then be partly carried out.
    """
    fixed, now, fleet, pool = run.fixed, run.now, run.fleet, run.pool
    sent, last = 0, -1
    offered = 1 if fixed.instant == 1 else now.waiting
    possible = min(offered, now.free_total)
    for i in range(offered):
        g = pool.worker[np.uintp(i)]
        if g == HOLD:
            continue
        if g < HOLD or g >= fixed.workers or fleet.free_slots[np.uintp(g)] <= 0:
            return broken(fixed, now, g)
        if fixed.kv_limited == 1:
            fleet.kv_free[g] -= pool.load[now.first + i]
            if fleet.kv_free[g] < 0.0:
                now.error_kind, now.error_worker = model.OVER_KV, g
                return model.BROKEN
        send(run, now.first + i, g)
        sent, last = sent + 1, i
        if sent == possible:
            wrong = sent_in_vain(pool.worker, i + 1, offered)
            if wrong != HOLD:
                return broken(fixed, now, wrong)
            break
    now.free_total -= sent
    if sent > 0:
        take_out(pool, now.first, sent, last)
        now.first += sent
        now.waiting -= sent
    now.admitted_now = sent
    return model.RUNNING


@part
def newest_slot(run: Run, g: int) -> int:
    """The slot of worker g's newest request: largest admission step, then row; -1 if nothing runs."""
    rows, slots_max, newest = run.slots.rows, run.fixed.slots_max, -1
    for slot in range(g * slots_max, (g + 1) * slots_max):
        mine = rows[slot]
        if mine.row >= 0 and (newest < 0 or (mine.admit, mine.row) > (rows[newest].admit, rows[newest].row)):
            newest = slot
    return newest


@part
def evict_overflow(run: Run, q: int) -> int:
    """Send the newest requests of group q's workers over `kv_tokens` back to the pool, until each fits or has one left.

    Returns `RUNNING`, or `GROW` if pool or carry list has no room; call it again then.
    """
    fixed, now, fleet, group = run.fixed, run.now, run.fleet, run.fleet.groups[q]
    for g in range(group.first, group.first + group.workers):
        while fleet.units[g] * fixed.unit > fixed.kv_tokens and fleet.running[g] > 1:
            if now.waiting == run.pool.id.size or now.carried == run.carried.size:
                return model.GROW
            newest = newest_slot(run, g)
            group.admitted -= run.slots.rows[newest].admit == group.step  # it never ran
            seats.send_back(run, newest)
            seats.set_free(run, g)
    return model.RUNNING


@part
def next_event(run: Run) -> int:
    """Move the clock to the next event, a step's end or an arrival, and mark the groups whose step ends then (`boundary`).

    An arrival counts only if a group is idle or dispatch is instant, and if it comes strictly before the next end. Returns
    `RUNNING`; `DONE` if all requests completed; `STUCK` if requests are left and nothing can happen.
    """
    fixed, now, groups = run.fixed, run.now, run.fleet.groups
    end_s, idle = math.inf, False
    for q in range(fixed.groups):
        groups[q].boundary = 0
        if groups[q].busy == 1:
            end_s = min(end_s, groups[q].end_s)
        else:
            idle = True
    if (idle and fixed.arrivals != model.SATURATED) or fixed.instant == 1:
        visible_s = next_visible(run)
        if visible_s < end_s:
            now.now_s = max(now.now_s, visible_s)
            now.phase = model.REVEAL
            return model.RUNNING
    if end_s < math.inf:
        now.now_s = end_s
        for q in range(fixed.groups):
            if groups[q].busy == 1 and groups[q].end_s == end_s:
                groups[q].boundary, groups[q].busy = 1, 0
        now.phase = model.COMPLETE
        return model.RUNNING
    return model.DONE if now.completed == fixed.requests else model.STUCK
