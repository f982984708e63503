"""Compiled twin of `balance_route`: the two stages of BR-0 and BR-H.

Projected loads and envelopes are set up once a decision and kept up with each admission. One free slot, the usual
case of stage 2, needs no subset: one pass over the pool finds the neighbours of the score's peak.
"""
# pyright: basic

from __future__ import annotations

from collections import namedtuple

import numpy as np

from evenstep.compiled import jit
from evenstep.routing.balance_route.f_score import ENUMERATED
from evenstep.routing.balance_route.f_score_kernel import (
    NONE,
    count_above,
    enumerated,
    first_between,
    first_with,
    fitting_into,
    largest_into,
    nearest,
    pairs,
    peak,
    rank_key,
    value,
)
from evenstep.routing.balance_route.reachable import by_bits
from evenstep.routing.filling_kernel import overdue
from evenstep.routing.view import FREE_SLOTS, GROUP, KV_FREE, LOAD, QUEUED_LOAD, WAITING_LOAD

_MOST = 32  # candidates a window can hold
#: Tokens, and share of them, that rounding cannot hide.
SLACK = 1e-3

#: The options of `balance_route.Rule`, nan for its None.
Rule = namedtuple(
    "Rule", "reward penalty threshold candidates fit margin_first bits age_limit one_by_one ties_by_margin"
)
#: One decision under way. Per worker: group, free, kv, members (of a group), key (its margin when it queued);
#: load and envelope are [G, H+1] flat; keys and size are the pool; the others are working space.
Round = namedtuple(
    "Round",
    "weights group free members kv key load envelope keys size margins kinks places rows row_keys row_sizes sums "
    "counts worker",
)


def scratch_sizes(workers, waiting, horizon, candidates):
    """Working space `decide` needs: (ints, floats)."""
    steps, subsets = horizon + 1, 1 << min(int(candidates), ENUMERATED)
    ints = 2 * workers + steps + 2 * _MOST + subsets + waiting
    return ints, 2 * workers * steps + 2 * workers + 3 * steps + _MOST + subsets


@jit
def _take(space, start, length):
    return space[start : start + length], start + length


@jit
def decide(
    now_s, mean_wait_s, first, waiting, workers_i, workers_f, waiting_f, projections,
    H1, discount, rule, scratch_i, scratch_f, worker,
):  # fmt: skip
    """One decision into `worker`; see `balance_route.route`."""
    G = workers_i.shape[1]
    total = 0
    for g in range(G):
        total += workers_i[FREE_SLOTS, g]
    if total == 0 or waiting == 0:
        return
    subsets = 1 << min(rule.candidates, ENUMERATED)
    free, i = _take(scratch_i, 0, G)
    members, i = _take(scratch_i, i, G)
    places, i = _take(scratch_i, i, H1)
    rows, i = _take(scratch_i, i, _MOST)
    row_keys, i = _take(scratch_i, i, _MOST)
    counts, i = _take(scratch_i, i, subsets)
    keys, i = _take(scratch_i, i, waiting)
    load, i = _take(scratch_f, 0, G * H1)
    envelope, i = _take(scratch_f, i, G * H1)
    kv, i = _take(scratch_f, i, G)
    key, i = _take(scratch_f, i, G)
    weights, i = _take(scratch_f, i, H1)
    margins, i = _take(scratch_f, i, H1)
    kinks, i = _take(scratch_f, i, H1)
    row_sizes, i = _take(scratch_f, i, _MOST)
    sums, i = _take(scratch_f, i, subsets)
    size = waiting_f[WAITING_LOAD, first : first + waiting]
    now = Round(
        weights, workers_i[GROUP], free, members, kv, key, load, envelope, keys, size, margins, kinks, places, rows,
        row_keys, row_sizes, sums, counts, worker,
    )  # fmt: skip
    _set_up(now, workers_i, workers_f, projections, discount)
    bits_of_size = size.view(np.int64)
    for row in range(waiting):
        keys[row] = bits_of_size[row]
    alone = (
        waiting
        if rule.one_by_one
        else overdue(now_s, mean_wait_s, first, waiting, waiting_f, workers_i, rule.age_limit)
    )
    left = waiting - alone
    for row in range(alone):
        total -= _place_by_itself(now, rule, row)
    left, total = _stage_one(now, rule, left, total)
    if left > 0 and total > 0:
        _stage_two(now, rule, left)


