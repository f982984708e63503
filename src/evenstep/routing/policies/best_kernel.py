# pyright: basic
"""The policy `best`, compiled: targets, steering and quotas, then the search of BF-IO.

Twin of `best` and `best.moment`, equal in bits. Arguments as in `routing.view`; parameters are the fields of `Best`;
the arrays of the plan are described in `bf_io.plan`, and cut here from the scratch space.
"""

from __future__ import annotations

import numpy as np

from evenstep.compiled import borrowing, route_kernel
from evenstep.routing.best.memory_kernel import is_bound, octaves, set_memory
from evenstep.routing.best.moment import (
    ARRIVED,
    BUSY,
    CHOICE,
    CLOCK_BITS,
    CORRECTED,
    EASED,
    KEPT,
    LEAVING,
    LEFT,
    LOOKED_AT,
    MANY,
    MOST_OFFSET,
    MOST_SEEN,
    NEWEST,
    OCTAVES,
    OFFSET,
    OVERDUE,
    OWED,
    REACH,
    RUSH,
    RUSH_US,
    SEEN,
    TOKENS,
)
from evenstep.routing.best.room_kernel import make_room
from evenstep.routing.best.shares_kernel import pay, set_quotas
from evenstep.routing.bf_io.plan import (
    GROWTH,
    HIT,
    INDEX,
    PLACE,
    PULL,
    REWARD,
    TARGET,
    WEIGHT,
    WORTH,
    group_workers,
    set_requests,
    set_steps,
    set_workers,
)
from evenstep.routing.bf_io.plan import STAYS as ENDS
from evenstep.routing.bf_io.solve import count_overdue, solve
from evenstep.routing.view import (
    FREE_SLOTS,
    ID,
    LOAD,
    QUEUED,
    QUEUED_LOAD,
    RUNNING,
    SECONDS_PER_TOKEN,
    SINCE_S,
    WAITING_LOAD,
)

(
    HORIZON, DISCOUNT, PULLED, CORRECTION, STEER, STARTS, MOVES, WINDOW, AGE_LIMIT, AGEING, RECOMPUTE, AFFINITY, CLASSES,
) = range(13)  # fmt: skip

# Rows of `about`, one column a worker.
SPEED_OF, STAYS, RISE, LEVEL, FILLED = 0, 1, 2, 3, 4


def scratch(workers, waiting, horizon, parameters):
    """Working space: (int64, float64) words for G workers, W waiting requests and H steps ahead."""
    n = horizon + 1
    return 12 * waiting + 7 * workers + 4, 5 * waiting + 17 * workers + 9 * workers * n + 10 * n


@borrowing
def rush_s(considered, count, now_s, memory):
    """Seconds from one admission to the next while requests wait, of late; 0 while none had to."""
    if memory[LEFT] > 0:
        elapsed = now_s - np.int64(memory[CLOCK_BITS]).view(np.float64)
        memory[RUSH] += count
        memory[RUSH_US] += np.int64(elapsed * 1000000.0)
        if memory[RUSH] > MOST_SEEN:
            memory[RUSH] //= 2
            memory[RUSH_US] //= 2
    memory[LEFT] = considered - count
    return memory[RUSH_US] / (1000000.0 * max(memory[RUSH], 1))


@borrowing
def take_note(first, considered, now_s, waiting_i, waiting_f, memory):
    """Take note of the requests that have become visible since the last decision."""
    elapsed = now_s - np.int64(memory[CLOCK_BITS]).view(np.float64)
    is_first, newest = memory[SEEN] == 0, memory[NEWEST]
    memory[CLOCK_BITS] = np.float64(now_s).view(np.int64)
    for i in range(first, first + considered):
        request = waiting_i[ID, i]
        if is_first or now_s - waiting_f[SINCE_S, i] < elapsed or request > newest:
            size = waiting_f[WAITING_LOAD, i]
            memory[SEEN] += 1
            memory[ARRIVED] += 1
            memory[OCTAVES] += octaves(size)
            memory[TOKENS] += np.int64(size)
            memory[NEWEST] = max(memory[NEWEST], request)
    if memory[SEEN] > MOST_SEEN:
        memory[SEEN] //= 2
        memory[OCTAVES] //= 2
        memory[TOKENS] //= 2


@borrowing
def usual_wait_s(mean_wait_s, considered, running, memory):
    """Mean wait of those that found the fleet full, seconds; 0 or inf while there is none to go by."""
    admitted = memory[ARRIVED] - considered
    return mean_wait_s * (admitted / (admitted - running)) if admitted > running else np.inf


