# pyright: basic
"""The plan of one BF-IO decision, compiled: built from the host's arrays, filled, changed, valued, answered.

Twin of `bf_io.reference.Plan`, equal in bits. Requests go by *rank* (ascending size at admission, older first among
equals), workers by their place among the *open* ones (those with a free slot). n = H+1 steps, W requests, O open
workers, Q groups, U slots, C classes. The plan is arrays, not one tuple: counting references would cost more than the
search.

===========  ===========  =====================================================================================
steps        f8[5, n]     WEIGHT discount**h, GROWTH of a newcomer, working space of the search: OTHERS (envelope
                          without the worker at hand), MARGIN, TERM of a sum
requests     f8[3, W]     SIZE at admission, STAYS: steps until its end, inf where unknown, WORTH of admitting it
ranks        i8[4, W]     INDEX: rank -> place in the pool, RANK: the way back, TAKEN: 1 while it has a slot, KIND:
                          class, numbered from 0
places       i8[6, O]     KIN: group, PLACE: number in the view, FREE slots, ROOM: slots left, working space of the
                          levels: SHARE: slots to fit anew, ORDER of the workers
tokens       f8[8, O]     KV free, KV_LEFT, BURDEN: weighted sum over the steps of its load, REACH: tokens up to the
                          level, SPEED: what a token costs there (loads are in that measure), TARGET and PULL of its
                          load of this step, HIT: what a cached token of a request is worth there
loads        f8[2, O, n]  BASE: before any admission, NOW
groups       f8[3, Q]     MEMBERS: workers of the group, TIE: factor of the squared deviation, REWARD of a token
quota        i8[2, C]     requests of each class to admit, and LEFT while filling
cached       f8[W, G]     as in the view; read where HIT is not 0
envelopes    f8[6, Q, n]  FLOOR of the workers not open, ENVELOPE, RUNNER_UP: envelope without its heaviest worker,
                          BASE_TOTAL and TOTAL: sum of loads before any admission and now, BEST: of the best plan
slots        i8[4, U]     WORKER and REQUEST of each slot filled, BEST_WORKER and BEST_REQUEST of the best plan so far
===========  ===========  =====================================================================================
"""

from __future__ import annotations

import numpy as np

from evenstep.compiled import borrowing, borrowing_inlined
from evenstep.routing import view

WEIGHT, GROWTH, OTHERS, MARGIN, TERM = 0, 1, 2, 3, 4
SIZE, STAYS, WORTH = 0, 1, 2
INDEX, RANK, TAKEN, KIND = 0, 1, 2, 3
KIN, PLACE, FREE, ROOM, SHARE, ORDER = 0, 1, 2, 3, 4, 5
KV, KV_LEFT, BURDEN, REACH, SPEED, TARGET, PULL, HIT = 0, 1, 2, 3, 4, 5, 6, 7
BASE, NOW = 0, 1
MEMBERS, TIE, REWARD = 0, 1, 2
QUOTA, LEFT = 0, 1
FLOOR, ENVELOPE, RUNNER_UP, BASE_TOTAL, TOTAL, BEST = 0, 1, 2, 3, 4, 5
WORKER, REQUEST, BEST_WORKER, BEST_REQUEST = 0, 1, 2, 3

#: Starting orders.
LARGEST, ARRIVAL, SMALLEST = 0, 1, 2

FREE_SLOTS, QUEUED, GROUP = view.FREE_SLOTS, view.QUEUED, view.GROUP
LOAD, QUEUED_LOAD, KV_FREE = view.LOAD, view.QUEUED_LOAD, view.KV_FREE
WAITING_LOAD, STEPS = view.WAITING_LOAD, view.STEPS


@borrowing
def group_workers(workers_i, numbers):
    """Number the groups from 0 in order of appearance; how many there are."""
    groups = 0
    for g in range(workers_i.shape[1]):
        numbers[g] = -1
        if g > 0 and workers_i[GROUP, g - 1] == workers_i[GROUP, g]:
            numbers[g] = numbers[g - 1]
            continue
        for other in range(g):
            if workers_i[GROUP, other] == workers_i[GROUP, g]:
                numbers[g] = numbers[other]
                break
        if numbers[g] < 0:
            numbers[g] = groups
            groups += 1
    return groups


@borrowing_inlined
def set_steps(steps, growth, discount):
    """Weights of the steps, and what a newcomer gains; nan (profiles differ by request) counts as no growth."""
    weight = 1.0
    for h in range(steps.shape[1]):
        steps[WEIGHT, h] = weight
        weight *= discount
        steps[GROWTH, h] = growth[h] if h < growth.size and not np.isnan(growth[h]) else 0.0


