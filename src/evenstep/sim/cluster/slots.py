"""Slots and queues of the compiled cluster: which request starts where, leaves, or goes back to the pool."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import part
from evenstep.predict.departures import enter
from evenstep.sim.cluster import model
from evenstep.sim.cluster.model import Fixed, Requests, Run, Slot
from evenstep.sim.cluster.pool import carried_at, drop_carried, push


@part
def weight(fixed: Fixed, requests: Requests, row: int, age: int) -> int:
    """Load units of a request in its decode step number `age`, from 0: linear, by the common sequence, or by its profile.

    Beyond the end of its profile it keeps the last load.
    """
    if fixed.profile_kind == model.LINEAR:
        return requests.prompt[row] * fixed.scale + age * fixed.delta
    profile = requests.profile
    if fixed.profile_kind == model.SEQUENCE:
        return max(0, requests.prompt[row] * fixed.scale + profile[min(age, profile.size - 1)])
    return int(profile[min(requests.offsets[row] + age, requests.offsets[row + 1] - 1)])


@part
def steps_of(fixed: Fixed, requests: Requests, row: int) -> int:
    """Decode steps that a request takes in all: its profile's length, else its output over `tokens_per_step`, rounded up."""
    if fixed.profile_kind == model.PROFILES:
        return requests.offsets[row + 1] - requests.offsets[row]
    made, output = fixed.tokens_per_step, requests.output[np.uintp(row)]
    return output if made == 1 else (output + made - 1) // made


@part
def set_free(run: Run, g: int) -> None:
    """Recompute `free_slots` of worker g, the requests it may still be sent (0 if it is lost), and `Now.free_total`."""
    fleet, worker = run.fleet, run.fleet.workers[g]
    room = 0
    if worker.up == 1:
        room = max(0, worker.slots + run.fixed.depth - fleet.running[g] - fleet.queued[g])
    run.now.free_total += room - fleet.free_slots[g]
    fleet.free_slots[g] = room


@part
def window_add(run: Run, slot: int, sign: int) -> None:
    """Add (`sign` 1) or remove (-1) a slot's departure, at `Look.leave`, in its worker's window (`Ahead.leaving`).

    For linear loads only. `Look.in_window` is set to 1 or 0.
    """
    ahead, mine = run.ahead, run.slots.rows[slot]
    look = ahead.look[slot]
    units = mine.units + (look.leave - mine.admit) * run.fixed.delta
    enter(ahead.leaving[mine.worker], ahead.leaving_units[mine.worker], look.leave & run.fixed.window_mask, units, sign)
    look.in_window = 1 if sign > 0 else 0


@part
def units_of(run: Run, slot: int, step: int) -> int:
    """Load units of the request in a slot at a step of its group."""
    mine = run.slots.rows[slot]
    if run.fixed.profile_kind == model.LINEAR:
        return mine.units + (step - mine.admit) * run.fixed.delta
    return weight(run.fixed, run.requests, mine.row, mine.done + step - mine.admit)


@part
def longest_units(run: Run, g: int, step: int) -> int:
    """Load units of the longest request on worker g at its group's coming step; 0 where no request runs.

    Its slot becomes `Worker.longest_slot`, which is not searched anew while it is known and loads are linear.
    """
    worker, slots_max = run.fleet.workers[g], run.fixed.slots_max
    if worker.longest_slot >= 0 and run.fixed.profile_kind == model.LINEAR:
        return units_of(run, worker.longest_slot, step)
    most, found = 0, -1
    for slot in range(g * slots_max, (g + 1) * slots_max):
        if run.slots.rows[slot].row >= 0:
            units = units_of(run, slot, step)
            if found < 0 or units > most:
                most, found = units, slot
    worker.longest_slot = found
    return most


