# pyright: basic
"""Local search of BF-IO, compiled: replacement from the pool, moves and swaps between workers.

Twin of `bf_io.reference`, equal in bits; the arrays of the plan are described in `bf_io.plan`.
"""

from __future__ import annotations

import numpy as np

from evenstep.compiled import borrowing, borrowing_inlined
from evenstep.routing.bf_io.plan import (
    ENVELOPE,
    GROWTH,
    HIT,
    KIN,
    KIND,
    KV_LEFT,
    MARGIN,
    MEMBERS,
    NOW,
    OTHERS,
    PULL,
    RANK,
    REQUEST,
    REWARD,
    ROOM,
    RUNNER_UP,
    SIZE,
    SPEED,
    STAYS,
    TAKEN,
    TARGET,
    TERM,
    TIE,
    TOTAL,
    WEIGHT,
    WORKER,
    WORTH,
    change,
    hits,
    profile,
)

#: The oldest so many are tried in every slot, where age is worth something.
OLDEST = 4
#: Gains up to this many tokens are rounding, not progress.
TOLERANCE = 1e-6


@borrowing_inlined
def set_others(o, steps, places, loads, envelopes):
    """Put the envelope without worker o into `steps`; whether o stands above it at any step."""
    q = places[KIN, o]
    above = False
    for h in range(steps.shape[1]):
        load, top, second = loads[NOW, o, h], envelopes[ENVELOPE, q, h], envelopes[RUNNER_UP, q, h]
        steps[OTHERS, h] = second if load >= top else top
        above = above or (load > second and load >= top)
    return above


@borrowing_inlined
def sum_of_terms(steps):
    """The sum of the terms in four lanes, h modulo 4, added in pairs: the order is part of the result."""
    n = steps.shape[1]
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for h in range(0, n - 3, 4):
        a += steps[TERM, h]
        b += steps[TERM, h + 1]
        c += steps[TERM, h + 2]
        d += steps[TERM, h + 3]
    rest = n - n % 4
    if n % 4 > 0:
        a += steps[TERM, rest]
    if n % 4 > 1:
        b += steps[TERM, rest + 1]
    if n % 4 > 2:
        c += steps[TERM, rest + 2]
    return (a + b) + (c + d)


@borrowing_inlined
def deviation_change(load, mean, share, delta):
    """Change of the sum of squared deviations when one load moves by delta; share = 1 - 1/members."""
    return delta * (2.0 * (load - mean) + delta * share)


@borrowing_inlined
def pulled(o, shift, tokens, loads):
    """What the pull on worker o loses when its load of this step moves by so much."""
    off = loads[NOW, o, 0] - tokens[TARGET, o]
    return tokens[PULL, o] * (shift * (2.0 * off + shift))


@borrowing_inlined
def replacement_gain(
    o, out_size, out_stays, into_size, into_stays, steps, places, tokens, loads, groups, envelopes
):
    """What the objective gains when one size takes the place of another on worker o; OTHERS is set for o."""
    q = places[KIN, o]
    G, tie, speed = groups[MEMBERS, q], groups[TIE, q], tokens[SPEED, o]
    for h in range(steps.shape[1]):
        growth = steps[GROWTH, h]
        delta = profile(into_size, into_stays, growth, h) - profile(out_size, out_stays, growth, h)
        delta *= speed
        top = max(steps[OTHERS, h], loads[NOW, o, h] + delta)
        steps[TERM, h] = steps[WEIGHT, h] * (
            G * (envelopes[ENVELOPE, q, h] - top) + groups[REWARD, q] * delta
        )
    if tie > 0.0:
        for h in range(steps.shape[1]):
            growth = steps[GROWTH, h]
            delta = profile(into_size, into_stays, growth, h) - profile(out_size, out_stays, growth, h)
            delta *= speed
            spread = deviation_change(loads[NOW, o, h], envelopes[TOTAL, q, h] / G, 1.0 - 1.0 / G, delta)
            steps[TERM, h] -= steps[WEIGHT, h] * (tie * spread)
    gain = sum_of_terms(steps)
    if tokens[PULL, o] > 0.0:
        growth = steps[GROWTH, 0]
        delta = profile(into_size, into_stays, growth, 0) - profile(out_size, out_stays, growth, 0)
        gain -= pulled(o, speed * delta, tokens, loads)
    return gain


