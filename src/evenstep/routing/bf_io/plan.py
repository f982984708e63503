"""The plan of one BF-IO decision: its arrays, changes to it, its value, and the answer it gives.

Requests are numbered by *rank* (ascending size at admission, older first among equals), workers by their place among the
*open* ones (those with a free slot). Indices: step h of n = H+1, rank r of W, open worker o of O, group q of Q, slot k of U.
A slot of the plan holds one admitted request and its worker.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenstep.compiled import Floats, Ints, ReadTable, Table, borrowing, jit, part


class Plan(NamedTuple):
    """An assignment under construction (the present plan), the best one so far, and the working space of the search."""

    weight: Floats  # [n], weight of each step
    growth: Floats  # [n], tokens that a newcomer has gained by step h
    others: Floats  # [n], the envelope without one worker, see `gains.set_others`
    margin: Floats  # [n], room below `others`
    term: Floats  # [n], terms of a sum
    size: Floats  # [W], KV tokens at admission
    stays: Floats  # [W], steps until the end, inf where unknown
    worth: Floats  # [W], value of admitting the request
    position: Ints  # [W], the position of a rank in the pool
    rank: Ints  # [W], the rank of a position
    taken: Ints  # [W], 1 while it has a slot
    kind: Ints  # [W], its class, numbered from 0
    group: Ints  # [O], number of the worker's group
    place: Ints  # [O], number of the worker in the view
    free: Ints  # [O], free slots in all
    room: Ints  # [O], slots that the plan leaves
    share: Ints  # [O], slots to refill, see `level.set_reach`
    order: Ints  # [O], the workers, tightest first
    kv: Floats  # [O], KV tokens that may be admitted in all
    kv_left: Floats  # [O], KV tokens that the plan leaves
    burden: Floats  # [O], weighted sum of the load over the steps
    reach: Floats  # [O], tokens up to the level
    speed: Floats  # [O], cost of a token there; loads are in that measure
    target: Floats  # [O], target of the load at step 0
    pull: Floats  # [O], factor of ``pull * (load - target)**2`` in the objective; 0 for all open workers, or for none
    hit: Floats  # [O], value of a cached token of a request
    base: Table  # [O, n], load before any admission
    load: Table  # [O, n], load with the present plan
    members: Floats  # [Q], workers
    tie: Floats  # [Q], factor of the squared deviation, 0 where speeds differ
    reward: Floats  # [Q], value of an admitted token per step, the same for all groups
    floor: Table  # [Q, n], largest load of the workers that are not open
    envelope: Table  # [Q, n], largest load of all
    runner_up: Table  # [Q, n], second largest, or -inf; `floor` counts as one load
    base_total: Table  # [Q, n], sum of the loads before any admission
    total: Table  # [Q, n], sum of the loads with the present plan
    best_envelope: Table  # [Q, n], the envelope of the best plan so far
    worker: Ints  # [U], the place of the worker of each filled slot
    request: Ints  # [U], the rank of its request
    best_worker: Ints  # [U], this and `best_request`: those of the best plan so far
    best_request: Ints
    quota: Ints  # [classes], requests of each class to admit
    left: Ints  # [classes], those that are still to be admitted


@jit  # not a part: hosts call it from Python
def plan_room(workers: int, waiting: int, steps: int, classes: int) -> tuple[object, ...]:
    """Sizes of a plan's arrays, in the order of its fields, for at most this many of each; a table has (rows, columns).

    `steps` are H + 1, or those that are evaluated.
    """
    G, W, n, loads = workers, waiting, steps, (workers, steps)
    of_steps, of_requests, of_slots, of_classes = ((n, n, n, n, n), (W, W, W, W, W, W, W), (W, W, W, W), (classes, classes))
    of_workers = (G, G, G, G, G, G, G, G, G, G, G, G, G, G, loads, loads)
    of_groups = (G, G, G, loads, loads, loads, loads, loads, loads)
    return of_steps + of_requests + of_workers + of_groups + of_slots + of_classes


@part
def cut(plan: Plan, waiting: int, opened: int, groups: int, slots: int) -> Plan:
    """The plan with its arrays cut to these numbers of requests, open workers, groups and slots; windows, not copies."""
    p, W, G, Q, U = plan, waiting, opened, groups, slots
    of_steps = p.weight, p.growth, p.others, p.margin, p.term
    of_requests = p.size[:W], p.stays[:W], p.worth[:W], p.position[:W], p.rank[:W], p.taken[:W], p.kind[:W]
    of_workers = p.group[:G], p.place[:G], p.free[:G], p.room[:G], p.share[:G], p.order[:G], p.kv[:G], p.kv_left[:G]
    their_values = p.burden[:G], p.reach[:G], p.speed[:G], p.target[:G], p.pull[:G], p.hit[:G], p.base[:G], p.load[:G]
    of_groups = p.members[:Q], p.tie[:Q], p.reward[:Q], p.floor[:Q], p.envelope[:Q], p.runner_up[:Q]
    their_sums = p.base_total[:Q], p.total[:Q], p.best_envelope[:Q]
    of_slots = p.worker[:U], p.request[:U], p.best_worker[:U], p.best_request[:U]
    of_all = of_steps + of_requests + of_workers + their_values + of_groups + their_sums + of_slots
    return Plan(*of_all, p.quota, p.left)


@part
def profile(size: float, stays: float, growth: float, h: int) -> float:
    """KV tokens of a request h steps after its admission: ``size + growth``; 0 from step `stays` on."""
    return (size + growth) * (h < stays)


@part
def traded(out_size: float, out_stays: float, into_size: float, into_stays: float, h: int, plan: Plan) -> float:
    """KV tokens that a worker gains at step h if request `out` leaves it and `into` comes; not multiplied by its speed.

    `stays` is the step by which a request has ended; -1 = there is no such request.
    """
    growth = plan.growth[h]
    return profile(into_size, into_stays, growth, h) - profile(out_size, out_stays, growth, h)


@part
def survey(q: int, plan: Plan) -> None:
    """Recompute group q's `envelope` and `runner_up` at each step: the two largest of open workers' loads and `floor`."""
    _survey(q, plan.group, plan.load, plan.floor, plan.envelope, plan.runner_up)


@borrowing
def _survey(q: int, group: Ints, load: Table, floor: Table, envelope: Table, runner_up: Table) -> None:
    """Do what `survey` does, on the plan's arrays."""
    n = load.shape[1]
    for h in range(n):
        envelope[q, h] = floor[q, h]
        runner_up[q, h] = -np.inf
    for o in range(group.size):
        if group[o] == q:
            for h in range(n):
                own, top = load[o, h], envelope[q, h]
                runner_up[q, h] = max(runner_up[q, h], min(top, own))
                envelope[q, h] = max(top, own)


