"""The target load of each worker in `best`: its level, or as near to it as the waiting requests allow.

A worker is *corrected* when requests leave it: the choice of their successors brings it back to its level.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from evenstep.compiled import Floats, Ints, Table, part
from evenstep.routing.best.kept import CHOICE
from evenstep.routing.bf_io.plan import Plan
from evenstep.routing.bf_io.reading import set_steps
from evenstep.routing.rules import RuleView
from evenstep.routing.view import EXPECTED_AT

#: Steps ahead at which loads are compared, each standing for those around it: expected loads are smooth.
LOOKED_AT = EXPECTED_AT
#: With this many departures from a worker per step, the weight of one step ahead is halved; the weight falls with the
#: fourth power of their number, and soon reaches 0, or all that `discount` leaves.
CORRECTED = 0.5
#: Where at least MANY slots are filled at once, one swap seldom suffices: BUSY times as many moves for each.
MANY, BUSY = 24, 8
#: Requests that wait are alike if their sizes deviate by less (KV tokens).
ALIKE = 1.0
#: Targets fade where this share of the workers' usual deviation from their levels exceeds what a choice among the waiting
#: requests can correct. Requests sent to correct such a worker outlast the deviation.
REACH = 0.25
#: In a flood (`is_flood`) nearly all waiting requests are admitted, and only their workers are left to choose. The search
#: then minimises BF-IO's imbalance: an admitted token is worth one. Targets, times EASED, break ties of equal imbalance.
EASED = 0.03
#: With fewer requests a worker than this, loads are few mean requests high, and squares in mean requests small beside
#: envelopes: groups that run nothing would stay empty. So squares then weigh as much as with FEW.
FEW = 8.0


class Moment(NamedTuple):
    """The numbers of one decision of `best`: requests, slots, mean sizes, and waits."""

    waiting: int  # requests that are considered, the oldest of the pool
    slots: int  # requests to admit
    free: int  # free slots of all workers
    running: int  # requests that run
    request: float  # mean KV tokens of those that run or wait, at least 1
    usual: float  # mean KV tokens of those that wait
    spread: float  # their standard deviation
    each_s: float  # seconds from one admission to the next while requests wait; 0 = not known yet
    usual_s: float  # the usual wait; inf or 0 = not known yet
    limit_s: float  # wait after which a request is admitted before all others; 0 or inf = never


class Outlook(NamedTuple):
    """Working space: weights and growth of all H+1 steps, and loads at the n evaluated steps (`LOOKED_AT`, up to H)."""

    weight: Floats  # [H+1], weight of each step
    growth: Floats  # [H+1], KV tokens that a newcomer has gained by then
    ahead: Table  # [G, n], projected loads at the steps that are looked at
    group: Ints  # [G], number of the group
    speed: Floats  # [G], seconds a token costs, relative to the mean; `rise`, `level` and `filled` are in that measure
    stays: Floats  # [G], discounted steps until the worker is corrected
    rise: Floats  # [G], how much higher its load is over these steps than now, in the mean
    level: Floats  # [G], the level of its group
    filled: Floats  # [G], where it will be with the usual newcomers; later without any


@part
def is_flood(moment: Moment) -> bool:
    """True if a decision admits many requests: `MANY` or more, and at least half (1 / `CHOICE`) of those waiting."""
    return moment.slots >= MANY and moment.waiting <= CHOICE * moment.slots


@part
def has_no_barrier(view: RuleView, plan: Plan) -> bool:
    """True if each worker is a barrier group of its own, so that no worker waits for another."""
    return plan.members.size == view.load.size


@part
def evening(moment: Moment, view: RuleView, plan: Plan) -> float:
    """The weight, at least 1, of squares and of cached tokens where all workers are led to the same load; 0 elsewhere.

    They are led to it if no worker waits for another. They are, too, if a fleet of several groups has more free slots than
    waiting requests. A request below the envelope of its group then makes no step longer now. Without the weight, groups
    with high envelopes would fill up, and other groups would stay empty. With fewer free slots, all of them are filled.

    The weight is the number of workers of the largest group, and more with fewer than `FEW` requests a worker. If no worker
    waits for another, it is 1: the sum of the envelopes is then the same for every choice.
    """
    if has_no_barrier(view, plan):
        return 1.0
    if plan.members.size == 1 or moment.waiting >= moment.free:
        return 0.0
    largest = 1.0
    for q in range(plan.members.size):
        largest = max(largest, plan.members[q])
    return largest * max(1.0, FEW * view.load.size / (moment.running + moment.waiting))


@part
def tries(moves: int, slots: int) -> int:
    """Number of moves that the search may try in a decision that fills `slots` slots.

    `moves` is the number for each slot (an option of `best`); decisions of `MANY` slots or more get `BUSY` times as many.
    """
    return moves * slots * (BUSY if slots >= MANY else 1)


@part
def total_weight(plan: Plan) -> float:
    """Sum of the weights of all evaluated steps."""
    total = 0.0
    for k in range(plan.weight.size):
        total += plan.weight[k]
    return total


@part
def load_now(g: int, view: RuleView, look: Outlook) -> float:
    """KV tokens of worker g at step 0, queued requests included; not multiplied by the worker's speed."""
    return look.ahead[g, 0] + (view.queued_load[g] + view.queued[g] * look.growth[0])