@borrowing_inlined
def transfer_gain(o, p, out, back, steps, requests, places, tokens, loads, groups, envelopes):
    """What the objective gains when `out` goes from worker o to p and `back` (-1: none) the other way.

    `others` is set for o. Where `out` outgrows `back` at every step (always, while ends are unknown) the gain is exact,
    otherwise a lower bound.
    """
    q, z = places[KIN, o], places[KIN, p]
    G, Z = groups[MEMBERS, q], groups[MEMBERS, z]
    out_size, out_stays, back_size, back_stays = requests[SIZE, out], requests[STAYS, out], 0.0, -1.0
    if back >= 0:
        back_size, back_stays = requests[SIZE, back], requests[STAYS, back]
    here, there = tokens[SPEED, o], tokens[SPEED, p]
    for h in range(steps.shape[1]):
        growth = steps[GROWTH, h]
        delta = profile(out_size, out_stays, growth, h) - profile(back_size, back_stays, growth, h)
        left, right = loads[NOW, o, h] - here * delta, loads[NOW, p, h] + there * delta
        if q == z:
            top = max(steps[OTHERS, h], left, right)
            steps[TERM, h] = steps[WEIGHT, h] * (G * (envelopes[ENVELOPE, q, h] - top))
        else:
            fall = G * (envelopes[ENVELOPE, q, h] - max(steps[OTHERS, h], left))
            rise = Z * (max(envelopes[ENVELOPE, z, h], right) - envelopes[ENVELOPE, z, h])
            steps[TERM, h] = steps[WEIGHT, h] * (fall - rise)
    if groups[TIE, q] > 0.0 or groups[TIE, z] > 0.0:
        for h in range(steps.shape[1]):
            growth = steps[GROWTH, h]
            delta = profile(out_size, out_stays, growth, h) - profile(back_size, back_stays, growth, h)
            left = deviation_change(loads[NOW, o, h], envelopes[TOTAL, q, h] / G, 1.0 - 1.0 / G, -delta)
            right = deviation_change(loads[NOW, p, h], envelopes[TOTAL, z, h] / Z, 1.0 - 1.0 / Z, delta)
            if q == z:
                right += 2.0 * delta * delta / G
            steps[TERM, h] -= steps[WEIGHT, h] * (groups[TIE, q] * left + groups[TIE, z] * right)
    if here != there:
        for h in range(steps.shape[1]):
            growth = steps[GROWTH, h]
            delta = profile(out_size, out_stays, growth, h) - profile(back_size, back_stays, growth, h)
            steps[TERM, h] += steps[WEIGHT, h] * (groups[REWARD, q] * (there * delta - here * delta))
    gain = sum_of_terms(steps)
    if tokens[PULL, o] > 0.0:
        growth = steps[GROWTH, 0]
        delta = profile(out_size, out_stays, growth, 0) - profile(back_size, back_stays, growth, 0)
        gain -= pulled(o, -(here * delta), tokens, loads) + pulled(p, there * delta, tokens, loads)
    return gain