@borrowing
def whole_wait_s(mean_wait_s, considered, running, memory):
    """Mean wait by which the oldest one is judged, seconds; inf while there is none to go by."""
    found_free = running / max(memory[ARRIVED] - considered, 1)
    return mean_wait_s / (1.0 - found_free * found_free * found_free) if found_free < 1.0 else np.inf


@borrowing
def leaving(request, workers_i, projections, steps):
    """Mean requests that are expected to leave a worker within a step, of each worker one at most."""
    if steps.shape[1] < 2:
        return 0.0
    gained, left = steps[GROWTH, 1] - steps[GROWTH, 0], 0.0
    for g in range(projections.shape[0]):
        lost = projections[g, 0] + workers_i[RUNNING, g] * gained - projections[g, 1]
        left += min(request, max(0.0, lost))
    return left / (request * projections.shape[0])


@borrowing
def look_seldom(full, projections, steps, ahead):
    """Loads, growth and gathered weights of the steps that are looked at, out of those of all steps."""
    n, k = steps.shape[1], 0
    for i in range(n):
        steps[WEIGHT, i], steps[GROWTH, i] = 0.0, full[GROWTH, LOOKED_AT[i]]
        for g in range(ahead.shape[0]):
            ahead[g, i] = projections[g, LOOKED_AT[i]]
    for h in range(full.shape[1]):
        while k + 1 < n and abs(LOOKED_AT[k + 1] - h) < abs(LOOKED_AT[k] - h):
            k += 1
        steps[WEIGHT, k] += full[WEIGHT, h]


@borrowing
def set_ends(steps, requests):
    """Ends of requests, in steps that are looked at; whether any is known."""
    n, is_known = steps.shape[1], False
    for r in range(requests.shape[1]):
        if requests[ENDS, r] < np.inf:
            k = 0
            while k < n and LOOKED_AT[k] < requests[ENDS, r]:
                k += 1
            requests[ENDS, r] = float(k) if k < n else np.inf
            is_known = is_known or k < n
    return is_known


@borrowing
def set_worth(first, ageing, now_s, usual_s, request, waiting_f, steps, requests, ranks):
    """What it is worth to admit each request: it rises with the square of its wait."""
    if not 0.0 < usual_s < np.inf:
        return
    total = 0.0
    for k in range(steps.shape[1]):
        total += steps[WEIGHT, k]
    unit = ageing * (total * request)
    for r in range(requests.shape[1]):
        age = (now_s - waiting_f[SINCE_S, first + ranks[INDEX, r]]) / usual_s
        requests[WORTH, r] = unit * (age * age)


@borrowing
def steered(first, considered, count, running, steer, waiting_f, memory):
    """By how many mean requests the targets are lowered."""
    gap = 0.0
    if considered > CHOICE * count and running > 0:
        pool = np.int64(0)
        for i in range(first, first + considered):
            pool += octaves(waiting_f[WAITING_LOAD, i])
        gap = (memory[OCTAVES] / memory[SEEN] - pool / considered) / 4096.0
        more = np.int64(gap * steer * KEPT * 1048576.0 * count / considered)
        memory[OFFSET] = min(max(memory[OFFSET] + more, -MOST_OFFSET), MOST_OFFSET)
    return gap * steer + memory[OFFSET] / 1048576.0


@borrowing
def look_at_workers(
    request, newcomer, correction, numbers, workers_i, workers_f, ahead, steps, about, groups
):
    """Speeds are set; how long each worker stays as it is, how far it rises meanwhile, and the level of its group."""
    G, n = workers_i.shape[1], steps.shape[1]
    for g in range(G):
        load, running = ahead[g, 0], float(workers_i[RUNNING, g])
        is_open = workers_i[FREE_SLOTS, g] > 0
        full = float(workers_i[RUNNING, g] + workers_i[QUEUED, g] + (1 if is_open else 0))
        total, rise = 0.0, 0.0
        for h in range(n):
            left = max(0.0, load + running * (steps[GROWTH, h] - steps[GROWTH, 0]) - ahead[g, h])
            stays = max(0.0, 1.0 - left / request / correction)
            stays = stays * stays * steps[WEIGHT, h]
            total += stays
            rise += stays * (full * steps[GROWTH, h])
        about[STAYS, g], about[RISE, g] = total, rise / total * about[SPEED_OF, g]
    for q in range(groups.shape[1]):
        members, closed, standing, filled = 0, 0, 0.0, 0.0
        for g in range(G):
            if numbers[g] == q:
                queued, free = workers_i[QUEUED, g], max(workers_i[FREE_SLOTS, g], 0)
                load = ahead[g, 0] + (workers_f[QUEUED_LOAD, g] + queued * steps[GROWTH, 0])
                members += 1
                filled += about[SPEED_OF, g] * (load + free * newcomer) + about[RISE, g]
                if free == 0:
                    closed += 1
                    standing += about[SPEED_OF, g] * load + about[RISE, g]
        level = standing / closed if 2 * closed >= members else filled / members
        for g in range(G):
            if numbers[g] == q:
                about[LEVEL, g] = level