@part
def leaving(request: float, view: RuleView, look: Outlook) -> float:
    """Mean number of requests expected to leave a worker in one step; 0 without horizon.

    It is the KV tokens expected to leave a worker, divided by those of a mean request (`request`). Each worker counts at
    most one: more tokens may be a single large request, which says nothing of how soon the others leave.
    """
    if look.growth.size < 2:
        return 0.0
    gained, left = look.growth[1] - look.growth[0], 0.0
    for g in range(view.load.size):
        lost = view.projections[g, 0] + view.running[g] * gained - view.projections[g, 1]
        left += min(request, max(0.0, lost))
    return left / (request * view.load.size)


@part
def look_ahead(discount: float, request: float, view: RuleView, look: Outlook, plan: Plan) -> None:
    """Set weights and growth of all steps (in `look`) and of the evaluated ones (in `plan`), and `look.ahead`.

    The weight of every step is added to the nearest evaluated one, the earlier of two equally near. If requests leave the
    workers fast, later steps weigh less than `discount` says. `request` is the KV tokens of a mean request.
    """
    set_steps(discount, view.growth, look.weight, look.growth)
    pace = leaving(request, view, look) / CORRECTED
    pace *= pace
    set_steps(min(discount, 1.0 / (1.0 + pace * pace)), view.growth, look.weight, look.growth)
    n, k = plan.weight.size, 0
    for i in range(n):
        plan.weight[i], plan.growth[i] = 0.0, look.growth[LOOKED_AT[i]]
        for g in range(view.load.size):
            look.ahead[g, i] = view.projections[g, LOOKED_AT[i]]
    for h in range(look.weight.size):
        while k + 1 < n and abs(LOOKED_AT[k + 1] - h) < abs(LOOKED_AT[k] - h):
            k += 1
        plan.weight[k] += look.weight[h]


@part
def set_speeds(view: RuleView, look: Outlook) -> None:
    """Set `look.speed`: the cost in seconds of a token on each worker relative to the mean; exactly 1 if all are equal."""
    workers, total, equal = view.load.size, 0.0, True
    for g in range(workers):
        total += view.seconds_per_token[g]
        equal = equal and view.seconds_per_token[g] == view.seconds_per_token[0]
    for g in range(workers):
        look.speed[g] = 1.0 if equal else view.seconds_per_token[g] / (total / workers)


@part
def departed(g: int, h: int, view: RuleView, look: Outlook, plan: Plan) -> float:
    """KV tokens expected to have left worker g by the h-th evaluated step (`LOOKED_AT`); >= 0."""
    grown = float(view.running[g]) * (plan.growth[h] - plan.growth[0])
    return max(0.0, look.ahead[g, 0] + grown - look.ahead[g, h])