@borrowing
def set_workers(
    numbers, workers_i, workers_f, projections, tie_weight, speeds,
    steps, places, tokens, loads, groups, envelopes,
):  # fmt: skip
    """Loads before any admission: kept for open workers, folded into floor and total for the others.

    Nothing is drawn to a target, and no cached token is worth anything; `speeds` is float64[G].
    """
    n = steps.shape[1]
    for q in range(groups.shape[1]):
        groups[MEMBERS, q], groups[REWARD, q] = 0.0, 1.0
        for h in range(n):
            envelopes[FLOOR, q, h] = -np.inf
            envelopes[BASE_TOTAL, q, h] = 0.0
    o = 0
    for g in range(workers_i.shape[1]):
        q = numbers[g]
        is_open = workers_i[FREE_SLOTS, g] > 0
        groups[MEMBERS, q] += 1.0
        queued, queued_load = float(workers_i[QUEUED, g]), workers_f[QUEUED_LOAD, g]
        if is_open:
            places[KIN, o], places[PLACE, o], places[FREE, o] = q, g, workers_i[FREE_SLOTS, g]
            tokens[KV, o], tokens[SPEED, o] = workers_f[KV_FREE, g], speeds[g]
            tokens[TARGET, o], tokens[PULL, o], tokens[HIT, o] = 0.0, 0.0, 0.0
        for h in range(n):
            ahead = projections[g, h] if h < projections.shape[1] else workers_f[LOAD, g]
            load = speeds[g] * (ahead + (queued_load + queued * steps[GROWTH, h]))
            envelopes[BASE_TOTAL, q, h] += load
            if is_open:
                loads[BASE, o, h] = load
            elif load > envelopes[FLOOR, q, h]:
                envelopes[FLOOR, q, h] = load
        if is_open:
            o += 1
    for q in range(groups.shape[1]):
        mean = envelopes[BASE_TOTAL, q, 0] / groups[MEMBERS, q]
        groups[TIE, q] = tie_weight / max(0.01 * mean, 1.0)


@borrowing
def sort(keys, values, key_row, value_row, spare_key_row, spare_value_row):
    """Sort a row of keys ascending and a row of values with it, stable: insertion in runs of 8, then merges."""
    count = keys.shape[1]
    for begin in range(0, count, 8):
        for at in range(begin + 1, min(begin + 8, count)):
            key, value, to = keys[key_row, at], values[value_row, at], at
            while to > begin and keys[key_row, to - 1] > key:
                keys[key_row, to], values[value_row, to] = keys[key_row, to - 1], values[value_row, to - 1]
                to -= 1
            keys[key_row, to], values[value_row, to] = key, value
    run = 8
    a, b, c, d = key_row, value_row, spare_key_row, spare_value_row
    while run < count:
        for begin in range(0, count, 2 * run):
            left, middle = begin, min(begin + run, count)
            right, end = middle, min(begin + 2 * run, count)
            for to in range(begin, end):
                if right >= end or (left < middle and keys[a, left] <= keys[a, right]):
                    keys[c, to], values[d, to] = keys[a, left], values[b, left]
                    left += 1
                else:
                    keys[c, to], values[d, to] = keys[a, right], values[b, right]
                    right += 1
        a, b, c, d = c, d, a, b
        run *= 2
    if a != key_row:
        for at in range(count):
            keys[key_row, at], values[value_row, at] = keys[a, at], values[b, at]


@borrowing
def set_requests(waiting_f, first, steps_ahead, requests, ranks):
    """Requests by ascending size, older first among equals, all of one class; whether the end of any is known.

    None is worth more than another.
    """
    count = requests.shape[1]
    for i in range(count):
        requests[SIZE, i] = waiting_f[WAITING_LOAD, first + i]
        ranks[INDEX, i] = i
    sort(requests, ranks, SIZE, INDEX, STAYS, RANK)
    ends_known = False
    for r in range(count):
        i = ranks[INDEX, r]
        ranks[RANK, i], ranks[KIND, r], requests[WORTH, r] = r, 0, 0.0
        stays = waiting_f[STEPS, first + i]
        requests[STAYS, r] = np.inf if np.isnan(stays) else stays
        ends_known = ends_known or requests[STAYS, r] < steps_ahead
    return ends_known


@borrowing_inlined
def profile(size, stays, growth, h):
    """Load of a request h steps after its admission: gone once its steps are over."""
    return (size + growth) * (h < stays)


@borrowing
def survey(q, places, loads, envelopes):
    """Set envelope and runner-up of one group from the loads."""
    n = envelopes.shape[2]
    for h in range(n):
        envelopes[ENVELOPE, q, h] = envelopes[FLOOR, q, h]
        envelopes[RUNNER_UP, q, h] = -np.inf
    for o in range(places.shape[1]):
        if places[KIN, o] == q:
            for h in range(n):
                load, top = loads[NOW, o, h], envelopes[ENVELOPE, q, h]
                envelopes[RUNNER_UP, q, h] = max(envelopes[RUNNER_UP, q, h], min(top, load))
                envelopes[ENVELOPE, q, h] = max(top, load)