@jit
def _set_up(now, workers_i, workers_f, projections, discount):
    G, H1 = now.free.shape[0], now.weights.shape[0]
    now.weights[0] = 1.0
    for h in range(1, H1):
        now.weights[h] = now.weights[h - 1] * discount
    for g in range(G):
        now.free[g] = workers_i[FREE_SLOTS, g]
        now.kv[g] = workers_f[KV_FREE, g]
        now.members[g] = 0
    now.envelope[:] = 0.0
    for g in range(G):
        group, queued = now.group[g], workers_f[QUEUED_LOAD, g]
        now.members[group] += 1
        if H1 == 1:
            x = workers_f[LOAD, g] + queued
            now.load[g] = x
            now.envelope[group] = max(now.envelope[group], x)
        else:
            a, b = g * H1, group * H1
            for h in range(H1):
                x = projections[g, h] + queued
                now.load[a + h] = x
                now.envelope[b + h] = max(now.envelope[b + h], x)


@jit
def _margins(now, g):
    """Write the margins of worker g, return the smallest."""
    H1 = now.weights.shape[0]
    a, b = g * H1, now.group[g] * H1
    low = now.envelope[b] - now.load[a]
    for h in range(H1):
        x = now.envelope[b + h] - now.load[a + h]
        now.margins[h] = x
        low = min(low, x)
    return low


@jit
def _penalty(now, rule, g):
    return rule.penalty if rule.penalty == rule.penalty else float(now.members[now.group[g]])


@jit
def _score(now, rule, g, tokens):
    """F of worker g, whose margins are written."""
    return value(tokens, now.margins, now.weights, now.weights.shape[0], rule.reward, _penalty(now, rule, g))


@jit
def _key(tokens):
    return np.float64(tokens).view(np.int64)


@jit
def _tokens(key):
    return np.int64(key).view(np.float64)


@jit
def _send(now, g, row):
    """One request to worker g; its tokens are counted by `_grow`."""
    now.worker[row] = g
    now.keys[row] = -1
    now.free[g] -= 1


@jit
def _grow(now, g, tokens):
    """Count tokens sent to worker g; returns whether an envelope rose."""
    H1 = now.weights.shape[0]
    a, b = g * H1, now.group[g] * H1
    now.kv[g] -= tokens
    rose = False
    for h in range(H1):
        x = now.load[a + h] + tokens
        now.load[a + h] = x
        rose |= x > now.envelope[b + h]
        now.envelope[b + h] = max(now.envelope[b + h], x)
    return rose


@jit
def _place_by_itself(now, rule, row):
    """See `balance_route._place_by_itself`; returns how many slots it took, 0 or 1."""
    size = now.size[row]
    now.keys[row] = -1
    best, best_score, best_margin = -1, 0.0, 0.0
    for g in range(now.free.shape[0]):
        if now.free[g] > 0 and now.kv[g] >= size:
            margin = _margins(now, g)
            score = _score(now, rule, g, size)
            better = best < 0 or score > best_score
            if not better and score == best_score:
                better = margin > best_margin
                if not rule.ties_by_margin:
                    better = now.free[g] > now.free[best] or (now.free[g] == now.free[best] and better)
            if better:
                best, best_score, best_margin = g, score, margin
    if best < 0:
        return 0
    _send(now, best, row)
    _grow(now, best, size)
    return 1


@jit
def _single(now, rule, g, low, high):
    """Best single request of the pool for worker g, -1 when none fits; and what `nearest` says of its surroundings."""
    waiting, limit, top = now.size.shape[0], _key(now.kv[g]), _key(high)
    under, over, above = nearest(now.keys, waiting, top, limit)
    if under < 0 and over == NONE:
        return -1, over, above
    key = under
    if under >= _key(low):  # on the peak
        if low != high:
            return first_between(now.keys, waiting, _key(low), min(top, limit)), over, above
    elif under < 0:
        key = over
    elif over != NONE:
        f_under, f_over = _score(now, rule, g, _tokens(under)), _score(now, rule, g, _tokens(over))
        if f_under == f_over:
            return min(first_with(now.keys, waiting, under), first_with(now.keys, waiting, over)), over, above
        key = under if f_under > f_over else over
    return first_with(now.keys, waiting, key), over, above


