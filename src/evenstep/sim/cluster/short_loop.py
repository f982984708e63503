"""A faster compiled loop for the usual fleet: one group, no outages, linear law. Gives the same results as `cluster.loop`.

It needs, among others (`short_state.fits`), one barrier group, one decision over the whole pool, workers limited by slots
alone, loads that grow by the same amount every step, no look ahead, no outages. A request's last step and its load there are
then known at its admission. Its record is two words, written at its admission; `short_state` computes its times from those
of the steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep.compiled import ROUTE_TYPE, declared, part, signature
from evenstep.routing.view import HOLD
from evenstep.sim.cluster import model
from evenstep.sim.cluster.events import ask, broken, grow, sent_in_vain
from evenstep.sim.cluster.lookahead import overloaded
from evenstep.sim.cluster.model import Fixed, Now, Requests, ShortRun
from evenstep.sim.cluster.pool import move_to_front, take_out
from evenstep.sim.cluster.step import energy, extremes, sample


@part
def leave(run: ShortRun, slot: int) -> int:
    """Free the slots of the chain from `slot` on; returns how many, 0 for `NO_SLOT`. The caller updates the run's totals."""
    slots, fleet, unit = run.slots, run.fleet, run.fixed.unit
    head, last, left = slot, slot, 0
    while slot != model.NO_SLOT:
        mine = slots[np.uintp(slot)]
        link = mine.link
        w = np.uintp(link >> model.SHIFT)
        loaded = fleet.units[w] - mine.units
        fleet.units[w], fleet.load[w] = loaded, loaded * unit
        fleet.running[w] -= 1
        fleet.free_slots[w] += 1
        left += 1
        last = slot
        slot = link & model.NO_SLOT
    if left > 0:
        slots[np.uintp(last)].link = run.now.spare_slot
        run.now.spare_slot = head
    return left


@part
def complete(run: ShortRun) -> None:
    """End the step at `end_s`: loads grow, requests complete, the step number rises. If none runs, only `phase` changes."""
    fixed, now, fleet, group = run.fixed, run.now, run.fleet, run.fleet.groups[0]
    if now.running_all > 0:
        now.now_s = group.end_s
        grow(fleet.units, fleet.running, fleet.load, fixed.delta, fixed.unit)
        bucket = np.uintp(group.step & fixed.ring_mask)
        left = leave(run, run.calendar[bucket])
        run.calendar[bucket] = model.NO_SLOT
        now.completed += left
        now.running_all -= left
        now.free_total += left
        group.step += 1
    now.phase = model.REVEAL


@part
def due_requests(run: ShortRun) -> int:
    """The number of requests to move into the pool: those that fill it up (saturated), or have arrived by now (timed)."""
    fixed, now, arrival_s = run.fixed, run.now, run.requests.arrival_s
    if fixed.arrivals == model.SATURATED:
        return min(fixed.pool_target - now.waiting, fixed.requests - now.cursor)
    at, requests, now_s = now.cursor, fixed.requests, now.now_s
    while at < requests and arrival_s[np.uintp(at)] <= now_s:
        at += 1
    return at - now.cursor


@part
def enter(run: ShortRun, count: int) -> None:
    """Move the next `count` requests of the trace to the pool's end. The caller has checked for room."""
    fixed, now, pool, requests = run.fixed, run.now, run.pool, run.requests
    start, end, has_columns = now.cursor, now.first + now.waiting, requests.key.size > 0
    saturated, scale, unit, now_s = fixed.arrivals == model.SATURATED, fixed.scale, fixed.unit, now.now_s
    for i in range(count):
        new, here = np.uintp(start + i), np.uintp(end + i)
        pool.id[here], pool.key[here] = start + i, start + i
        pool.load[here] = (requests.prompt[new] * scale) * unit
        pool.since_s[here] = now_s if saturated else requests.arrival_s[new]
        if has_columns:
            pool.request_class[here], pool.key[here] = requests.request_class[new], requests.key[new]
    now.waiting += count
    now.cursor += count