@part
def seat(run: Run, row: int, g: int, units: int, since_s: float) -> None:
    """Start a request of `units` load units, visible since `since_s`, in a slot of worker g at its group's coming step.

    Slots, calendar, loads, counts and `Look` are updated, `free_slots` is not. Worker g must have a slot. A request that
    restarts gets the facts of its carry-list entry, which is deleted.
    """
    fixed, now, fleet, slots = run.fixed, run.now, run.fleet, run.slots
    w = np.uintp(g)  # unsigned indices: numba then makes no allowance for negative ones
    worker, q = fleet.workers[w], np.uintp(fleet.group[w])
    group = fleet.groups[q]
    slot = slots.free[w, np.uintp(worker.slots - fleet.running[w] - 1)]
    mine, step = slots.rows[np.uintp(slot)], group.step
    mine.done, mine.restarts = 0, 0
    mine.visible_s = since_s
    if now.carried > 0:
        at = carried_at(now, run.carried, row)
        if at >= 0:
            kept = run.carried[at]
            mine.done, mine.restarts = kept.done, kept.restarts
            mine.admitted_s, mine.first_token_s = kept.admitted_s, kept.first_token_s
            drop_carried(now, run.carried, at)
    finish = step + steps_of(fixed, run.requests, row) - mine.done - 1
    bucket = np.uintp(finish & fixed.ring_mask)
    mine.row, mine.worker, mine.finish, mine.admit, mine.units = row, g, finish, step, units
    mine.follower = slots.calendar[q, bucket]
    slots.calendar[q, bucket] = slot
    loaded = fleet.units[w] + units
    fleet.units[w], fleet.load[w] = loaded, loaded * fixed.unit
    fleet.running[w] += 1
    group.running += 1
    group.admitted += 1
    now.running_all += 1
    if fixed.law_kind == model.LINES_OF_LONGEST and worker.longest_slot >= 0:
        known = slots.rows[worker.longest_slot]
        if units > known.units + (step - known.admit) * fixed.delta:
            worker.longest_slot = slot
    if fixed.horizon > 0:
        look = run.ahead.look[slot]
        look.predicted, look.in_window, look.leave = -1, 0, model.NEVER
        if fixed.prediction == model.ORACLE:
            look.leave = finish + 1
            if fixed.profile_kind == model.LINEAR and finish + 1 <= step + fixed.horizon:
                window_add(run, slot, 1)


@part
def unseat(run: Run, slot: int, step: int, units: int) -> None:
    """Free a slot, and update its worker's load, running requests, `longest_slot` and window of departures.

    The request leaves with `units` load units at its group's `step`. The caller updates calendar, `free_slots`, and the sums
    of group and run.
    """
    fleet, slots = run.fleet, run.slots
    mine = slots.rows[np.uintp(slot)]
    g = np.uintp(mine.worker)
    worker = fleet.workers[g]
    loaded = fleet.units[g] - units
    fleet.units[g], fleet.load[g] = loaded, loaded * run.fixed.unit
    running = fleet.running[g] - 1
    fleet.running[g] = running
    slots.free[g, np.uintp(worker.slots - running - 1)] = slot
    mine.row = -1
    if run.fixed.law_kind == model.LINES_OF_LONGEST and worker.longest_slot == slot:
        worker.longest_slot = -1
    if run.fixed.horizon > 0 and run.ahead.look[slot].in_window == 1 and run.ahead.look[slot].leave > step:
        window_add(run, slot, -1)


@part
def first_times(run: Run, mine: Slot, q: int) -> tuple[float, float]:
    """Begin and end, in seconds, of the first decode step that the request in slot `mine` of group q ever completed."""
    ring = np.uintp(mine.admit & run.fixed.ring_mask)
    began_s, ended_s = run.slots.began_s[q, ring], run.slots.ended_s[q, ring]
    if mine.restarts > 0:
        began_s = mine.admitted_s if mine.admitted_s >= 0.0 else began_s
        ended_s = mine.first_token_s if mine.first_token_s >= 0.0 else ended_s
    return began_s, ended_s