@borrowing_inlined
def change(o, out, into, steps, requests, ranks, places, tokens, loads, envelopes):
    """Take request `out` from worker o and give it `into` (-1: none), and keep the envelope right."""
    q = places[KIN, o]
    out_size, out_stays, into_size, into_stays = 0.0, -1.0, 0.0, -1.0
    if out >= 0:
        out_size, out_stays = requests[SIZE, out], requests[STAYS, out]
        ranks[TAKEN, out] = 0
        places[ROOM, o] += 1
    if into >= 0:
        into_size, into_stays = requests[SIZE, into], requests[STAYS, into]
        ranks[TAKEN, into] = 1
        places[ROOM, o] -= 1
    tokens[KV_LEFT, o] += out_size - into_size
    unclear = False
    for h in range(steps.shape[1]):
        growth = steps[GROWTH, h]
        delta = profile(into_size, into_stays, growth, h) - profile(out_size, out_stays, growth, h)
        delta *= tokens[SPEED, o]
        before, top, second = loads[NOW, o, h], envelopes[ENVELOPE, q, h], envelopes[RUNNER_UP, q, h]
        after = before + delta
        loads[NOW, o, h] = after
        envelopes[TOTAL, q, h] += delta
        unclear = unclear or (
            before >= second and after < second
        )  # some third worker may be the runner-up now
        if before >= top:
            envelopes[ENVELOPE, q, h] = after
        else:
            envelopes[ENVELOPE, q, h] = max(top, after)
            envelopes[RUNNER_UP, q, h] = max(second, min(top, after))
    if unclear:
        survey(q, places, loads, envelopes)


@borrowing
def clear(steps, requests, ranks, places, tokens, loads, envelopes):
    """Take back every admission."""
    for o in range(places.shape[1]):
        places[ROOM, o], tokens[KV_LEFT, o] = places[FREE, o], tokens[KV, o]
        for h in range(steps.shape[1]):
            loads[NOW, o, h] = loads[BASE, o, h]
    for q in range(envelopes.shape[1]):
        for h in range(steps.shape[1]):
            envelopes[TOTAL, q, h] = envelopes[BASE_TOTAL, q, h]
    for r in range(requests.shape[1]):
        ranks[TAKEN, r] = 0


@borrowing_inlined
def admit(o, r, k, steps, requests, ranks, places, tokens, loads, envelopes, slots):
    """Give request r slot k on worker o; envelope and runner-up are left for `survey`."""
    q, size, stays = places[KIN, o], requests[SIZE, r], requests[STAYS, r]
    for h in range(steps.shape[1]):
        load = tokens[SPEED, o] * profile(size, stays, steps[GROWTH, h], h)
        loads[NOW, o, h] += load
        envelopes[TOTAL, q, h] += load
    ranks[TAKEN, r] = 1
    places[ROOM, o] -= 1
    tokens[KV_LEFT, o] -= size
    slots[WORKER, k], slots[REQUEST, k] = o, r


@borrowing_inlined
def place(r, k, steps, requests, ranks, places, tokens, loads, envelopes, slots):
    """Give request r slot k on the least burdened worker with room for it; 1 if there is one, else 0."""
    to, least, size = -1, np.inf, requests[SIZE, r]
    for o in range(places.shape[1]):
        if places[ROOM, o] > 0 and size <= tokens[KV_LEFT, o] and tokens[BURDEN, o] < least:
            to, least = o, tokens[BURDEN, o]
    if to < 0:
        return 0
    admit(to, r, k, steps, requests, ranks, places, tokens, loads, envelopes, slots)
    for h in range(steps.shape[1]):
        load = tokens[SPEED, to] * profile(size, requests[STAYS, r], steps[GROWTH, h], h)
        tokens[BURDEN, to] += steps[WEIGHT, h] * load
    return 1


@borrowing_inlined
def weigh(steps, places, tokens, loads, row):
    """Set the burdens: weighted sums over the steps of the loads `BASE` or `NOW`."""
    for o in range(places.shape[1]):
        burden = 0.0
        for h in range(steps.shape[1]):
            burden += steps[WEIGHT, h] * loads[row, o, h]
        tokens[BURDEN, o] = burden


