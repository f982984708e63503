"""The decode cluster in plain NumPy, slot by slot: the yardstick every speed of the simulator is a ratio to.

Same model and same answers as `evenstep.simulate` (saturated arrivals, one group, linear step time, +1 drift, per-request
and per-step records, both energies among them unless asked otherwise). Policies: FCFS, BR-0 as printed, and BF-IO by greedy
fill and local search.
"""

from __future__ import annotations

import itertools

import numpy as np


def fcfs(load, free, pool_load):
    """Oldest request to the worker with most free slots, ties to the lowest index."""
    answer = np.full(pool_load.size, -1)
    free = free.copy()
    for i in range(min(pool_load.size, int(free.sum()))):
        g = int(np.argmax(free))
        answer[i] = g
        free[g] -= 1
    return answer


def br_0(load, free, pool_load, stage_two_below=None, candidates=8):
    """BR-0 as printed (BalanceRoute Alg. 2), subsets by enumeration."""
    G = load.size
    below = G if stage_two_below is None else stage_two_below
    load, free = load.copy(), free.copy()
    answer = np.full(pool_load.size, -1)
    left = np.ones(pool_load.size, dtype=bool)

    def score(total, g, top):
        return total - G * np.maximum(0.0, total - (top - load[g]))

    while free.sum() > below and left.any():
        most = np.flatnonzero(free == free.max())
        g = int(most[np.argmin(load[most])])
        index = np.flatnonzero(left)
        best = int(index[np.argmax(score(pool_load[index], g, load.max()))])
        answer[best] = g
        left[best] = False
        load[g] += pool_load[best]
        free[g] -= 1
    while free.sum() > 0 and left.any():
        open_workers = np.flatnonzero(free > 0)
        margin = load.max() - load[open_workers]
        g = int(open_workers[np.lexsort((open_workers, -margin, -free[open_workers]))[0]])
        index = np.flatnonzero(left)
        window = index[np.argsort(-pool_load[index], kind="stable")[:candidates]]
        best, chosen = -np.inf, ()
        for size in range(1, min(int(free[g]), window.size) + 1):
            for subset in itertools.combinations(range(window.size), size):
                value = score(pool_load[window[list(subset)]].sum(), g, load.max())
                if value > best:
                    best, chosen = value, subset
        picked = window[list(chosen)]
        if best <= 0:
            picked = index[[int(np.argmax(score(pool_load[index], g, load.max())))]]
        answer[picked] = g
        left[picked] = False
        load[g] += pool_load[picked].sum()
        free[g] -= picked.size
    return answer


def bf_io(projected, free, pool_load, rounds=200):
    """BF-IO by greedy fill (largest first) and local search over moves between workers, swaps, and swaps with the pool."""
    G = projected.shape[0]
    answer = np.full(pool_load.size, -1)
    loads, free = projected.copy(), free.copy()
    slots = min(pool_load.size, int(free.sum()))

    def cost(x):
        return (G * x.max(axis=0) - x.sum(axis=0)).sum()

    for i in np.argsort(-pool_load, kind="stable")[:slots]:
        best, where = np.inf, -1
        for g in np.flatnonzero(free > 0):
            loads[g] += pool_load[i]
            value = cost(loads)
            loads[g] -= pool_load[i]
            if value < best:
                best, where = value, int(g)
        answer[i] = where
        loads[where] += pool_load[i]
        free[where] -= 1
    now = cost(loads)
    for _ in range(rounds):
        better = None
        for i in np.flatnonzero(answer >= 0):
            g = answer[i]
            change = pool_load[answer < 0] - pool_load[i]  # swap with the pool, all at once
            if change.size:
                rest = np.delete(loads, g, axis=0).max(axis=0)
                top = np.maximum(rest[None, :], loads[g][None, :] + change[:, None])
                values = (G * top - (loads.sum(axis=0)[None, :] + change[:, None])).sum(axis=1)
                k = int(np.argmin(values))
                if values[k] < now - 1e-9:
                    now, better = values[k], (i, int(np.flatnonzero(answer < 0)[k]), g)
        if better is None:
            break
        i, k, g = better
        loads[g] += pool_load[k] - pool_load[i]
        answer[i], answer[k] = -1, g
        now = cost(loads)
    return answer


def joules(running, local_s, overhead_s, duration):
    """Energy of one step under both accountings (BF-IO eqs. 10, 11, D44-D47), as our records hold it."""
    idle_w, span_w, per_token = 100.0, 300.0, 6.0 * 8e9 / 312e12 / 0.45
    busy = overhead_s + local_s
    worked = (busy * np.minimum(1.0, running * per_token / busy) ** 0.7).sum()
    average = (duration * np.minimum(1.0, running * per_token / duration) ** 0.7).sum()
    idle = idle_w * duration * running.size
    return idle + span_w * worked, idle + span_w * average


def simulate(
    prompt,
    output,
    G,
    B,
    pool,
    policy,
    overhead_s=0.0049,
    per_token_s=1.1e-7,
    horizon=0,
    limit=None,
    energies=True,
):
    """Run to completion (or `limit` steps); returns (steps, clock, request rows, step rows).

    Args:
        policy: ``fcfs`` or ``br_0`` by (load, free, pool), ``bf_io`` by (projected [G, H+1], free, pool).
        horizon: H; projections come from true remaining lengths.
        energies: whether a step's record holds both energies.
    """
    n = prompt.size
    row = np.full((G, B), -1)
    left = np.zeros((G, B), np.int64)
    size = np.zeros((G, B))
    waiting = np.zeros(0, np.int64)
    since = np.zeros(n)
    admitted_s, admitted_step, finished_s, finished_step, worker = (np.zeros(n) for _ in range(5))
    steps, clock, cursor, done = [], 0.0, 0, 0
    k = 0
    while done < n and (limit is None or k < limit):
        if waiting.size < pool and cursor < n:
            more = np.arange(cursor, min(n, cursor + pool - waiting.size))
            since[more] = clock
            waiting = np.concatenate([waiting, more])
            cursor += more.size
        busy = row >= 0
        free = B - busy.sum(axis=1)
        if waiting.size and free.sum():
            load = size.sum(axis=1)
            if policy is bf_io:
                ahead = np.arange(horizon + 1)
                stays = (left[:, :, None] > ahead) & busy[:, :, None]
                load = ((size[:, :, None] + ahead) * stays).sum(axis=1)
            answer = policy(load, free, prompt[waiting].astype(np.float64))
            sent = answer >= 0
            for i, g in zip(waiting[sent], answer[sent], strict=True):
                b = int(np.argmin(row[g]))
                row[g, b], left[g, b], size[g, b] = i, output[i], prompt[i]
            admitted_s[waiting[sent]], admitted_step[waiting[sent]] = clock, k
            worker[waiting[sent]] = answer[sent]
            waiting = waiting[~sent]
        load = size.sum(axis=1)
        duration = overhead_s + per_token_s * load.max()
        active = row >= 0
        energy = joules(active.sum(axis=1), per_token_s * load, overhead_s, duration) if energies else ()
        steps.append((clock, duration, load.max(), load.sum(), load.min(), active.sum(), *energy))
        clock += duration
        left[active] -= 1
        size[active] += 1.0
        ended = active & (left == 0)
        rows = row[ended]
        finished_s[rows], finished_step[rows] = clock, k
        done += rows.size
        row[ended] = -1
        size[ended] = 0.0
        k += 1
    return (
        k,
        clock,
        np.column_stack([worker, admitted_step, finished_step, admitted_s, finished_s]),
        np.array(steps),
    )