@borrowing_inlined
def ideal_size(o, size, stays, steps, places, tokens, loads, groups, envelopes):
    """What should take the place of this size on worker o to minimise the objective, were any size to be had.

    The objective is convex in the size: its slope starts at minus the weight of all steps and rises by
    members * weight[h] at the margin of each step h (and evenly, with the tie-breaker). Walk until it turns positive.
    """
    q = places[KIN, o]
    G, tie = groups[MEMBERS, q], groups[TIE, q]
    speed, pull = tokens[SPEED, o], tokens[PULL, o]
    down, rise = 0.0, 0.0
    for h in range(steps.shape[1]):
        delta = speed * (steps[GROWTH, h] - profile(size, stays, steps[GROWTH, h], h))
        rest = loads[NOW, o, h] + delta
        steps[MARGIN, h] = steps[OTHERS, h] - rest
        down += groups[REWARD, q] * steps[WEIGHT, h]
        if tie > 0.0:
            mean = (envelopes[TOTAL, q, h] + delta) / G
            down -= steps[WEIGHT, h] * (2.0 * tie * (rest - mean))
            rise += steps[WEIGHT, h] * (2.0 * tie * (1.0 - 1.0 / G))
    if pull > 0.0:
        rest = loads[NOW, o, 0] + speed * (steps[GROWTH, 0] - profile(size, stays, steps[GROWTH, 0], 0))
        down -= 2.0 * pull * (rest - tokens[TARGET, o])
        rise += 2.0 * pull
    last = -np.inf
    while rise > 0.0 or down > 0.0:
        at = 0
        for h in range(1, steps.shape[1]):
            if steps[MARGIN, h] < steps[MARGIN, at]:
                at = h
        margin = steps[MARGIN, at]
        if rise > 0.0 and down / rise <= margin:
            return max(down / rise, last) / speed
        if margin == np.inf:
            break
        last = margin
        down -= G * steps[WEIGHT, at]
        steps[MARGIN, at] = np.inf
    return last / speed


@borrowing_inlined
def rank_from(requests, size):
    """First rank whose size is at least `size`."""
    low, high = 0, requests.shape[1]
    while low < high:
        middle = (low + high) // 2
        if requests[SIZE, middle] < size:
            low = middle + 1
        else:
            high = middle
    return low


@borrowing_inlined
def waiting_below(r, ranks):
    """The next rank below r that waits, -1 if none."""
    r -= 1
    while r >= 0 and ranks[TAKEN, r] == 1:
        r -= 1
    return r


@borrowing_inlined
def waiting_from(r, ranks):
    """The first rank from r on that waits, W if none."""
    while r < ranks.shape[1] and ranks[TAKEN, r] == 1:
        r += 1
    return r


@borrowing_inlined
def rank_beyond(requests, size):
    """First rank whose size is more than `size`."""
    low, high = 0, requests.shape[1]
    while low < high:
        middle = (low + high) // 2
        if requests[SIZE, middle] <= size:
            low = middle + 1
        else:
            high = middle
    return low


@borrowing_inlined
def best_replacement(
    o, out, tries_all, steps, requests, ranks, places, tokens, loads, groups, envelopes, cached
):
    """The waiting request that gains most in place of `out` on worker o; -1 if none gains. OTHERS is set for o.

    The gain is concave in the size, so the two neighbours of the ideal size do, and the oldest where age is worth
    something, unless more than size and age counts.
    """
    size, stays = requests[SIZE, out], requests[STAYS, out]
    limit = tokens[KV_LEFT, o] + size
    low, high = 0, requests.shape[1] - 1
    if not tries_all:
        ideal = ideal_size(o, size, stays, steps, places, tokens, loads, groups, envelopes)
        start = rank_from(requests, min(ideal, limit))
        low, high = max(waiting_below(start, ranks), 0), min(waiting_from(start, ranks), high)
    best, best_gain = -1, TOLERANCE
    r = low
    while r <= high:
        alike = ranks[KIND, r] == ranks[KIND, out]
        if ranks[TAKEN, r] == 0 and requests[SIZE, r] <= limit and alike:
            gain = replacement_gain(
                o, size, stays, requests[SIZE, r], requests[STAYS, r],
                steps, places, tokens, loads, groups, envelopes,
            )  # fmt: skip
            if tokens[HIT, o] > 0.0:
                gain += hits(r, o, ranks, places, tokens, cached) - hits(
                    out, o, ranks, places, tokens, cached
                )
            gain += requests[WORTH, r] - requests[WORTH, out]
            if gain > best_gain:
                best, best_gain = r, gain
        r = r + 1 if tries_all or r == high else high
    if tries_all or requests[WORTH, ranks[RANK, 0]] <= 0.0:
        return best
    i, tried = 0, 0
    while i < ranks.shape[1] and tried < OLDEST:
        r = ranks[RANK, i]
        if ranks[TAKEN, r] == 0:
            tried += 1
            if requests[SIZE, r] <= limit:
                gain = replacement_gain(
                    o, size, stays, requests[SIZE, r], requests[STAYS, r],
                    steps, places, tokens, loads, groups, envelopes,
                )  # fmt: skip
                gain += requests[WORTH, r] - requests[WORTH, out]
                if gain > best_gain:
                    best, best_gain = r, gain
        i += 1
    return best


