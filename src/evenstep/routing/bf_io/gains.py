"""Computes what a BF-IO plan gains from exchanging requests of its workers, and the request size that gains most."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import Floats, part
from evenstep.routing.bf_io.plan import Plan, profile, traded

#: Gains up to this many tokens are rounding, not progress.
TOLERANCE = 1e-6


@part
def set_others(o: int, plan: Plan) -> bool:
    """Set `plan.others`: the envelope, at each step, of the group of open worker o without that worker; -inf if it is alone.

    Returns True if o alone sets its group's envelope at any step.
    """
    q = plan.group[o]
    above = False
    for h in range(plan.weight.size):
        load, top, second = plan.load[o, h], plan.envelope[q, h], plan.runner_up[q, h]
        plan.others[h] = second if load >= top else top
        above = above or (load > second and load >= top)
    return above


@part
def sum_of(term: Floats) -> float:
    """The sum of the terms, added in four interleaved partial sums; this fixed order determines the rounding."""
    n = term.size
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for h in range(0, n - 3, 4):
        a += term[h]
        b += term[h + 1]
        c += term[h + 2]
        d += term[h + 3]
    rest = n - n % 4
    if n % 4 > 0:
        a += term[rest]
    if n % 4 > 1:
        b += term[rest + 1]
    if n % 4 > 2:
        c += term[rest + 2]
    return (a + b) + (c + d)


@part
def deviation_change(load: float, mean: float, share: float, delta: float) -> float:
    """Change of a group's sum of squared deviations from its mean if a load changes by `delta`; share = 1 - 1 / members."""
    return delta * (2.0 * (load - mean) + delta * share)


@part
def pulled(o: int, shift: float, plan: Plan) -> float:
    """Change of worker o's target penalty (see `Plan.pull`) if its load at step 0 changes by `shift`; below 0 = a gain."""
    off = plan.load[o, 0] - plan.target[o]
    return plan.pull[o] * (shift * (2.0 * off + shift))


@part
def replacement_gain(o: int, out_size: float, out_stays: float, into_size: float, into_stays: float, plan: Plan) -> float:
    """Decrease of the objective, above 0 = better, if the `into` request replaces the `out` request on open worker o.

    Sizes are KV tokens, `stays` are steps until the end (inf = unknown). Call `set_others` for o first. Worth of requests
    and cached tokens are not counted. `plan.term` is overwritten, the rest of the plan stays.
    """
    q = plan.group[o]
    members, tie = float(plan.members[q]), plan.tie[q]
    speed, reward = plan.speed[o], plan.reward[q]
    for h in range(plan.weight.size):
        delta = speed * traded(out_size, out_stays, into_size, into_stays, h, plan)
        top = max(plan.others[h], plan.load[o, h] + delta)
        plan.term[h] = plan.weight[h] * (members * (plan.envelope[q, h] - top) + reward * delta)
    if tie > 0.0:
        for h in range(plan.weight.size):
            delta = speed * traded(out_size, out_stays, into_size, into_stays, h, plan)
            mean, share = plan.total[q, h] / members, 1.0 - 1.0 / members
            plan.term[h] -= plan.weight[h] * (tie * deviation_change(plan.load[o, h], mean, share, delta))
    gain = sum_of(plan.term)
    if plan.pull[o] > 0.0:
        gain -= pulled(o, speed * traded(out_size, out_stays, into_size, into_stays, 0, plan), plan)
    return gain


@part
def transfer_gain(o: int, p: int, out: int, back: int, plan: Plan) -> float:
    """Decrease of the objective, above 0 = better, if request `out` moves from worker o to p, and `back` (-1: none) to o.

    Workers are places among the open ones, requests are ranks. Call `set_others` for o first. The gain is exact if `out` is
    larger than `back` at every step; with unknown ends, a larger size is enough. Otherwise it is a lower bound. Cached
    tokens are not counted. `plan.term` is overwritten, the rest of the plan stays.
    """
    q, z = plan.group[o], plan.group[p]
    members, members_there = plan.members[q], plan.members[z]
    out_size, out_stays, back_size, back_stays = plan.size[out], plan.stays[out], 0.0, -1.0
    if back >= 0:
        back_size, back_stays = plan.size[back], plan.stays[back]
    here, there = plan.speed[o], plan.speed[p]
    for h in range(plan.weight.size):
        delta = traded(back_size, back_stays, out_size, out_stays, h, plan)
        left, right = plan.load[o, h] - here * delta, plan.load[p, h] + there * delta
        if q == z:
            top = max(plan.others[h], left, right)
            plan.term[h] = plan.weight[h] * (members * (plan.envelope[q, h] - top))
        else:
            fall = members * (plan.envelope[q, h] - max(plan.others[h], left))
            rise = members_there * (max(plan.envelope[z, h], right) - plan.envelope[z, h])
            plan.term[h] = plan.weight[h] * (fall - rise)
    if plan.tie[q] > 0.0 or plan.tie[z] > 0.0:
        for h in range(plan.weight.size):
            delta = traded(back_size, back_stays, out_size, out_stays, h, plan)
            subtract_ties(o, p, h, delta, plan)
    if here != there:
        for h in range(plan.weight.size):
            delta = traded(back_size, back_stays, out_size, out_stays, h, plan)
            plan.term[h] += plan.weight[h] * (plan.reward[q] * (there * delta - here * delta))
    gain = sum_of(plan.term)
    if plan.pull[o] > 0.0:
        gain -= pulled_apart(o, p, out, back, plan)
    return gain