@part
def uncorrected(g: int, h: int, correction: float, request: float, view: RuleView, look: Outlook, plan: Plan) -> float:
    """Degree, 0..1, to which departures have not yet corrected worker g by the h-th evaluated step; 1 = no departure.

    It is 0 once `correction` mean requests of `request` tokens are expected to have left. Before that, it is the square of
    the share of them still missing.
    """
    stays = max(0.0, 1.0 - departed(g, h, view, look, plan) / request / correction)
    return stays * stays


@part
def known(h: int, moment: Moment, view: RuleView, look: Outlook, plan: Plan) -> float:
    """Certainty of departures by the h-th evaluated step: 0 for a common curve of lengths, 1 if each length is known.

    Let a request of s tokens leave by then with probability p. If it is known which ones do, the tokens that leave differ
    between workers by a variance of p E[s^2] a request. If only p is known, the expected tokens differ by p^2 E[s^2]. The
    result, 0..1, is where the observed variance lies between the two. Sizes s are those of the waiting requests.
    """
    workers, total, square, mass = view.load.size, 0.0, 0.0, 0.0
    for g in range(workers):
        gone = departed(g, h, view, look, plan)
        total += gone
        square += gone * gone
        mass += gone + look.ahead[g, h]
    if total <= 0.0 or total >= mass:
        return 0.0
    chance, mean = total / mass, total / workers
    size = moment.usual + moment.spread * moment.spread / moment.usual
    seen = max(0.0, square / workers - mean * mean) / (mean * size)
    return min(1.0, max(0.0, seen - chance) / (1.0 - chance))


@part
def fade(correction: float, moment: Moment, view: RuleView, look: Outlook, plan: Plan) -> None:
    """Multiply each step's weight, but the first's, by the mean of `uncorrected` over the workers.

    Projected loads lack the requests that will replace those that leave, so a worker with departures ahead seems to fall. In
    truth the choice of its next request brings it back to its level. Departures that are `known` fade less. If all waiting
    requests are alike, there is no such choice: no step fades. Call it after `set_rise`, which looks at each worker by
    itself.
    """
    if moment.spread < ALIKE:
        return
    for h in range(1, plan.weight.size):
        share = 0.0
        for g in range(view.load.size):
            share += uncorrected(g, h, correction, moment.request, view, look, plan)
        sure = known(h, moment, view, look, plan)
        plan.weight[h] *= sure + (1.0 - sure) * share / view.load.size


@part
def set_rise(correction: float, request: float, view: RuleView, look: Outlook, plan: Plan) -> None:
    """Set for each worker how long it stays uncorrected (`look.stays`), and how far its load rises until then (`look.rise`).

    `stays` is the sum of `uncorrected` over the evaluated steps, times each step's weight. `rise` is the mean rise with the
    same weights, in tokens times the worker's speed; an open worker counts as having one request more. A worker is corrected
    once `correction` requests of `request` tokens have left. Call it after `look_ahead` and `set_speeds`, and before `fade`.
    """
    for g in range(view.load.size):
        full = float(view.running[g] + view.queued[g] + (1 if view.free_slots[g] > 0 else 0))
        total, rise = 0.0, 0.0
        for h in range(plan.weight.size):
            stays = uncorrected(g, h, correction, request, view, look, plan) * plan.weight[h]
            total += stays
            rise += stays * (full * plan.growth[h])
        look.stays[g], look.rise[g] = total, rise / total * look.speed[g]


@part
def set_levels(newcomer: float, view: RuleView, look: Outlook, plan: Plan) -> None:
    """Set `look.level`, the level of each worker's group: the mean load that its workers will have, in tokens times speed.

    It is the mean over the workers without a free slot, if they are at least half of the group. A mean of few would be
    chance, so otherwise all workers count, with a request of `newcomer` tokens in each free slot.
    """
    for q in range(plan.members.size):
        members, closed, standing, filled = 0, 0, 0.0, 0.0
        for g in range(view.load.size):
            if look.group[g] == q:
                load, free = load_now(g, view, look), max(view.free_slots[g], 0)
                members += 1
                filled += look.speed[g] * (load + free * newcomer) + look.rise[g]
                if free == 0:
                    closed += 1
                    standing += look.speed[g] * load + look.rise[g]
        level = standing / closed if 2 * closed >= members else filled / members
        for g in range(view.load.size):
            if look.group[g] == q:
                look.level[g] = level