@borrowing
def fill(start, forced, steps, requests, ranks, places, tokens, loads, envelopes, slots, quota):
    """Fill the slots, the overdue first, then in the order of the start; (overdue admitted, all admitted).

    No class but the overdue gets more than its quota, unless slots would stay empty.
    """
    count, waiting = slots.shape[1], requests.shape[1]
    clear(steps, requests, ranks, places, tokens, loads, envelopes)
    weigh(steps, places, tokens, loads, BASE)
    filled = 0
    for c in range(quota.shape[1]):
        quota[LEFT, c] = quota[QUOTA, c]
    for i in range(forced):
        r = ranks[RANK, i]
        placed = place(r, filled, steps, requests, ranks, places, tokens, loads, envelopes, slots)
        quota[LEFT, ranks[KIND, r]] = max(quota[LEFT, ranks[KIND, r]] - placed, 0)
        filled += placed
    pinned = filled
    for turn in range(waiting if quota.shape[1] == 1 else 2 * waiting):
        if filled == count:
            break
        i = turn if turn < waiting else turn - waiting
        r = waiting - 1 - i if start == LARGEST else ranks[RANK, i] if start == ARRIVAL else i
        if ranks[TAKEN, r] == 0 and (turn >= waiting or quota[LEFT, ranks[KIND, r]] > 0):
            placed = place(r, filled, steps, requests, ranks, places, tokens, loads, envelopes, slots)
            quota[LEFT, ranks[KIND, r]] = max(quota[LEFT, ranks[KIND, r]] - placed, 0)
            filled += placed
    for q in range(envelopes.shape[1]):
        survey(q, places, loads, envelopes)
    return pinned, filled


@borrowing
def refill(filled, steps, requests, ranks, places, tokens, loads, envelopes, slots):
    """Give the slots that KV memory left empty, and that the search made room for, to the oldest that fit.

    Returns how many are filled.
    """
    before, count = filled, slots.shape[1]
    if filled == count:
        return filled
    weigh(steps, places, tokens, loads, NOW)
    for i in range(requests.shape[1]):
        if filled == count:
            break
        r = ranks[RANK, i]
        if ranks[TAKEN, r] == 0:
            filled += place(r, filled, steps, requests, ranks, places, tokens, loads, envelopes, slots)
    for q in range(envelopes.shape[1] if filled > before else 0):
        survey(q, places, loads, envelopes)
    return filled


@borrowing
def objective(steps, places, tokens, loads, groups, envelopes):
    """J of the plan up to a constant of the decision: members times envelope, minus what was admitted."""
    value = 0.0
    for q in range(groups.shape[1]):
        G, tie = groups[MEMBERS, q], groups[TIE, q]
        for h in range(steps.shape[1]):
            added = envelopes[TOTAL, q, h] - envelopes[BASE_TOTAL, q, h]
            both = envelopes[TOTAL, q, h] + envelopes[BASE_TOTAL, q, h]
            gained = groups[REWARD, q] * added
            value += steps[WEIGHT, h] * (G * envelopes[ENVELOPE, q, h] - gained - tie * (added * both) / G)
    for o in range(places.shape[1]):
        tie = groups[TIE, places[KIN, o]]
        if tie > 0.0:
            for h in range(steps.shape[1]):
                load, base = loads[NOW, o, h], loads[BASE, o, h]
                value += steps[WEIGHT, h] * (tie * ((load - base) * (load + base)))
        if tokens[PULL, o] > 0.0:
            off = loads[NOW, o, 0] - tokens[TARGET, o]
            value += tokens[PULL, o] * (off * off)
    return value


@borrowing_inlined
def hits(r, o, ranks, places, tokens, cached):
    """What the cached tokens of request r are worth on worker o."""
    return tokens[HIT, o] * cached[ranks[INDEX, r], places[PLACE, o]]


@borrowing_inlined
def keep(filled, envelopes, slots):
    """Remember the plan as the best so far."""
    for k in range(filled):
        slots[BEST_WORKER, k], slots[BEST_REQUEST, k] = slots[WORKER, k], slots[REQUEST, k]
    for q in range(envelopes.shape[1]):
        for h in range(envelopes.shape[2]):
            envelopes[BEST, q, h] = envelopes[ENVELOPE, q, h]


@borrowing
def answer(filled, tries_all, requests, ranks, places, slots, worker):
    """Write the best plan; of requests alike in size the oldest go, which changes nothing else."""
    waiting = requests.shape[1]
    for r in range(waiting):
        ranks[TAKEN, r] = -1
    for k in range(filled):
        ranks[TAKEN, slots[BEST_REQUEST, k]] = places[PLACE, slots[BEST_WORKER, k]]
    if not tries_all:
        to = 0
        for r in range(waiting):
            if r > 0 and requests[SIZE, r] > requests[SIZE, r - 1]:
                to = r
            g = ranks[TAKEN, r]
            if g >= 0:
                ranks[TAKEN, r] = -1
                ranks[TAKEN, to] = g
                to += 1
    for r in range(waiting):
        if ranks[TAKEN, r] >= 0:
            worker[ranks[INDEX, r]] = ranks[TAKEN, r]