@jit
def _peak(now, rule, g):
    H1 = now.weights.shape[0]
    return peak(now.margins, now.weights, now.kinks, now.places, H1, rule.reward, _penalty(now, rule, g))


@jit
def _stage_one(now, rule, left, total):
    """See `balance_route._stage_one`; returns requests and slots left."""
    G, H1 = now.free.shape[0], now.weights.shape[0]
    threshold = rule.threshold if rule.threshold == rule.threshold else float(G)
    rose, sent = True, 0
    while left > 0 and total > threshold:
        if rule.margin_first:  # margins of the others change only when an envelope rises
            for g in range(G):
                if rose or g == sent:
                    now.key[g] = _margins(now, g)
        best = -1
        for g in range(G):
            if now.free[g] <= 0:
                continue
            if best < 0:
                best = g
            elif rule.margin_first:
                if now.key[g] > now.key[best] or (
                    now.key[g] == now.key[best] and now.free[g] > now.free[best]
                ):
                    best = g
            elif now.free[g] > now.free[best] or (
                now.free[g] == now.free[best] and now.load[g * H1] < now.load[best * H1]
            ):
                best = g
        if best < 0:
            break
        _margins(now, best)
        low, high, _ = _peak(now, rule, best)
        row, _, _ = _single(now, rule, best, low, high)
        if row < 0:
            total -= now.free[best]
            now.free[best] = 0
            rose = False
            continue
        _send(now, best, row)
        rose, sent = _grow(now, best, now.size[row]), best
        left -= 1
        total -= 1
    return left, total


@jit
def _stage_two(now, rule, left):
    """See `balance_route._stage_two`: a worker is in the queue while it has slots."""
    G, H1 = now.free.shape[0], now.weights.shape[0]
    rose = True
    while left > 0:
        if rose:
            for g in range(G):
                if now.free[g] > 0:
                    now.key[g] = _margins(now, g)
            rose = False
        best = -1
        for g in range(G):
            if now.free[g] <= 0:
                continue
            if best < 0:
                best = g
            elif rule.margin_first:
                if now.key[g] > now.key[best] or (
                    now.key[g] == now.key[best] and now.free[g] > now.free[best]
                ):
                    best = g
            elif now.free[g] > now.free[best] or (
                now.free[g] == now.free[best] and now.key[g] > now.key[best]
            ):
                best = g
        if best < 0:
            return
        _margins(now, best)
        low, high, slope = _peak(now, rule, best)
        sent, before = 0, _height(now, best, H1)
        if now.free[best] == 1 and low == high and (not rule.fit or rule.candidates > 1):
            row = _one_slot(now, rule, best, low, high, slope)
            sent = _admit_one(now, best, row)
        else:
            sent = _subset(now, rule, best, low, high)
        if sent == 0:
            now.free[best] = 0  # no KV memory for any of the pool
        left -= sent
        if now.free[best] > 0:
            now.key[best] = _margins(now, best)
        rose = rule.margin_first and _height(now, best, H1) > before  # margins are wider now


@jit
def _height(now, g, H1):
    """Sum of the envelope ahead of a worker's group; it grows when any of it rises."""
    b, total = now.group[g] * H1, 0.0
    for h in range(H1):
        total += now.envelope[b + h]
    return total


@jit
def _admit_one(now, g, row):
    if row < 0:
        return 0
    _send(now, g, row)
    _grow(now, g, now.size[row])
    return 1