@borrowing
def set_speeds(workers_f, about):
    """Seconds a token costs on each worker, relative to the mean; all 1 where they are equal."""
    G, total, equal = workers_f.shape[1], 0.0, True
    for g in range(G):
        total += workers_f[SECONDS_PER_TOKEN, g]
        equal = equal and workers_f[SECONDS_PER_TOKEN, g] == workers_f[SECONDS_PER_TOKEN, 0]
    for g in range(G):
        about[SPEED_OF, g] = 1.0 if equal else workers_f[SECONDS_PER_TOKEN, g] / (total / G)


@borrowing
def reached(first, considered, waiting_f):
    """Mean size of the waiting requests, and how far one of them can be off it: their standard deviation."""
    total, square = 0.0, 0.0
    for i in range(first, first + considered):
        size = waiting_f[WAITING_LOAD, i]
        total += size
        square += size * size
    mean = total / considered
    return mean, np.sqrt(max(0.0, square / considered - mean * mean))


@borrowing
def draw(
    reward, pull, request, offset, hit, usual, reach, share, is_choice, workers_i, workers_f, ahead, steps,
    about, places, tokens, groups,
):  # fmt: skip
    """Targets and pulls of the open workers, and what an admitted token is worth by itself."""
    G, astray = workers_i.shape[1], 0.0
    for q in range(groups.shape[1]):
        groups[REWARD, q] = reward
    for g in range(G):
        free = max(workers_i[FREE_SLOTS, g], 0)
        load = ahead[g, 0] + (workers_f[QUEUED_LOAD, g] + workers_i[QUEUED, g] * steps[GROWTH, 0])
        about[FILLED, g] = about[SPEED_OF, g] * (load + free * (usual * share)) + about[RISE, g]
        astray += (about[LEVEL, g] - about[FILLED, g]) * (about[LEVEL, g] - about[FILLED, g])
    astray = REACH * np.sqrt(astray / G)
    for o in range(places.shape[1]):
        g = places[PLACE, o]
        hold = about[SPEED_OF, g] * (reach * share) * workers_i[FREE_SLOTS, g]
        hold = hold / astray if is_choice and hold < astray else 1.0
        hold *= hold
        hold *= hold
        hold *= hold
        gap = about[LEVEL, g] - offset - about[FILLED, g]
        tokens[TARGET, o] = about[FILLED, g] - about[RISE, g] + hold * gap
        tokens[PULL, o] = hold * pull * about[STAYS, g] / request
        tokens[HIT, o] = hit


@borrowing
def stand(workers_i, workers_f, ahead, steps, about):
    """Where workers stand, newcomers apart."""
    for g in range(workers_i.shape[1]):
        load = ahead[g, 0] + (workers_f[QUEUED_LOAD, g] + workers_i[QUEUED, g] * steps[GROWTH, 0])
        about[FILLED, g] = about[SPEED_OF, g] * load + about[RISE, g]