@part
def reveal(run: ShortRun) -> int:
    """Move due requests to the pool, set `Now.overloaded_now`. Returns `RUNNING`; `GROW` if not all fit: then none moves."""
    now, pool = run.now, run.pool
    count = due_requests(run)
    if count > 0:
        if now.waiting + count > pool.id.size:
            return model.GROW
        if now.first + now.waiting + count > pool.id.size:
            move_to_front(now, pool)
        enter(run, count)
    now.overloaded_now = overloaded(pool.load, now.first, now.waiting, now.free_total)
    now.phase = model.DECIDE
    return model.RUNNING


@part
def admit(run: ShortRun, possible: int) -> int:
    """Start the requests that the policy's answer in `pool.worker` sends, `possible` at most; they leave the pool.

    Returns `RUNNING`, or `BROKEN` with the error noted in `Now` if the answer breaks the contract.
    """
    fixed, now, fleet, pool = run.fixed, run.now, run.fleet, run.pool
    requests, slots, calendar, keep = run.requests, run.slots, run.calendar, run.fixed.keep == 1
    step, now_s, scale, delta, mask = (fleet.groups[0].step, now.now_s, fixed.scale, fixed.delta, fixed.ring_mask)
    spare, wait_sum_s, logged, workers = now.spare_slot, now.wait_sum_s, now.request_rows, fixed.workers
    sent, last, first, waiting = 0, -1, now.first, now.waiting
    for i in range(waiting):
        g = pool.worker[np.uintp(i)]
        if g == HOLD:
            continue
        if g < HOLD or g >= workers or fleet.free_slots[np.uintp(g)] <= 0:
            return broken(fixed, now, g)
        w = np.uintp(g)
        row, since_s = pool.id[np.uintp(first + i)], pool.since_s[np.uintp(first + i)]
        r = np.uintp(row)
        units, length = requests.prompt[r] * scale, requests.output[r]
        wait_sum_s += now_s - since_s
        seat, bucket = slots[np.uintp(spare)], np.uintp((step + length - 1) & mask)
        following = seat.link & model.NO_SLOT
        seat.link = g << model.SHIFT | calendar[bucket]
        seat.units = units + length * delta
        calendar[bucket] = spare
        spare = following
        fleet.units[w] += units
        fleet.running[w] += 1
        fleet.free_slots[w] -= 1
        kept = r
        if not keep:
            kept = np.uintp(logged)
            run.ended[kept] = row
            logged += 1
        run.done[kept].place = step << model.SHIFT | g
        run.done[kept].visible_s = since_s
        sent, last = sent + 1, i
        if sent == possible:
            wrong = sent_in_vain(pool.worker, last + 1, waiting)
            if wrong != HOLD:
                return broken(fixed, now, wrong)
            break
    now.spare_slot, now.wait_sum_s, now.request_rows = spare, wait_sum_s, logged
    now.waits += sent
    now.running_all += sent
    now.free_total -= sent
    fleet.groups[0].admitted += sent
    take_out(pool, first, sent, last)
    now.first += sent
    now.waiting -= sent
    return model.RUNNING


@part
def decide(route: Any, run: ShortRun) -> int:
    """Ask the policy about the whole pool and carry out its answer, if a request waits and a slot is free.

    Returns `RUNNING`; `FLUSH` if the records may lack room; `BROKEN` if the policy broke its contract.
    """
    fixed, now = run.fixed, run.now
    if now.waiting > 0 and now.free_total > 0:
        possible = min(now.waiting, now.free_total)
        if fixed.keep == 0 and now.request_rows + possible > run.ended.size:
            return model.FLUSH
        now.mean_wait_s = now.wait_sum_s / now.waits if now.waits > 0 else 0.0
        if ask(route, run, now.waiting) == model.BROKEN or admit(run, possible) == model.BROKEN:
            return model.BROKEN
        now.decisions += 1
    now.phase = model.START
    return model.RUNNING