@part
def clear(plan: Plan) -> None:
    """Remove every admission from loads, room and `taken`. The slots stay; so do envelope and runner-up, until `survey`."""
    n = plan.weight.size
    for o in range(plan.place.size):
        plan.room[o], plan.kv_left[o] = plan.free[o], plan.kv[o]
        for h in range(n):
            plan.load[o, h] = plan.base[o, h]
    for q in range(plan.members.size):
        for h in range(n):
            plan.total[q, h] = plan.base_total[q, h]
    plan.taken[:] = 0


@part
def admit(o: int, r: int, k: int, plan: Plan) -> None:
    """Put the request of rank r in slot k, on open worker o, without a check of room. Call `survey` after the last one."""
    q, size, stays = plan.group[o], plan.size[r], plan.stays[r]
    for h in range(plan.weight.size):
        load = plan.speed[o] * profile(size, stays, plan.growth[h], h)
        plan.load[o, h] += load
        plan.total[q, h] += load
    plan.taken[r] = 1
    plan.room[o] -= 1
    plan.kv_left[o] -= size
    plan.worker[k], plan.request[k] = o, r


@part
def change(o: int, out: int, into: int, plan: Plan) -> None:
    """Take the request of rank `out` off open worker o and put that of rank `into` there (-1: none, for either).

    Loads, room, `taken`, envelope and runner-up are updated. `worker` and `request`, the slots, are left to the caller.
    """
    q = int(plan.group[o])
    out_size, out_stays, into_size, into_stays = 0.0, -1.0, 0.0, -1.0
    if out >= 0:
        out_size, out_stays = plan.size[out], plan.stays[out]
        plan.taken[out] = 0
        plan.room[o] += 1
    if into >= 0:
        into_size, into_stays = plan.size[into], plan.stays[into]
        plan.taken[into] = 1
        plan.room[o] -= 1
    plan.kv_left[o] += out_size - into_size
    unclear = False
    for h in range(plan.weight.size):
        delta = plan.speed[o] * traded(out_size, out_stays, into_size, into_stays, h, plan)
        before, top, second = plan.load[o, h], plan.envelope[q, h], plan.runner_up[q, h]
        after = before + delta
        plan.load[o, h] = after
        plan.total[q, h] += delta
        unclear = unclear or (before >= second and after < second)  # a third worker may be the runner-up now
        if before >= top:
            plan.envelope[q, h] = after
        else:
            plan.envelope[q, h] = max(top, after)
            plan.runner_up[q, h] = max(second, min(top, after))
    if unclear:
        survey(q, plan)