@route_kernel
def route_into(
    decision, seed, now_s, mean_wait_s, first, waiting,
    workers_i, workers_f, waiting_i, waiting_f,
    projections, growth, cached, memory, parameters,
    scratch_i, scratch_f, worker,
):  # fmt: skip
    G, free, opened = workers_i.shape[1], 0, 0
    running, load = np.int64(0), 0.0
    for g in range(G):
        running += workers_i[RUNNING, g]
        load += workers_f[LOAD, g]
        if workers_i[FREE_SLOTS, g] > 0:
            free += workers_i[FREE_SLOTS, g]
            opened += 1
    U = min(waiting, free)
    if U == 0:
        return np.nan
    W = waiting
    if parameters[WINDOW] > 0.0:
        W = min(waiting, max(int(parameters[WINDOW]), U))
    Q, N = group_workers(workers_i, scratch_i), projections.shape[1]
    n = 0
    while n < len(LOOKED_AT) and LOOKED_AT[n] < N:
        n += 1
    a, b = G, 0  # the first G integers hold the numbers of the groups
    ranks, a = scratch_i[a : a + 4 * W].reshape(4, W), a + 4 * W
    places, a = scratch_i[a : a + 6 * opened].reshape(6, opened), a + 6 * opened
    slots, a = scratch_i[a : a + 4 * U].reshape(4, U), a + 4 * U
    full, b = scratch_f[b : b + 5 * N].reshape(5, N), b + 5 * N
    steps, b = scratch_f[b : b + 5 * n].reshape(5, n), b + 5 * n
    ahead, b = scratch_f[b : b + G * n].reshape(G, n), b + G * n
    requests, b = scratch_f[b : b + 3 * W].reshape(3, W), b + 3 * W
    tokens, b = scratch_f[b : b + 8 * opened].reshape(8, opened), b + 8 * opened
    loads, b = scratch_f[b : b + 2 * opened * n].reshape(2, opened, n), b + 2 * opened * n
    groups, b = scratch_f[b : b + 3 * Q].reshape(3, Q), b + 3 * Q
    envelopes, b = scratch_f[b : b + 6 * Q * n].reshape(6, Q, n), b + 6 * Q * n
    about, b = scratch_f[b : b + 5 * G].reshape(5, G), b + 5 * G

    each_s = rush_s(W, U, now_s, memory)
    take_note(first, W, now_s, waiting_i, waiting_f, memory)
    sizes = load
    for i in range(first, first + W):
        sizes += waiting_f[WAITING_LOAD, i]
    request = max(sizes / (running + W), 1.0)
    ahead_s = (W - U) * each_s
    usual_s = max(usual_wait_s(mean_wait_s, W, running, memory), ahead_s)
    forced, limit_s = 0, 0.0
    if parameters[AGE_LIMIT] > 0.0:
        limit_s = parameters[AGE_LIMIT] * max(whole_wait_s(mean_wait_s, W, running, memory), 0.5 * ahead_s)
    if limit_s > 0.0:
        forced = count_overdue(first, min(U, max(1, free // OVERDUE)), now_s, limit_s, waiting_f)

    set_steps(full, growth, parameters[DISCOUNT])
    left = leaving(request, workers_i, projections, full)
    pace = (left / CORRECTED) * (left / CORRECTED)
    set_steps(full, growth, min(parameters[DISCOUNT], 1.0 / (1.0 + pace * pace)))
    look_seldom(full, projections, steps, ahead)
    set_speeds(workers_f, about)
    set_workers(
        scratch_i, workers_i, workers_f, ahead, 0.0, about[SPEED_OF],
        steps, places, tokens, loads, groups, envelopes,
    )  # fmt: skip
    look_at_workers(
        request,
        request * (U / free),
        parameters[CORRECTION],
        scratch_i,
        workers_i,
        workers_f,
        ahead,
        steps,
        about,
        groups,
    )
    offset = steered(first, W, U, running, parameters[STEER], waiting_f, memory) * request
    hit = parameters[AFFINITY] if cached.shape[0] > 0 else 0.0
    usual, reach = reached(first, W, waiting_f)
    is_flood = U >= MANY and W <= CHOICE * U
    pull = parameters[PULLED] * EASED if is_flood else parameters[PULLED]
    draw(
        1.0 if is_flood else 0.0, pull, request, offset, hit, usual, reach, U / free, W > CHOICE * U,
        workers_i, workers_f, ahead, steps, about, places, tokens, groups,
    )  # fmt: skip
    set_memory(
        parameters[RECOMPUTE], memory[ARRIVED] - W - running, request, limit_s, now_s, first, W, memory[LEAVING:OWED],
        workers_i, workers_f, waiting_f, projections, full, places, tokens,
    )  # fmt: skip
    set_requests(waiting_f, first, N, requests, ranks)
    set_worth(first, parameters[AGEING], now_s, usual_s, request, waiting_f, steps, requests, ranks)
    stand(workers_i, workers_f, ahead, steps, about)
    make_room(
        first, W, now_s, limit_s, each_s, request, about[SPEED_OF], about[FILLED], about[LEVEL], about[RISE], workers_i,
        waiting_f, steps, places, tokens, requests, ranks,
    )  # fmt: skip
    ends_known = set_ends(steps, requests)
    ints, floats = scratch_i[a + 2 * W + 2 : a + 4 * W + 2], scratch_f[b : b + 2 * W]
    kinds = set_quotas(
        first, W, U, running, parameters[CLASSES:], memory[OWED:], waiting_i, ranks, scratch_i[a : a + W + 1],
        ints, floats,
    )  # fmt: skip
    quota = scratch_i[a : a + 2 * kinds].reshape(2, kinds)
    moves = int(parameters[MOVES]) * U * (BUSY if U >= MANY else 1)
    starts = 0 if Q == G or is_bound(U, usual, places, tokens) else int(parameters[STARTS])
    solve(
        starts, moves, 1, forced, ends_known or kinds > 1 or hit > 0.0,
        steps, requests, ranks, places, tokens, loads, groups, envelopes, slots, quota, cached, worker,
    )  # fmt: skip
    pay(first, W, U, parameters[CLASSES:], waiting_i, worker, memory[OWED:])
    return np.nan