@part
def pulled_apart(o: int, p: int, out: int, back: int, plan: Plan) -> float:
    """Change of the sum of both workers' target penalties if `out` moves from worker o to p, and `back` (-1: none) to o."""
    growth = plan.growth[0]
    delta = profile(plan.size[out], plan.stays[out], growth, 0)
    delta -= profile(plan.size[back], plan.stays[back], growth, 0) if back >= 0 else 0.0
    return pulled(o, -(plan.speed[o] * delta), plan) + pulled(p, plan.speed[p] * delta, plan)


@part
def is_bounded(plan: Plan) -> bool:
    """True if `most_gain` is valid and targets count: no ties, rewards or cached tokens count in a transfer."""
    has_ties = False
    for q in range(plan.tie.size):
        has_ties = has_ties or plan.tie[q] > 0.0
    return plan.place.size > 0 and plan.pull[0] > 0.0 and plan.reward[0] <= 0.0 and plan.hit[0] <= 0.0 and not has_ties


@part
def most_gain(o: int, plan: Plan) -> float:
    """Upper bound of the gain of a transfer from worker o without `pulled_apart`; inf if o is alone in its group.

    It is the decrease of the group's envelope without the worker, and valid if `is_bounded`. The bound holds to the last
    bit, since each term bounds one of `transfer_gain`, added in the same order. Call `set_others` for o first; `plan.term`
    is overwritten.
    """
    q = plan.group[o]
    for h in range(plan.weight.size):
        fall = plan.members[q] * (plan.envelope[q, h] - plan.others[h])  # infinite if o is alone in its group
        plan.term[h] = plan.weight[h] * fall if plan.weight[h] > 0.0 else 0.0
    return sum_of(plan.term)


@part
def may_gain(o: int, p: int, out: int, back: int, most: float, least: float, plan: Plan) -> bool:
    """False if a cheap bound shows that a transfer cannot gain more than `least`.

    The first four arguments are those of `transfer_gain`. The bound is `most`, from `most_gain`, less `pulled_apart`. If
    `most` is inf (no bound known), the answer is True.
    """
    return most == np.inf or most - pulled_apart(o, p, out, back, plan) > least


@part
def subtract_ties(o: int, p: int, h: int, delta: float, plan: Plan) -> None:
    """Subtract from `plan.term[h]` what the tie-breaker adds to the objective if `delta` tokens move from worker o to p."""
    q, z = plan.group[o], plan.group[p]
    members, members_there = float(plan.members[q]), float(plan.members[z])
    left = deviation_change(plan.load[o, h], plan.total[q, h] / members, 1.0 - 1.0 / members, -delta)
    right = deviation_change(plan.load[p, h], plan.total[z, h] / members_there, 1.0 - 1.0 / members_there, delta)
    if q == z:
        right += 2.0 * delta * delta / members
    plan.term[h] -= plan.weight[h] * (plan.tie[q] * left + plan.tie[z] * right)


@part
def ideal_size(o: int, size: float, stays: float, plan: Plan) -> float:
    """The size in KV tokens of a new request that minimises the objective if it replaces one on open worker o.

    The replaced request has `size` KV tokens and ends in `stays` steps (inf = unknown); the new one has no known end. The
    waiting requests need not contain that size. It is -inf if a smaller one is always better. The objective is convex in it.
    Its slope begins at minus reward times the sum of the weights, and rises by members * weight[h] at the margin of step h.
    Tie-breaker and targets add a slope that rises evenly. The result is the size at which the slope ceases to be negative.
    Call `set_others` for o first; `plan.margin` is overwritten.
    """
    q = plan.group[o]
    members, tie, reward = plan.members[q], plan.tie[q], plan.reward[q]
    speed, pull = plan.speed[o], plan.pull[o]
    down, rise = 0.0, 0.0
    for h in range(plan.weight.size):
        delta = speed * (plan.growth[h] - profile(size, stays, plan.growth[h], h))
        rest = plan.load[o, h] + delta
        plan.margin[h] = plan.others[h] - rest
        down += reward * plan.weight[h]
        if tie > 0.0:
            mean = (plan.total[q, h] + delta) / members
            down -= plan.weight[h] * (2.0 * tie * (rest - mean))
            rise += plan.weight[h] * (2.0 * tie * (1.0 - 1.0 / members))
    if pull > 0.0:
        rest = plan.load[o, 0] + speed * (plan.growth[0] - profile(size, stays, plan.growth[0], 0))
        down -= 2.0 * pull * (rest - plan.target[o])
        rise += 2.0 * pull
    last = -np.inf
    while rise > 0.0 or down > 0.0:
        at = least_of(plan.margin)
        margin = plan.margin[at]
        if rise > 0.0 and down / rise <= margin:
            return max(down / rise, last) / speed
        if margin == np.inf:
            break
        last = margin
        down -= members * plan.weight[at]
        plan.margin[at] = np.inf
    return last / speed


@part
def least_of(margin: Floats) -> int:
    """The first step h with the smallest margin."""
    at = 0
    for h in range(1, margin.size):
        if margin[h] < margin[at]:
            at = h
    return at
