"""One decision of `best` as its reference computes it: targets, the steered pool, speeds, memory, quotas.

What it keeps between decisions, int64 words: `CLOCK_BITS` of the last decision's time (a float64's bits); of the requests
that arrived, the latest some thousand, `SEEN` how many, `OCTAVES` and `TOKENS` the sums of their sizes, in 1/4096 of an
octave and in tokens; `OFFSET`, what the level has been steered by, in 2^-20 of a mean request; `ARRIVED`, how many arrived
in all; `NEWEST`, the largest id among them; `LEFT`, how many the last decision left waiting; of the time in which some were,
of late, `RUSH` how many were admitted and `RUSH_US` how many microseconds it was; `LEAVING` and `STAYING`, KV tokens that
were expected to leave within the horizon, and all; of the latest some hundred decisions, `LOOKS` how many and `WAITED` the
sum of the requests that waited (see `best.memory`); from `OWED` on, the slots that classes are owed (see `best.shares`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING

import numpy as np
from tests.oracles.best_memory import memory_left, octaves
from tests.oracles.best_room import make_room
from tests.oracles.best_shares import COUNTERS, quotas
from tests.oracles.bf_io_moment import Moment, in_order, overdue

from evenstep.request import F8, I8
from evenstep.routing.view import EXPECTED_AT, RoutingView

if TYPE_CHECKING:
    from evenstep.routing.policies.best import Best

(
    CLOCK_BITS,
    SEEN,
    OCTAVES,
    TOKENS,
    OFFSET,
    ARRIVED,
    NEWEST,
    LEFT,
    RUSH,
    RUSH_US,
    LEAVING,
    STAYING,
    LOOKS,
    WAITED,
    OWED,
) = range(15)
#: Octaves of spread beyond which the pool is measured in it.
WIDE = 1.5
#: Words that are kept.
MEMORY = OWED + COUNTERS
#: Steps ahead at which loads are compared, each standing for those around it: expected loads are smooth.
LOOKED_AT = EXPECTED_AT
#: Arrivals after which their sums are halved.
MOST_SEEN = 4096
#: Share of the steering that is kept, for a pool that is replaced once.
KEPT = 1.0 / 3.0
#: Most steering that is kept, 2^-20 of a mean request each. Where sizes are of two kinds, more would swing between a pool of
#: one kind and of the other.
MOST_OFFSET = 1 << 20
#: With this many departures from a worker per step, the weight of one step ahead is halved; the weight falls with the
#: fourth power of their number, and soon reaches 0, or all that `discount` leaves.
CORRECTED = 0.5
#: Where at least so many slots are filled at once, one swap seldom suffices: BUSY times as many moves for each.
MANY, BUSY = 24, 8
#: Overdue requests take one of so many slots, and one at least: age has had its price long before.
OVERDUE = 16
#: Requests that wait are alike if their sizes deviate by less (KV tokens).
ALIKE = 1.0
#: Workers further from their level than this multiple of what a choice among the waiting requests can correct are no longer
#: led to it: it moves out of reach within a step or two, and requests sent to correct it outlast the deviation.
REACH = 0.25
#: Where that many slots are filled and hardly more requests wait (`CHOICE`), the choice of requests is nearly settled and
#: the choice of workers is the question. The search then minimises BF-IO's imbalance: an admitted token is worth one.
#: Targets, times EASED, tell apart plans of equal imbalance.
EASED = 0.03
#: With so few requests a worker, squares in mean requests are too small beside envelopes, and weigh more.
FEW = 8.0
#: A pool is worth steering when it has more than so many requests for every slot.
CHOICE = 2


def moment_of(policy: Best, view: RoutingView) -> tuple[Moment, I8]:
    """The state of one decision, from a view and the policy's memory."""
    moment = Moment.of(view, policy.horizon, policy.discount, 0.0, policy.window, 0.0)
    memory = np.array(view.memory)
    running = int(view.running.sum())
    if moment.count == 0:
        return moment, memory
    each_s = rush_s(memory, view, moment)
    seen(memory, view, moment)
    request = mean_request(view, moment)
    gone = int(memory[ARRIVED]) - moment.size.size - running
    speed = speeds(view)
    load = speed[:, None] * moment.load
    # A request that arrives now waits until the requests left before it are admitted. While a pool has just formed, or
    # grows, the mean wait of past requests is too low: it is half of that if the pool has grown evenly.
    ahead_s = (moment.size.size - moment.count) * each_s
    usual_s = max(usual_wait_s(view, memory, moment, running), ahead_s)
    whole_s = max(whole_wait_s(view, memory, moment, running), 0.5 * ahead_s)
    limit_s = policy.age_limit * whole_s if policy.age_limit > 0 else 0.0
    pace = leaving(view, moment, request) / CORRECTED
    pace *= pace
    discount = min(policy.discount, 1.0 / (1.0 + pace * pace))
    moment = replace(moment, weight=powers(discount, moment.weight.size))
    steps = [h for h in LOOKED_AT if h < moment.weight.size]
    weights = gathered(moment.weight, steps)
    departs = departed(view, moment.growth[steps], view.projections[:, steps])
    stay = uncorrected(policy, departs, request)
    weight, rise = until_corrected(view, moment.growth[steps], weights, stay)
    weights = faded(moment, weights, stay, departs, view.projections[:, steps])
    rise = rise * speed
    offset = steered(policy, memory, moment, running) * request
    free = int(view.free_slots[view.free_slots > 0].sum())
    newcomer = request * (moment.count / free)
    level = levels(moment, moment.load[:, 0], rise, speed, newcomer)
    target, hold = targets(moment, level, rise, offset, speed, moment.count / free)
    unit = in_order(weights.tolist())
    pull = hold * (policy.pull * EASED if is_flood(moment) else policy.pull) * weight / request
    members, even = np.bincount(moment.group), 1.0
    if has_no_barrier(moment) or (members.size > 1 and moment.size.size < free):
        if members.max() > 1:
            even = members.max() * max(1.0, FEW * rise.size / (running + moment.size.size))
        target, pull = -rise, np.full(rise.size, even * policy.pull * unit / request)
    standing = speed * moment.load[:, 0] + rise
    due, sunk = make_room(view, moment, limit_s, each_s, request, speed, standing, level, unit)
    target = np.where(sunk > 0, np.minimum(target, level - rise - sunk), target)
    known = np.searchsorted(steps, moment.stays, side="left")
    has_cached = view.cached_tokens.size > 0 and policy.affinity > 0
    moment = replace(moment, kv_free=memory_left(policy, view, moment, memory[LEAVING:OWED], gone, request, limit_s))
    kind, quota = quotas(policy.class_weights, view, moment, memory[OWED:])
    return replace(
        moment,
        load=load[:, steps],
        profile=moment.profile[:, steps],
        growth=moment.growth[steps],
        weight=weights,
        stays=np.where(known < len(steps), known, np.inf),
        forced=overdue(view, moment.count, limit_s, max(1, free // OVERDUE)),
        worth=ages_worth(policy, view, moment, usual_s, unit * request) + due,
        reward=1.0 if is_flood(moment) else 0.0,
        speed=speed,
        target=target,
        pull=pull,
        kind=kind,
        quota=quota,
        bonus=even * policy.affinity * view.cached_tokens[: moment.size.size] if has_cached else np.zeros((0, 0)),
    ), memory


def has_no_barrier(moment: Moment) -> bool:
    """Whether every worker is a group of its own: no worker waits for another, so requests go in order of arrival."""
    return int(moment.group.max()) + 1 == moment.group.size


def is_flood(moment: Moment) -> bool:
    """Whether most of the requests that wait are admitted, and these are many."""
    return moment.count >= MANY and moment.size.size <= CHOICE * moment.count


def tries(moves: int, count: int) -> int:
    """Moves a search may try: each slot has as many partners to swap with as there are slots."""
    return moves * count * (BUSY if count >= MANY else 1)


def powers(base: float, count: int) -> F8:
    """float64[count]: 1, base, base^2, ..."""
    return np.array(list(accumulate([1.0] + [base] * (count - 1), mul)))


def leaving(view: RoutingView, moment: Moment, request: float) -> float:
    """Mean requests that are expected to leave a worker within a step, of each worker one at most.

    More would say that one large request leaves, and nothing of how soon the others are corrected.
    """
    if moment.growth.size < 2:
        return 0.0
    gained = float(moment.growth[1] - moment.growth[0])
    left = [
        min(request, max(0.0, float(now) + int(running) * gained - float(then)))
        for now, then, running in zip(view.projections[:, 0], view.projections[:, 1], view.running, strict=True)
    ]
    return in_order(left) / (request * len(left))


def seen(memory: I8, view: RoutingView, moment: Moment) -> None:
    """Count the requests that have become visible since the last decision.

    They are newer than that, or waited outside the host's window: then no earlier id was as large.
    """
    elapsed = view.now_s - float(memory[CLOCK_BITS : CLOCK_BITS + 1].view(np.float64)[0])
    is_first, newest = memory[SEEN] == 0, int(memory[NEWEST])
    memory[CLOCK_BITS] = np.float64(view.now_s).view(np.int64)
    waiting = moment.size.size
    for request, size, waited in zip(
        view.waiting_id[:waiting].tolist(),
        moment.size.tolist(),
        view.waited_s[:waiting].tolist(),
        strict=True,
    ):
        if is_first or waited < elapsed or request > newest:
            memory[SEEN] += 1
            memory[ARRIVED] += 1
            memory[OCTAVES] += octaves(size)
            memory[TOKENS] += int(size)
            memory[NEWEST] = max(int(memory[NEWEST]), request)
    if memory[SEEN] > MOST_SEEN:
        memory[[SEEN, OCTAVES, TOKENS]] //= 2


def rush_s(memory: I8, view: RoutingView, moment: Moment) -> float:
    """Recent seconds from one admission to the next while requests wait; 0 while none had to.

    Times without waiting requests are excluded: slots were free then. Call it before `seen`.
    """
    if memory[LEFT] > 0:
        elapsed = view.now_s - float(memory[CLOCK_BITS : CLOCK_BITS + 1].view(np.float64)[0])
        memory[RUSH] += moment.count
        memory[RUSH_US] += int(elapsed * 1000000.0)
        if memory[RUSH] > MOST_SEEN:
            memory[[RUSH, RUSH_US]] //= 2
    memory[LEFT] = moment.size.size - moment.count
    return int(memory[RUSH_US]) / (1000000.0 * max(int(memory[RUSH]), 1))


def usual_wait_s(view: RoutingView, memory: I8, moment: Moment, running: int) -> float:
    """Mean wait of the requests that found the fleet full, seconds; 0 or inf while there is no such request.

    The first requests found free slots and did not wait: as many as run now are excluded from the mean.
    """
    admitted = int(memory[ARRIVED]) - moment.size.size
    return view.mean_wait_s * (admitted / (admitted - running)) if admitted > running else math.inf


def whole_wait_s(view: RoutingView, memory: I8, moment: Moment, running: int) -> float:
    """Mean wait against which the oldest request is judged, seconds; inf while there is no data.

    In the long run it is the mean over all requests, including those that found free slots. At first these are nearly all,
    and any wait is long compared with their mean: they are excluded, by the cube of their share.
    """
    found_free = running / max(int(memory[ARRIVED]) - moment.size.size, 1)
    return view.mean_wait_s / (1.0 - found_free * found_free * found_free) if found_free < 1.0 else math.inf


def ages_worth(policy: Best, view: RoutingView, moment: Moment, usual_s: float, unit: float) -> F8:
    """float64[W], the value of admitting each request: it rises with the square of its wait.

    Sizes that seldom fit wait longest; without such a value the pool would fill with them.
    """
    if not 0 < usual_s < math.inf:
        return np.zeros(moment.size.size)
    age = view.waited_s[: moment.size.size] / usual_s
    return policy.ageing * unit * (age * age)


def gathered(weight: F8, steps: list[int]) -> F8:
    """float64[len(steps)], the weights of all steps, each added to the nearest sampled step, the earlier of two."""
    found, k = np.zeros(len(steps)), 0
    for h, one in enumerate(weight.tolist()):
        while k + 1 < len(steps) and abs(steps[k + 1] - h) < abs(steps[k] - h):
            k += 1
        found[k] += one
    return found


def mean_request(view: RoutingView, moment: Moment) -> float:
    """Mean KV tokens of the requests that run or wait, at least 1."""
    tokens = in_order(moment.size.tolist(), in_order(view.load.tolist()))
    return max(tokens / (int(view.running.sum()) + moment.size.size), 1.0)


def speeds(view: RoutingView) -> F8:
    """float64[G], seconds a token costs on each worker, relative to the mean; all 1 where they are equal."""
    cost = view.seconds_per_token
    if (cost == cost[0]).all():
        return np.ones(cost.size)
    return cost / (in_order(cost.tolist()) / cost.size)


def departed(view: RoutingView, growth: F8, ahead: F8) -> F8:
    """float64[G, n], KV tokens that are expected to leave each worker by a step.

    Args:
        growth: float64[n], of the steps that are looked at.
        ahead: float64[G, n], expected loads of what runs.
    """
    grown = view.running[:, None] * (growth - growth[0])
    return np.maximum(0.0, ahead[:, :1] + grown - ahead)


def uncorrected(policy: Best, gone: F8, request: float) -> F8:
    """float64[G, n], the share of a worker that no departure has corrected by a step.

    A worker is corrected when a request leaves it: with the share ``expected to leave / correction`` of a mean request,
    squared in what is left of it.
    """
    stays = np.maximum(0.0, 1.0 - gone / request / policy.correction)
    return stays * stays


def until_corrected(view: RoutingView, growth: F8, weight: F8, stay: F8) -> tuple[F8, F8]:
    """How long each worker will be left as it is, and how far it will rise meanwhile.

    Returns:
        float64[G] each: discounted steps, and KV tokens it stands higher over these steps than now.
    """
    weights, rises = np.zeros(view.load.size), np.zeros(view.load.size)
    for g in range(view.load.size):
        full = int(view.running[g]) + int(view.queued[g]) + (1 if view.free_slots[g] > 0 else 0)
        stays = stay[g] * weight
        weights[g] = in_order(stays.tolist())
        rises[g] = in_order((stays * (full * growth)).tolist()) / weights[g]
    return weights, rises


def faded(moment: Moment, weight: F8, stay: F8, gone: F8, ahead: F8) -> F8:
    """The weights of the steps ahead, each times the share that is uncorrected; less where departures are known, and not at
    all where all sizes are alike."""
    if spread(moment) < ALIKE:
        return weight
    kept = [1.0]
    for h in range(1, weight.size):
        share = in_order(stay[:, h].tolist()) / stay.shape[0]
        sure = known(moment, gone[:, h].tolist(), ahead[:, h].tolist())
        kept.append(sure + (1.0 - sure) * share)
    return weight * np.array(kept)


def known(moment: Moment, gone: list[float], ahead: list[float]) -> float:
    """How well departures by a step are known, 0..1: their variance over workers, against that of known ones and of a curve."""
    total, mass = in_order(gone), in_order([a + b for a, b in zip(gone, ahead, strict=True)])
    if total <= 0.0 or total >= mass:
        return 0.0
    chance, mean = total / mass, total / len(gone)
    usual, apart = in_order(moment.size.tolist()) / moment.size.size, spread(moment)
    varies = max(0.0, in_order([one * one for one in gone]) / len(gone) - mean * mean)
    seen = varies / (mean * (usual + apart * apart / usual))
    return min(1.0, max(0.0, seen - chance) / (1.0 - chance))


def levels(moment: Moment, load: F8, rise: F8, speed: F8, newcomer: float) -> F8:
    """float64[G], the level of each worker's group: where its workers will stand, on average.

    Those without a free slot tell it by themselves while they are at least half of the group. Where they are few, chance
    would speak, so the others count as well, with a `newcomer` (tokens) in each of their free slots.
    """
    level = np.zeros(moment.group.size)
    filled = (load + np.maximum(moment.free_slots, 0) * newcomer) * speed + rise
    for q in range(int(moment.group.max()) + 1):
        members = np.flatnonzero(moment.group == q)
        closed = [float(speed[g] * load[g] + rise[g]) for g in members.tolist() if moment.free_slots[g] <= 0]
        if 2 * len(closed) >= members.size:
            level[members] = in_order(closed) / len(closed)
        else:
            level[members] = in_order(filled[members].tolist()) / members.size
    return level


def spread(moment: Moment) -> float:
    """The standard deviation of the waiting requests' KV tokens."""
    sizes = moment.size.tolist()
    usual = in_order(sizes) / len(sizes)
    square = in_order([size * size for size in sizes]) / len(sizes)
    return math.sqrt(max(0.0, square - usual * usual))


def targets(moment: Moment, level: F8, rise: F8, offset: float, speed: F8, share: float) -> tuple[F8, F8]:
    """Where each worker should stand now: at its level, or as near to it as a choice can lead it.

    Where workers stray by much more than the waiting requests differ, the largest ones would all go to workers that are low
    for now. They outlast that, the more so if large ones run longer, and swing the fleet; the pool is left with those that
    are alike. So while there is a choice (`CHOICE`), a worker is to get what is usual there, and only the envelope decides.
    The eighth power makes the change from one to the other, around `REACH`, a quick one.

    Args:
        level, rise, speed: float64[G].
        offset: KV tokens by which the level is lowered.
        share: of the free slots that is filled.

    Returns:
        float64[G] each: the targets, and how far they are followed, from 0 to 1.
    """
    sizes, reach = moment.size.tolist(), spread(moment)
    usual = in_order(sizes) / len(sizes)
    free = np.maximum(moment.free_slots, 0)
    filled = speed * (moment.load[:, 0] + free * (usual * share)) + rise
    gap = level - filled
    astray = REACH * math.sqrt(in_order((gap * gap).tolist()) / gap.size)
    hold = speed * (reach * share) * free
    hold = np.array([one / astray if one < astray else 1.0 for one in hold.tolist()])
    hold = hold * hold
    hold = hold * hold
    hold = hold * hold
    if len(sizes) <= CHOICE * moment.count:
        hold = np.ones(gap.size)
    return filled - rise + hold * (level - offset - filled), hold


def steered(policy: Best, memory: I8, moment: Moment, running: int) -> float:
    """By how many mean requests the targets are lowered, so that the pool becomes as the arrivals are.

    Proportional and integral control of the mean log size of the pool; the integral rests while there is no choice.
    """
    waiting, count, gap = moment.size.size, moment.count, 0.0
    if waiting > CHOICE * count and running > 0:
        pool = sum(octaves(size) for size in moment.size.tolist())
        usual, mean = int(memory[OCTAVES]) / int(memory[SEEN]), int(memory[TOKENS]) / int(memory[SEEN])
        spread = (octaves(mean) - usual) / 4096.0
        gap = (usual - pool / waiting) / 4096.0 / max(spread / WIDE, 1.0)
        more = int(gap * policy.steer * KEPT * 1048576.0 * count / waiting)
        memory[OFFSET] = min(max(int(memory[OFFSET]) + more, -MOST_OFFSET), MOST_OFFSET)
    return gap * policy.steer + int(memory[OFFSET]) / 1048576.0