@part
def skip_idle_time(fixed: Fixed, now: Now, requests: Requests) -> int:
    """Move the clock to the next arrival, as no request runs. Returns `RUNNING`.

    Without a further arrival it returns `DONE` if all requests completed, else `STUCK`: the policy holds them for ever.
    """
    if fixed.arrivals != model.SATURATED and now.cursor < fixed.requests:
        now.now_s = max(now.now_s, requests.arrival_s[np.uintp(now.cursor)])
        now.phase = model.REVEAL
        return model.RUNNING
    return model.DONE if now.completed == fixed.requests else model.STUCK


@part
def measure(run: ShortRun, now_s: float) -> float:
    """Write the coming step's record to row `Now.step_rows`, and add to `load_steps`. Returns the step's end, in seconds."""
    fixed, now, fleet, steps, group = run.fixed, run.now, run.fleet, run.steps, run.fleet.groups[0]
    slope, unit, overhead, at = fixed.slope, fixed.unit, group.overhead_s, np.uintp(now.step_rows)
    top, bottom, total = extremes(fleet.units)
    largest = slope * (top * unit)
    duration = overhead + largest
    steps.running[at], steps.admitted[at] = now.running_all, group.admitted
    steps.start_s[at], steps.duration_s[at] = now_s, duration
    steps.envelope[at], steps.load_sum[at], steps.load_min[at] = top * unit, total * unit, bottom * unit
    summed = slope * (total * unit)
    busy, average = energy(fixed, run.law, fleet.running, fleet.units, 0, overhead, summed, duration)
    idle = fixed.idle_w * duration * fixed.workers
    steps.energy_busy_idle_j[at] = idle + fixed.span_w * busy
    steps.energy_step_average_j[at] = idle + fixed.span_w * average
    now.load_steps += total * unit
    return now_s + duration


@part
def start(run: ShortRun) -> int:
    """Start the next step, or skip idle time if no request runs (`skip_idle_time`).

    Returns `RUNNING`; `FLUSH` if the records are full; `DONE` or `STUCK` if no further request arrives.
    """
    fixed, now, group = run.fixed, run.now, run.fleet.groups[0]
    if now.running_all == 0:
        group.admitted = 0
        return skip_idle_time(fixed, now, run.requests)
    if now.step_rows == run.steps.running.size:
        return model.FLUSH
    group.end_s = measure(run, now.now_s)
    if now.stride > 0 and group.step % now.stride == 0 and sample(fixed, now, run.fleet, run.samples, 0, group.step):
        run.samples.rows[now.samples - 1].duration_s = group.end_s - now.now_s
    now.step_rows += 1
    now.active_steps += now.running_all
    now.output_tokens = now.active_steps
    now.steps += 1
    now.overloaded += now.overloaded_now
    group.admitted = 0
    now.phase = model.COMPLETE
    return model.RUNNING


@declared(signature(int, ROUTE_TYPE, ShortRun))
def advance(route: Any, run: ShortRun) -> int:
    """Run the loop until the run is done or the host is needed, and return why it stopped. `run` is changed in place.

    `route` is the policy's kernel, or `ask.route_into`. `DONE`, `STUCK` and `BROKEN` end the run. The host calls again after
    `FLUSH`, when it has emptied the records, and after `GROW`, when it has called `State.grow` (see `loop.advance`).
    """
    now, status = run.now, model.RUNNING
    while status == model.RUNNING:
        if now.phase == model.COMPLETE:
            complete(run)
        if now.phase == model.REVEAL:
            status = reveal(run)
        if status == model.RUNNING and now.phase == model.DECIDE:
            status = decide(route, run)
        if status == model.RUNNING and now.phase == model.START:
            status = start(run)
    return status