@borrowing_inlined
def nearest_pair(ideal, limit, requests, ranks):
    """The two waiting requests whose sizes add up to the most below `ideal`, and to the least from it on, within limit.

    Returns (low, high) of the first and of the second pair; -1 for a pair that does not exist.
    """
    below, above = -np.inf, np.inf
    a, b, c, d = -1, -1, -1, -1
    low, high = waiting_from(0, ranks), waiting_below(ranks.shape[1], ranks)
    while low < high:
        total = requests[SIZE, low] + requests[SIZE, high]
        if total < ideal:
            if total > below and total <= limit:
                a, b, below = low, high, total
            low = waiting_from(low + 1, ranks)
        else:
            if total < above and total <= limit:
                c, d, above = low, high, total
            high = waiting_below(high, ranks)
    return a, b, c, d


@borrowing
def replace_pair(k, m, steps, requests, ranks, places, tokens, loads, groups, envelopes, slots):
    """Replace the requests of two slots of one worker by the best two that wait; whether that gained anything."""
    o, x, y = slots[WORKER, k], slots[REQUEST, k], slots[REQUEST, m]
    size = requests[SIZE, x] + requests[SIZE, y]
    limit = tokens[KV_LEFT, o] + size
    ideal = ideal_size(o, size, np.inf, steps, places, tokens, loads, groups, envelopes)
    ranks[TAKEN, x], ranks[TAKEN, y] = 0, 0
    a, b, c, d = nearest_pair(min(ideal, limit), limit, requests, ranks)
    ranks[TAKEN, x], ranks[TAKEN, y] = 1, 1
    best, best_gain = -1, TOLERANCE
    for side in range(2):
        low, high = (a, b) if side == 0 else (c, d)
        if low >= 0:
            total = requests[SIZE, low] + requests[SIZE, high]
            gain = replacement_gain(
                o, size, np.inf, total, np.inf, steps, places, tokens, loads, groups, envelopes
            )
            worth = requests[WORTH, low] + requests[WORTH, high]
            gain += worth - (requests[WORTH, x] + requests[WORTH, y])
            if gain > best_gain:
                best, best_gain = side, gain
    if best < 0:
        return False
    low, high = (a, b) if best == 0 else (c, d)
    change(o, x, low, steps, requests, ranks, places, tokens, loads, envelopes)
    change(o, y, high, steps, requests, ranks, places, tokens, loads, envelopes)
    ranks[TAKEN, low], ranks[TAKEN, high] = 1, 1
    slots[REQUEST, k], slots[REQUEST, m] = low, high
    return True


