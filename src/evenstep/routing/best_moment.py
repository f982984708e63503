"""One decision of `best` as its reference looks at it: targets, the steered pool, speeds, headroom, quotas.

What it keeps between decisions, int64 words: `CLOCK_BITS` of the last decision's time (a float64's bits); of the requests
that arrived, the latest some thousand, `SEEN` how many, `OCTAVES` and `TOKENS` the sums of their sizes, in 1/4096 of an
octave and in tokens; `OFFSET`, what the level has been steered by, in 2^-20 of a mean request; `ARRIVED`, how many arrived
in all.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from evenstep import streams
from evenstep.request import F8, I8
from evenstep.routing.bf_io_moment import Moment, in_order, overdue
from evenstep.routing.view import RoutingView

if TYPE_CHECKING:
    from evenstep.routing.best import Best

CLOCK_BITS, SEEN, OCTAVES, TOKENS, OFFSET, ARRIVED = range(6)
#: Steps ahead at which loads are compared, each standing for those around it: expected loads are smooth.
LOOKED_AT = (0, 1, 2, 4, 6, 9, 13, 18, 25, 34, 46, 62, 84, 113, 152, 205)
#: Arrivals after which their sums are halved.
MOST_SEEN = 4096
#: Share of the steering that is kept, for a pool that is replaced once.
KEPT = 1.0 / 3.0
#: Most mean requests that are kept.
MOST_OFFSET = 4 << 20
#: A pool is worth steering when it has more than so many requests for every slot.
CHOICE = 2


def moment_of(policy: Best, view: RoutingView) -> tuple[Moment, I8]:
    """The moment a view shows to `best`, and what it keeps."""
    moment = Moment.of(view, policy.horizon, policy.discount, 0.0, policy.window, 0.0)
    memory = np.array(view.memory)
    running = int(view.running.sum())
    if moment.count == 0:
        return moment, memory
    seen(memory, view, moment)
    request = mean_request(view, moment)
    speed = speeds(view)
    load = speed[:, None] * moment.load
    usual_s = usual_wait_s(view, memory, moment, running)
    weight, rise = until_corrected(policy, view, moment, request)
    rise = rise * speed
    offset = steered(policy, memory, moment, running) * request
    kind, quota = quotas(policy.class_weights, view, moment)
    target = levels(moment.group, load[:, 0], rise, moment.free_slots) - rise - offset
    steps = [h for h in LOOKED_AT if h < moment.weight.size]
    weights = gathered(moment.weight, steps)
    known = np.searchsorted(steps, moment.stays, side="left")
    has_cached = view.cached_tokens.size > 0 and policy.affinity > 0
    return replace(
        moment, load=load[:, steps], profile=moment.profile[:, steps], growth=moment.growth[steps], weight=weights,
        stays=np.where(known < len(steps), known, np.inf),
        forced=overdue(view, moment.count, policy.age_limit * usual_s) if policy.age_limit > 0 else 0,
        worth=ages_worth(policy, view, moment, usual_s, in_order(weights.tolist()) * request),
        reward=0.0, speed=speed, target=target, pull=policy.pull * weight / request,
        kv_free=memory_left(policy, view, moment, memory), kind=kind, quota=quota,
        bonus=policy.affinity * view.cached_tokens[: moment.size.size] if has_cached else np.zeros((0, 0)),
    ), memory  # fmt: skip


def octaves(tokens: float) -> int:
    """log2 of a size in 1/4096, linear within an octave: the bits of a float64 in order."""
    return (int(np.float64(max(tokens, 1.0)).view(np.int64)) >> 40) - (1023 << 12)


def seen(memory: I8, view: RoutingView, moment: Moment) -> None:
    """Take note of the requests that have become visible since the last decision."""
    elapsed = view.now_s - float(memory[CLOCK_BITS : CLOCK_BITS + 1].view(np.float64)[0])
    is_first = memory[SEEN] == 0
    memory[CLOCK_BITS] = np.float64(view.now_s).view(np.int64)
    for size, waited in zip(moment.size.tolist(), view.waited_s[: moment.size.size].tolist(), strict=True):
        if is_first or waited < elapsed:
            memory[SEEN] += 1
            memory[ARRIVED] += 1
            memory[OCTAVES] += octaves(size)
            memory[TOKENS] += int(size)
    if memory[SEEN] > MOST_SEEN:
        memory[[SEEN, OCTAVES, TOKENS]] //= 2


def usual_wait_s(view: RoutingView, memory: I8, moment: Moment, running: int) -> float:
    """Mean wait of those that found the fleet full, seconds; 0 or inf while there is none to go by.

    The first ones found free slots and did not wait: as many as run now are taken out of the mean.
    """
    admitted = int(memory[ARRIVED]) - moment.size.size
    return view.mean_wait_s * (admitted / (admitted - running)) if admitted > running else math.inf


def ages_worth(policy: Best, view: RoutingView, moment: Moment, usual_s: float, unit: float) -> F8:
    """float64[W], what it is worth to admit each request: it rises with the square of its wait.

    Sizes that seldom fit wait longest; without a price on that the pool ends full of them.
    """
    if not 0 < usual_s < math.inf:
        return np.zeros(moment.size.size)
    age = view.waited_s[: moment.size.size] / usual_s
    return policy.ageing * unit * (age * age)


def gathered(weight: F8, steps: list[int]) -> F8:
    """float64[len(steps)], the weights of all steps, each with the nearest one looked at, the earlier of two."""
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


def until_corrected(policy: Best, view: RoutingView, moment: Moment, request: float) -> tuple[F8, F8]:
    """How long each worker will be left as it is, and how far it will rise meanwhile.

    A worker is corrected when a request leaves it: with the share ``expected to leave / correction`` of a mean request,
    squared in what is left of it.

    Returns:
        float64[G] each: discounted steps, and KV tokens it stands higher over these steps than now.
    """
    growth = moment.growth
    weights, rises = np.zeros(view.load.size), np.zeros(view.load.size)
    for g in range(view.load.size):
        running = int(view.running[g])
        load = float(view.projections[g, 0])
        full = running + int(view.queued[g]) + (1 if view.free_slots[g] > 0 else 0)
        total, rise = 0.0, 0.0
        for h in range(growth.size):
            left = max(0.0, load + running * (growth[h] - growth[0]) - float(view.projections[g, h]))
            stays = max(0.0, 1.0 - left / request / policy.correction)
            stays = stays * stays * moment.weight[h]
            total += stays
            rise += stays * (full * growth[h])
        weights[g], rises[g] = total, rise / total
    return weights, rises


def levels(group: I8, load: F8, rise: F8, free_slots: I8) -> F8:
    """float64[G], the level of each worker's group: where workers without a free slot will stand, on average.

    Where every worker has a free slot it is the mean load.
    """
    level = np.zeros(group.size)
    for q in range(int(group.max()) + 1):
        members = np.flatnonzero(group == q)
        closed = [g for g in members.tolist() if free_slots[g] <= 0]
        if closed:
            level[members] = in_order([float(load[g] + rise[g]) for g in closed]) / len(closed)
        else:
            level[members] = in_order(load[members].tolist()) / members.size
    return level


def steered(policy: Best, memory: I8, moment: Moment, running: int) -> float:
    """By how many mean requests the targets are lowered, so that the pool becomes as the arrivals are.

    Proportional and integral control of the mean log size of the pool; the integral rests while there is no choice.
    """
    waiting, count, gap = moment.size.size, moment.count, 0.0
    if waiting > CHOICE * count and running > 0:
        pool = sum(octaves(size) for size in moment.size.tolist())
        gap = (int(memory[OCTAVES]) / int(memory[SEEN]) - pool / waiting) / 4096.0
        more = int(gap * policy.steer * KEPT * 1048576.0 * count / waiting)
        memory[OFFSET] = min(max(int(memory[OFFSET]) + more, -MOST_OFFSET), MOST_OFFSET)
    return gap * policy.steer + int(memory[OFFSET]) / 1048576.0


def memory_left(policy: Best, view: RoutingView, moment: Moment, memory: I8) -> F8:
    """float64[G], KV tokens that may be admitted, with headroom for what runs to grow; inf where only slots limit.

    Kept free: `headroom` times what a running request has produced on average, or what all of them gain over the
    horizon if that is more; nothing on a worker that runs nothing.
    """
    running = int(view.running.sum())
    produced = 0.0
    if running > 0:
        produced = max(0.0, in_order(view.load.tolist()) / running - int(memory[TOKENS]) / int(memory[SEEN]))
    left = np.array(view.kv_free)
    for g in range(left.size):
        there = int(view.running[g] + view.queued[g])
        if there > 0 and left[g] < np.inf:
            kept = max(policy.headroom * produced, (there + 1) * moment.growth[-1])
            left[g] = max(0.0, left[g] - kept)
    return left


def quotas(weights: tuple[float, ...], view: RoutingView, moment: Moment) -> tuple[I8, I8]:
    """Class of each request, numbered from 0 in order of age, and how many of each are admitted.

    Slots are shared by weight; what a class does not need goes to the others (water filling). Parts of a slot are rounded
    by one draw a decision, which over many decisions is exact.

    Returns:
        int64[W] and int64[classes].
    """
    found: dict[int, int] = {}
    kind = np.array(
        [found.setdefault(c, len(found)) for c in view.waiting_class[: moment.size.size].tolist()], np.int64
    )
    if len(found) == 1 or moment.count == moment.size.size:
        return np.zeros(kind.size, np.int64), np.array([moment.count])
    demand = np.bincount(kind).tolist()
    weight = [weights[c] if 0 <= c < len(weights) else 1.0 for c in found]
    ideal, left = [-1.0] * len(found), float(moment.count)
    while True:
        total = in_order([w for w, given in zip(weight, ideal, strict=True) if given < 0])
        share = left
        for c, w in enumerate(weight):
            if ideal[c] < 0 and demand[c] <= share * w / total:
                ideal[c] = float(demand[c])
                left -= demand[c]
        if left == share:
            break
    u = streams.uniform(view.seed, "best", view.decision)
    quota, upto, given = np.zeros(len(found), np.int64), 0.0, 0
    for c, w in enumerate(weight):
        upto += ideal[c] if ideal[c] >= 0 else left * w / total
        edge = moment.count if c == len(weight) - 1 else min(max(int(upto + u), given), moment.count)
        quota[c], given = edge - given, edge
    return kind, quota