@jit
def _one_slot(now, rule, g, low, high, slope):
    """The request for one slot, without a list of candidates.

    Where fewer than K requests are above the peak, its neighbours are among the K largest: the best of the pool is
    the best of the candidates. Else all candidates are above, the K-th largest is the best of them, and it is taken
    if it is worth anything, though the pool may hold better ones (so the paper).
    """
    row, over, above = _single(now, rule, g, low, high)
    if rule.fit or row < 0 or above < rule.candidates:
        return row
    waiting, limit = now.size.shape[0], _key(now.kv[g])
    # the score falls at least as fast as `slope`: how far above the peak can it be worth anything?
    nearest_above = _score(now, rule, g, _tokens(over))
    worthless = _tokens(over) + max(0.0, nearest_above / -slope) * (1.0 + SLACK) + SLACK
    if count_above(now.keys, waiting, _key(worthless), limit) >= rule.candidates:
        return row
    kth = rank_key(now.keys, waiting, limit, rule.candidates)
    return first_with(now.keys, waiting, kth) if _score(now, rule, g, _tokens(kth)) > 0.0 else row


@jit
def _subset(now, rule, g, low, high):
    """See `balance_route._subset`; admits it and returns how many requests it sent."""
    waiting, limit = now.size.shape[0], _key(now.kv[g])
    if rule.fit:
        n = fitting_into(now.keys, waiting, _key(high), limit, rule.candidates, now.rows, now.row_keys)
    else:
        n = largest_into(now.keys, waiting, limit, rule.candidates, now.rows, now.row_keys)
    if n == 0:
        return 0
    slots = min(now.free[g], n)
    whole = True
    for i in range(n):
        now.row_sizes[i] = now.size[now.rows[i]]
        whole &= now.row_sizes[i] == np.floor(now.row_sizes[i])
    if slots == 1 and now.free[g] == 1:
        row = _single_of(now, rule, g, n, low, high)
        if _score(now, rule, g, now.size[row]) > 0.0:
            return _admit_one(now, g, row)
    elif rule.bits and whole:
        tokens, score = by_bits(
            now.row_sizes, n, slots, now.kv[g], high, now.margins, now.weights, now.weights.shape[0], rule.reward,
            _penalty(now, rule, g), now.row_keys,
        )  # fmt: skip
        if score > 0.0:
            return _admit_chosen(now, g, n, tokens)
    else:
        n = min(n, ENUMERATED)
        best = _best_subset(now, rule, g, n, min(slots, n), low, high)
        tokens = now.sums[best]
        if _score(now, rule, g, tokens) > 0.0:
            for i in range(n):
                now.row_keys[i] = (best >> i) & 1
            return _admit_chosen(now, g, n, tokens)
    row, _, _ = _single(now, rule, g, low, high)
    return _admit_one(now, g, row)


@jit
def _admit_chosen(now, g, n, tokens):
    """Send the candidates marked in `row_keys`."""
    sent = 0
    for i in range(n):
        if now.row_keys[i] == 1:
            _send(now, g, now.rows[i])
            sent += 1
    _grow(now, g, tokens)
    return sent


@jit
def _best_subset(now, rule, g, n, slots, low, high):
    if slots == 2:
        level, under, over = pairs(now.row_sizes, n, now.kv[g], low, high, now.sums)
    else:
        level, under, over = enumerated(now.row_sizes, n, slots, now.kv[g], low, high, now.sums, now.counts)
    if level > 0:
        return level
    if under == 0 or over == 0:
        return under + over
    f_under, f_over = _score(now, rule, g, now.sums[under]), _score(now, rule, g, now.sums[over])
    if f_under == f_over:
        return min(under, over)
    return under if f_under > f_over else over


@jit
def _single_of(now, rule, g, n, low, high):
    """`_single` among the candidates alone."""
    level, under, over = -1, -1, -1
    for i in range(n):
        row, s = now.rows[i], now.row_sizes[i]
        if s < low:
            if under < 0 or s > now.size[under] or (s == now.size[under] and row < under):
                under = row
        elif s > high:
            if over < 0 or s < now.size[over] or (s == now.size[over] and row < over):
                over = row
        elif level < 0 or row < level:
            level = row
    if level >= 0:
        return level
    if under < 0 or over < 0:
        return max(under, over)
    f_under, f_over = _score(now, rule, g, now.size[under]), _score(now, rule, g, now.size[over])
    if f_under == f_over:
        return min(under, over)
    return under if f_under > f_over else over