@part
def set_targets(options: Any, offset: float, even: float, moment: Moment, view: RuleView, look: Outlook, plan: Plan) -> None:
    """Set each open worker's target load: its level, or as near to it as the waiting requests allow.

    Workers may deviate from their levels by much more than the waiting requests differ. Then the largest requests would all
    go to workers that are low for now. They run on after the worker has risen again, so loads swing, and the pool is left
    with requests that are alike. So while there is a choice (`CHOICE`), the target of such a worker is the load that mean
    waiting requests give it, and its pull falls to 0. The eighth power makes this change quick, around `REACH`. `target`,
    `pull` and `reward` of the plan and `look.filled` are written. Call it after `set_rise` and `set_levels`. `offset` is the
    KV tokens by which the level is lowered.

    Where all workers are to have the same load there is no level, and all squares weigh the same: `even` (`evening`), if it
    is above 0.
    """
    reward, pull = (1.0, options.pull * EASED) if is_flood(moment) else (0.0, options.pull)
    plan.reward[:] = reward
    workers, share, astray = view.load.size, moment.slots / moment.free, 0.0
    for g in range(workers):
        newcomers = max(view.free_slots[g], 0) * (moment.usual * share)
        look.filled[g] = look.speed[g] * (load_now(g, view, look) + newcomers) + look.rise[g]
        astray += (look.level[g] - look.filled[g]) * (look.level[g] - look.filled[g])
    astray = REACH * math.sqrt(astray / workers)
    is_choice = moment.waiting > CHOICE * moment.slots
    pull_all = even * options.pull * total_weight(plan) / moment.request
    for o in range(plan.place.size):
        g = plan.place[o]
        hold = look.speed[g] * (moment.spread * share) * view.free_slots[g]
        hold = hold / astray if is_choice and hold < astray else 1.0
        hold *= hold
        hold *= hold
        hold *= hold
        gap = look.level[g] - offset - look.filled[g]
        plan.target[o] = look.filled[g] - look.rise[g] + hold * gap
        plan.pull[o] = hold * pull * look.stays[g] / moment.request
        if even > 0.0:
            plan.target[o], plan.pull[o] = -look.rise[g], pull_all


@part
def stand(view: RuleView, look: Outlook) -> None:
    """Set `look.filled` to `load_now` times speed plus `look.rise`: no newcomers count. Call it after `set_targets`."""
    for g in range(view.load.size):
        look.filled[g] = look.speed[g] * load_now(g, view, look) + look.rise[g]


@part
def set_worth(ageing: float, moment: Moment, view: RuleView, plan: Plan) -> None:
    """Set `plan.worth`, the value of admitting each request, which rises with the square of its wait.

    Sizes that seldom fit wait longest; without such a value the pool would fill with them. `ageing`, an option of `best`, is
    the value at the usual wait, in mean requests over the envelope. Call it after `set_requests`. It does nothing while the
    usual wait is unknown.
    """
    if not 0.0 < moment.usual_s < np.inf:
        return
    unit = ageing * (total_weight(plan) * moment.request)
    for r in range(plan.size.size):
        age = (view.now_s - view.since_s[plan.position[r]]) / moment.usual_s
        plan.worth[r] = unit * (age * age)


@part
def set_ends(plan: Plan) -> bool:
    """Convert `plan.stays` from steps to indices of evaluated steps, inf beyond the last; True if a request ends by then."""
    n, is_known = plan.weight.size, False
    for r in range(plan.size.size):
        if plan.stays[r] < np.inf:
            k = 0
            while k < n and LOOKED_AT[k] < plan.stays[r]:
                k += 1
            plan.stays[r] = float(k) if k < n else np.inf
            is_known = is_known or k < n
    return is_known