@part
def objective(plan: Plan) -> float:
    """J of the plan up to a constant, less is better: members times envelope, less rewarded load, plus penalties.

    Penalties are those of the tie-breaker (`Plan.tie`) and of targets (`Plan.pull`).
    """
    value = 0.0
    for q in range(plan.members.size):
        members, tie = plan.members[q], plan.tie[q]
        for h in range(plan.weight.size):
            added = plan.total[q, h] - plan.base_total[q, h]
            both = plan.total[q, h] + plan.base_total[q, h]
            gained = plan.reward[q] * added
            value += plan.weight[h] * (members * plan.envelope[q, h] - gained - tie * (added * both) / members)
    for o in range(plan.place.size):
        tie = plan.tie[plan.group[o]]
        if tie > 0.0:
            for h in range(plan.weight.size):
                load, base = plan.load[o, h], plan.base[o, h]
                value += plan.weight[h] * (tie * ((load - base) * (load + base)))
        if plan.pull[o] > 0.0:
            off = plan.load[o, 0] - plan.target[o]
            value += plan.pull[o] * (off * off)
    return value


@part
def hits(r: int, o: int, plan: Plan, cached: ReadTable) -> float:
    """Worth of the prompt tokens of the request of rank r that open worker o has cached, in units of the objective."""
    return plan.hit[o] * cached[plan.position[r], plan.place[o]]


@part
def keep(filled: int, plan: Plan) -> None:
    """Copy the first `filled` slots and the envelope of the present plan to the best plan so far."""
    for k in range(filled):
        plan.best_worker[k], plan.best_request[k] = plan.worker[k], plan.request[k]
    for q in range(plan.members.size):
        for h in range(plan.weight.size):
            plan.best_envelope[q, h] = plan.envelope[q, h]


@part
def answer(filled: int, tries_all: bool, plan: Plan, worker: Ints) -> None:
    """Write the workers of the best plan's `filled` slots to `worker`, int64[W], by position in the pool.

    Entries of requests that are held stay. Among requests of equal size the oldest are admitted, which does not change the
    `objective`. With `tries_all` more than size counts, so requests are not exchanged. `plan.taken` is overwritten.
    """
    waiting = plan.size.size
    plan.taken[:] = -1
    for k in range(filled):
        plan.taken[plan.best_request[k]] = plan.place[plan.best_worker[k]]
    if not tries_all:
        to = 0
        for r in range(waiting):
            if r > 0 and plan.size[r] > plan.size[r - 1]:
                to = r
            g = plan.taken[r]
            if g >= 0:
                plan.taken[r] = -1
                plan.taken[to] = g
                to += 1
    for r in range(waiting):
        if plan.taken[r] >= 0:
            worker[plan.position[r]] = plan.taken[r]