@part
def strike_out(run: Run, slot: int, q: int) -> None:
    """Remove an occupied slot from the calendar of completions of its group q."""
    rows, calendar = run.slots.rows, run.slots.calendar
    bucket = rows[slot].finish & run.fixed.ring_mask
    before = calendar[q, bucket]
    if before == slot:
        calendar[q, bucket] = rows[slot].follower
        return
    while rows[before].follower != slot:
        before = rows[before].follower
    rows[before].follower = rows[slot].follower


@part
def send_back(run: Run, slot: int) -> None:
    """Send the request that runs in a slot back to the pool, where it stands by its first visible time; counts a restart.

    The carry list keeps how many decode steps it has done. The caller has checked that pool and carry list each have room
    for one more, and calls `set_free` for the worker afterwards.
    """
    fixed, now, fleet = run.fixed, run.now, run.fleet
    g = slot // fixed.slots_max
    q = fleet.group[g]
    group, mine = fleet.groups[q], run.slots.rows[slot]
    strike_out(run, slot, q)
    units, kept = units_of(run, slot, group.step), run.carried[now.carried]
    now.carried += 1
    kept.row, kept.done, kept.restarts = mine.row, mine.done + group.step - mine.admit, mine.restarts + 1
    kept.admitted_s, kept.first_token_s = -1.0, -1.0
    if group.step != mine.admit:
        kept.admitted_s, kept.first_token_s = first_times(run, mine, q)
    elif mine.restarts > 0:  # sent back before its step began
        kept.admitted_s, kept.first_token_s = mine.admitted_s, mine.first_token_s
    now.restarts += 1
    push(now, run.pool, run.requests, mine.row, units * fixed.unit, mine.visible_s)
    unseat(run, slot, group.step, units)
    group.running -= 1
    now.running_all -= 1


@part
def send_queue_back(run: Run, g: int) -> None:
    """Send all requests in worker g's queue back to the pool, each counted as a restart.

    The caller has checked pool and carry list for room, and calls `set_free` for the worker.
    """
    now = run.now
    while run.fleet.queued[g] > 0:
        node = run.queues[dequeue(run, g)]
        at = carried_at(now, run.carried, node.row)
        if at < 0:
            at = now.carried
            now.carried = at + 1
            kept = run.carried[at]
            kept.row, kept.done, kept.restarts = node.row, 0, 0
            kept.admitted_s, kept.first_token_s = -1.0, -1.0
        run.carried[at].restarts += 1
        now.restarts += 1
        push(now, run.pool, run.requests, node.row, node.units * run.fixed.unit, node.since_s)


@part
def enqueue(run: Run, row: int, g: int, units: int, since_s: float) -> None:
    """Put a request of `units` load units, visible since `since_s`, at the end of worker g's queue.

    The caller has checked that a node is free, and updates `free_slots`.
    """
    now, fleet, worker = run.now, run.fleet, run.fleet.workers[g]
    at = now.queue_free
    node = run.queues[at]
    now.queue_free = node.next
    node.row, node.next, node.units, node.since_s = row, -1, units, since_s
    if worker.queue_tail >= 0:
        run.queues[worker.queue_tail].next = at
    else:
        worker.queue_head = at
    worker.queue_tail = at
    fleet.queued[g] += 1
    fleet.queued_load[g] += units * run.fixed.unit
    fleet.groups[fleet.group[g]].queued += 1
    now.queued_all += 1


@part
def dequeue(run: Run, g: int) -> int:
    """Remove the head of worker g's queue, which must not be empty. Returns the index of its node in `Run.queues`.

    All fields of the node except `next` stay readable until the next `enqueue`.
    """
    now, fleet, worker = run.now, run.fleet, run.fleet.workers[g]
    at = worker.queue_head
    node = run.queues[at]
    worker.queue_head = node.next
    if node.next < 0:
        worker.queue_tail = -1
    node.next = now.queue_free
    now.queue_free = at
    fleet.queued[g] -= 1
    fleet.queued_load[g] -= node.units * run.fixed.unit
    fleet.groups[fleet.group[g]].queued -= 1
    now.queued_all -= 1
    return at