@borrowing
def best_transfer(k, filled, steps, requests, ranks, places, tokens, loads, groups, envelopes, slots, cached):
    """Where the request of slot k gains most: (worker or -1, slot it swaps with or -1, tries)."""
    o, out = slots[WORKER, k], slots[REQUEST, k]
    size = requests[SIZE, out]
    to, swap, best_gain, tries = -1, -1, TOLERANCE, 0
    for p in range(places.shape[1]):
        if p != o and places[ROOM, p] > 0 and size <= tokens[KV_LEFT, p]:
            gain = transfer_gain(o, p, out, -1, steps, requests, places, tokens, loads, groups, envelopes)
            tries += 1
            if tokens[HIT, o] > 0.0:
                gain += hits(out, p, ranks, places, tokens, cached) - hits(
                    out, o, ranks, places, tokens, cached
                )
            if gain > best_gain:
                to, swap, best_gain = p, -1, gain
    for m in range(filled):
        p, back = slots[WORKER, m], slots[REQUEST, m]
        delta = size - requests[SIZE, back]
        if p != o and delta > 0.0 and delta <= tokens[KV_LEFT, p]:
            gain = transfer_gain(o, p, out, back, steps, requests, places, tokens, loads, groups, envelopes)
            tries += 1
            if tokens[HIT, o] > 0.0:
                swapped = hits(out, p, ranks, places, tokens, cached) + hits(
                    back, o, ranks, places, tokens, cached
                )
                now = hits(out, o, ranks, places, tokens, cached) + hits(
                    back, p, ranks, places, tokens, cached
                )
                gain += swapped - now
            if gain > best_gain:
                to, swap, best_gain = p, m, gain
    return to, swap, tries


@borrowing
def transfer(k, to, swap, steps, requests, ranks, places, tokens, loads, envelopes, slots):
    """Give the request of slot k to worker `to`, in exchange for that of slot `swap` (-1: for nothing)."""
    o, out = slots[WORKER, k], slots[REQUEST, k]
    back = slots[REQUEST, swap] if swap >= 0 else -1
    change(o, out, back, steps, requests, ranks, places, tokens, loads, envelopes)
    change(to, back, out, steps, requests, ranks, places, tokens, loads, envelopes)
    slots[WORKER, k] = to
    if swap >= 0:
        ranks[TAKEN, back] = 1
        slots[WORKER, swap] = o


@borrowing
def replace(
    k, filled, tries_all, steps, requests, ranks, places, tokens, loads, groups, envelopes, slots, cached
):
    """Replace the request of slot k from the pool, or else it and another of its worker; (whether it gained, tries)."""
    o, out = slots[WORKER, k], slots[REQUEST, k]
    set_others(o, steps, places, loads, envelopes)
    r = best_replacement(
        o, out, tries_all, steps, requests, ranks, places, tokens, loads, groups, envelopes, cached
    )
    if r >= 0:
        change(o, out, r, steps, requests, ranks, places, tokens, loads, envelopes)
        slots[REQUEST, k] = r
        return True, 1
    tries = 1
    if not tries_all:
        for m in range(k + 1, filled):
            if slots[WORKER, m] == o:
                tries += 1
                if replace_pair(
                    k, m, steps, requests, ranks, places, tokens, loads, groups, envelopes, slots
                ):
                    return True, tries
    return False, tries


@borrowing
def search(
    pinned, filled, tries, tries_all,
    steps, requests, ranks, places, tokens, loads, groups, envelopes, slots, cached,
):  # fmt: skip
    """Improve slot after slot until none has gained for a whole round, or the tries are used up.

    The overdue, in the first `pinned` slots, are not replaced. Without tie-breaker only a worker above all others can
    gain by giving a request away.
    """
    k, idle = 0, 0
    while idle < filled and tries > 0:
        idle += 1
        o = slots[WORKER, k]
        if k >= pinned and filled < requests.shape[1]:
            made, used = replace(
                k, filled, tries_all,
                steps, requests, ranks, places, tokens, loads, groups, envelopes, slots, cached,
            )  # fmt: skip
            tries -= used
            if made:
                idle = 0
        above = set_others(o, steps, places, loads, envelopes)
        drawn = groups[TIE, places[KIN, o]] > 0.0 or tokens[PULL, o] > 0.0 or tokens[HIT, o] > 0.0
        if above or drawn:
            to, swap, used = best_transfer(
                k, filled, steps, requests, ranks, places, tokens, loads, groups, envelopes, slots, cached
            )
            tries -= used
            if to >= 0:
                transfer(k, to, swap, steps, requests, ranks, places, tokens, loads, envelopes, slots)
                idle = 0
        k = k + 1 if k + 1 < filled else 0
