"""The two stages of BalanceRoute, shared by BR-0 and BR-H.

Projected loads and envelopes are set up once a decision and kept up with each admission. A worker with one free slot, the
usual case of stage 2, needs no subset: one pass over the pool finds the neighbours of the score's peak.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from evenstep.compiled import Floats, Ints, borrowing, part
from evenstep.routing.balance_route import keys
from evenstep.routing.balance_route.f_score import FScore, peak, value
from evenstep.routing.balance_route.keys import NONE, key_of, tokens_of
from evenstep.routing.balance_route.reachable import by_bits
from evenstep.routing.balance_route.subsets import enumerated, pairs
from evenstep.routing.filling import first_with, total_free
from evenstep.routing.rules import RequestInts, RuleView, WorkerFloats, WorkerInts

#: Candidates that are enumerated at most; a bit-set takes up to `MOST`.
ENUMERATED, MOST = 16, 32
#: Tokens, and share of them, that rounding cannot hide.
SLACK = 1e-3
#: How far `decide` goes, each with those before it.
PREPARATION, STAGE_ONE, STAGE_TWO = 0, 1, 2


class Settings(NamedTuple):
    """The options of both policies, as the stages see them."""

    reward: float  # slope of the score below all margins: what a KV token there is worth
    penalty: float  # what a token over the envelope costs a step; nan = size of the worker's group
    threshold: float  # free slots down to which stage 1 runs; nan = number of workers
    candidates: int  # number of requests a subset is chosen from
    fit: bool  # candidates are those around the score's peak; else the largest
    margin_first: bool  # workers ordered by (margin, free slots); else by (free slots, margin)
    bits: bool  # subsets by reachable sums; else enumerated
    ties_by_margin: bool  # equal scores of a request placed by itself go to the widest margin; else to the most free slots


#: Lengths: of the steps ahead, of a worker's steps, of the candidates, of their subsets.
_STEPS, _AHEAD, _LISTED = "options.horizon + 1", "workers * (options.horizon + 1)", str(MOST)
_SUBSETS = f"1 << min(options.candidates, {ENUMERATED})"


class AssignWork(NamedTuple):
    """The answer (see `RoutingWork`), and working space of one decision; H1 stands for H + 1 steps.

    A row is a request's position in the pool, 0 = oldest.
    """

    worker: Ints
    memory: Ints
    bound: Floats
    group: WorkerInts  # barrier group of each worker
    free: WorkerInts  # its free slots, less what this decision has sent
    members: WorkerInts  # workers of each group
    places: Annotated[Ints, _STEPS]  # see `peak`
    rows: Annotated[Ints, _LISTED]  # candidates of the worker at hand
    row_keys: Annotated[Ints, _LISTED]  # at first the key of each, later 1 for the chosen
    counts: Annotated[Ints, _SUBSETS]  # members of each subset
    keys: RequestInts  # the pool, -1 for a request that left it: see the module `keys`
    load: Annotated[Floats, _AHEAD]  # KV tokens ahead of worker g from entry g * H1 on
    envelope: Annotated[Floats, _AHEAD]  # the largest of each group likewise
    kv: WorkerFloats  # free KV tokens of each worker, less what this decision has sent
    key: WorkerFloats  # by which the next worker is chosen, see `first_in_queue`
    weights: Annotated[Floats, _STEPS]  # discount of each step
    margins: Annotated[Floats, _STEPS]  # of the score of the worker at hand
    kinks: Annotated[Floats, _STEPS]  # see `peak`
    row_sizes: Annotated[Floats, _LISTED]  # tokens of the candidates
    sums: Annotated[Floats, _SUBSETS]  # tokens of each subset


@part
def decide(until: int, alone: int, discount: float, settings: Settings, view: RuleView, work: AssignWork) -> None:
    """Place some requests by themselves first; then run stage 1 while slots abound, and stage 2 when they are scarce.

    The answer is written to `work.worker`; requests that get no worker stay at `HOLD`.

    Args:
        until: the last to run: `PREPARATION` (requests by themselves), `STAGE_ONE` or `STAGE_TWO`.
        alone: how many of the oldest requests are placed by themselves.
        discount: weight of a step relative to the one before it.

    Source: BalanceRoute Algs. 2 and 3.
    """
    left = view.waiting_load.size
    if left == 0 or total_free(view) == 0:
        return
    slots = set_up(discount, view, work)
    for row in range(alone):
        slots -= send_alone(row, settings, work)
    left -= alone
    if until >= STAGE_ONE:
        left, _ = stage_one(left, slots, settings, work)
    if until >= STAGE_TWO:
        stage_two(left, settings, work)


@part
def set_up(discount: float, view: RuleView, work: AssignWork) -> int:
    """Write what the stages start from: room, loads, envelopes, keys and weights; returns the free slots of all workers."""
    H1, slots = work.weights.size, 0
    work.weights[0] = 1.0
    for h in range(1, H1):
        work.weights[h] = work.weights[h - 1] * discount
    for g in range(work.free.size):
        slots += view.free_slots[g]
        work.free[g] = view.free_slots[g]
        work.kv[g] = view.kv_free[g]
        work.group[g] = view.group[g]
        work.members[g] = 0
    for i in range(work.envelope.size):
        work.envelope[i] = 0.0
    for g in range(work.free.size):
        group, queued = work.group[g], view.queued_load[g]
        work.members[group] += 1
        if H1 == 1:
            x = view.load[g] + queued
            work.load[g] = x
            work.envelope[group] = max(work.envelope[group], x)
        else:
            a, b = g * H1, group * H1
            for h in range(H1):
                x = view.projections[g, h] + queued
                work.load[a + h] = x
                work.envelope[b + h] = max(work.envelope[b + h], x)
    for i in range(work.keys.size):
        work.keys[i] = key_of(view.waiting_load[i])
    return slots


@borrowing
def set_margins(g: int, work: AssignWork) -> float:
    """Write `work.margins`: KV tokens from a worker's load to its group's envelope at each step; returns the smallest."""
    H1 = work.weights.size
    a, b = g * H1, work.group[g] * H1
    low = math.inf
    for h in range(H1):
        x = work.envelope[b + h] - work.load[a + h]
        work.margins[h] = x
        low = min(low, x)
    return low


@part
def score_of(g: int, settings: Settings, work: AssignWork) -> FScore:
    """The score function of worker g, of which `set_margins` has written the margins; it refers to them, not to a copy."""
    penalty = settings.penalty
    if math.isnan(penalty):
        penalty = float(work.members[work.group[g]])
    return FScore(work.margins, work.weights, settings.reward, penalty)


@part
def worth(g: int, tokens: float, settings: Settings, work: AssignWork) -> float:
    """The score F of sending so many KV tokens to worker g; call `set_margins` for it first. 0 for no token."""
    return value(tokens, score_of(g, settings, work))


@part
def peak_of(g: int, settings: Settings, work: AssignWork) -> tuple[float, float, float]:
    """Write the margins of worker g, and return the `f_score.peak` of its score: least and largest tokens, slope beyond."""
    set_margins(g, work)
    return peak(score_of(g, settings, work), work.kinks, work.places)


@part
def send(g: int, row: int, work: AssignWork) -> None:
    """Send the request in a row to a worker: it leaves the pool and takes a slot. Call `grow` to count its tokens."""
    work.worker[row] = g
    work.keys[row] = -1
    work.free[g] -= 1


@borrowing
def grow(g: int, tokens: float, work: AssignWork) -> bool:
    """Count KV tokens sent to a worker in its loads, memory and envelope; returns whether its envelope rose at any step."""
    H1 = work.weights.size
    a, b = g * H1, work.group[g] * H1
    work.kv[g] -= tokens
    rose = False
    for h in range(H1):
        x = work.load[a + h] + tokens
        work.load[a + h] = x
        rose |= x > work.envelope[b + h]
        work.envelope[b + h] = max(work.envelope[b + h], x)
    return rose


@part
def send_one(g: int, row: int, work: AssignWork) -> int:
    """Send the request in a row to a worker and count its tokens; nothing for row -1. Returns how many were sent, 0 or 1."""
    if row < 0:
        return 0
    tokens = tokens_of(work.keys[row])
    send(g, row, work)
    grow(g, tokens, work)
    return 1


@borrowing
def send_alone(row: int, settings: Settings, work: AssignWork) -> int:
    """Send a request to the worker with room of largest score, ignoring the other requests. Returns 1, or 0 if none has.

    It leaves the pool even when it fits nowhere, and is then held.
    """
    size = tokens_of(work.keys[row])
    best, best_score, best_margin = -1, 0.0, 0.0
    for g in range(work.free.size):
        if work.free[g] > 0 and work.kv[g] >= size:
            margin = set_margins(g, work)
            score = worth(g, size, settings, work)
            is_better = best < 0 or score > best_score
            if not is_better and score == best_score:
                is_better = margin > best_margin
                if not settings.ties_by_margin:
                    is_better = work.free[g] > work.free[best] or (work.free[g] == work.free[best] and is_better)
            if is_better:
                best, best_score, best_margin = g, score, margin
    sent = send_one(best, row, work) if best >= 0 else 0
    work.keys[row] = -1
    return sent


@borrowing
def best_single(g: int, low: float, high: float, settings: Settings, work: AssignWork) -> tuple[int, int, int]:
    """The waiting request with the largest score for worker g, the oldest of equal ones; -1 if none fits.

    The peak is `low` to `high`, from `peak_of` for this worker.

    Returns:
        Its row, the smallest key above the peak (or `NONE`), and how many fitting requests are above it (see `nearest`).
    """
    limit, top = key_of(work.kv[g]), key_of(high)
    under, over, above = keys.nearest(work.keys, top, limit)
    if under < 0 and over == NONE:
        return -1, over, above
    key = under
    if under >= key_of(low):  # on the peak
        if low != high:
            return keys.first_between(work.keys, key_of(low), min(top, limit)), over, above
    elif under < 0:
        key = over
    elif over != NONE:
        f_under = worth(g, tokens_of(under), settings, work)
        f_over = worth(g, tokens_of(over), settings, work)
        if f_under == f_over:
            return min(first_with(work.keys, under), first_with(work.keys, over)), over, above
        key = under if f_under > f_over else over
    return first_with(work.keys, key), over, above


@borrowing
def stage_one(left: int, slots: int, settings: Settings, work: AssignWork) -> tuple[int, int]:
    """Stage 1, while more slots are free than the threshold: the first worker in queue gets its best single request.

    Args:
        left: requests of the pool.
        slots: free slots.

    Returns:
        The requests and the free slots that are left, without slots of workers that no request fits.
    """
    threshold = settings.threshold
    if math.isnan(threshold):
        threshold = float(work.free.size)
    rose, sent = True, 0
    while left > 0 and slots > threshold:
        for g in range(work.free.size):  # margins of the others change only when an envelope rises
            if rose or g == sent:
                work.key[g] = set_margins(g, work) if settings.margin_first else -work.load[g * work.weights.size]
        best = first_in_queue(settings, work)
        if best < 0:
            break
        low, high, _ = peak_of(best, settings, work)
        row, _, _ = best_single(best, low, high, settings, work)
        if row < 0:  # no KV memory for any of the pool: no slot either
            slots -= work.free[best]
            work.free[best] = 0
            rose = False
            continue
        tokens = tokens_of(work.keys[row])
        send(best, row, work)
        rose, sent = grow(best, tokens, work), best
        left -= 1
        slots -= 1
    return left, slots


@borrowing
def stage_two(left: int, settings: Settings, work: AssignWork) -> None:
    """Stage 2, when slots are scarce: give the first worker in queue its best subset of candidates, until no slot is left.

    Args:
        left: requests of the pool.
    """
    rose = True
    while left > 0:
        if rose:
            for g in range(work.free.size):
                if work.free[g] > 0:
                    work.key[g] = set_margins(g, work)
        best = first_in_queue(settings, work)
        if best < 0:
            return
        low, high, slope = peak_of(best, settings, work)
        before = height(best, work) if settings.margin_first else 0.0
        if work.free[best] == 1 and low == high and (not settings.fit or settings.candidates > 1):
            row = pick_for_one_slot(best, low, slope, settings, work)
            sent = send_one(best, row, work)
        else:
            sent = send_subset(best, low, high, settings, work)
        if sent == 0:
            work.free[best] = 0  # no KV memory for any of the pool
        left -= sent
        if work.free[best] > 0:
            work.key[best] = set_margins(best, work)
        rose = settings.margin_first and height(best, work) > before  # margins are wider now


@part
def first_in_queue(settings: Settings, work: AssignWork) -> int:
    """The worker to serve next, by its key and free slots (ties: lowest index); -1 if no worker has free slots.

    Larger keys and more free slots go first; `margin_first` says which of the two counts first. The key is a worker's
    margin; in stage 1 with free slots first it is minus the worker's load.
    """
    best = -1
    for g in range(work.free.size):
        if work.free[g] <= 0:
            continue
        if best < 0:
            best = g
        elif settings.margin_first:
            if work.key[g] > work.key[best] or (work.key[g] == work.key[best] and work.free[g] > work.free[best]):
                best = g
        elif work.free[g] > work.free[best] or (work.free[g] == work.free[best] and work.key[g] > work.key[best]):
            best = g
    return best


@part
def height(g: int, work: AssignWork) -> float:
    """The sum over the steps ahead of the envelope of worker g's group, KV tokens. It rises if any part of it does."""
    H1, total = work.weights.size, 0.0
    b = work.group[g] * H1
    for h in range(H1):
        total += work.envelope[b + h]
    return float(total)


@borrowing
def pick_for_one_slot(g: int, at: float, slope: float, settings: Settings, work: AssignWork) -> int:
    """The row of the best request for a single slot, found without a list of candidates; -1 if none fits.

    Where fewer than K requests are above the peak, its neighbours are among the K largest: the best of the pool is
    the best of the candidates. Else all candidates are above and the K-th largest is the best of them. It is taken
    if it is worth anything, though the pool may hold better ones (so the paper).

    Args:
        at: the peak in KV tokens, a point.
        slope: of the score beyond the peak, below 0.
    """
    row, over, above = best_single(g, at, at, settings, work)
    if settings.fit or row < 0 or above < settings.candidates:
        return row
    limit = key_of(work.kv[g])
    # the score falls at least as fast as `slope`: how far above the peak can it be worth anything?
    nearest_above = worth(g, tokens_of(over), settings, work)
    worthless = tokens_of(over) + max(0.0, nearest_above / -slope) * (1.0 + SLACK) + SLACK
    if keys.count_above(work.keys, key_of(worthless), limit) >= settings.candidates:
        return row
    kth = keys.key_at_rank(work.keys, limit, settings.candidates)
    return first_with(work.keys, kth) if worth(g, tokens_of(kth), settings, work) > 0.0 else row


@borrowing
def send_subset(g: int, low: float, high: float, settings: Settings, work: AssignWork) -> int:
    """Send worker g the best subset of candidates, or the best single request of the pool if no subset scores above 0.

    Args:
        low, high: the peak of the worker's score, from `peak_of`.

    Returns:
        How many were sent; 0 if no request fits.
    """
    n = list_candidates(g, high, settings, work)
    if n == 0:
        return 0
    slots, is_whole = min(work.free[g], n), True
    for i in range(n):
        work.row_sizes[i] = tokens_of(work.row_keys[i])
        is_whole &= work.row_sizes[i] == np.floor(work.row_sizes[i])
    if work.free[g] == 1:
        row = best_candidate(g, n, low, high, settings, work)
        if worth(g, tokens_of(work.keys[row]), settings, work) > 0.0:
            return send_one(g, row, work)
    elif settings.bits and is_whole:
        tokens, score = by_bits(work.row_sizes, n, slots, work.kv[g], high, score_of(g, settings, work), work.row_keys)
        if score > 0.0:
            return send_chosen(g, n, tokens, work)
    else:
        n = min(n, ENUMERATED)
        best = best_subset(g, n, min(slots, n), low, high, settings, work)
        tokens = work.sums[best]
        if worth(g, tokens, settings, work) > 0.0:
            for i in range(n):
                work.row_keys[i] = (best >> i) & 1
            return send_chosen(g, n, tokens, work)
    row, _, _ = best_single(g, low, high, settings, work)
    return send_one(g, row, work)


@part
def list_candidates(g: int, high: float, settings: Settings, work: AssignWork) -> int:
    """List the candidates for worker g in `rows` and `row_keys`; returns their number, 0 if no request fits its memory."""
    limit = key_of(work.kv[g])
    if settings.fit:
        return keys.list_fitting(work.keys, key_of(high), limit, settings.candidates, work.rows, work.row_keys)
    return keys.list_largest(work.keys, limit, settings.candidates, work.rows, work.row_keys)


@part
def send_chosen(g: int, n: int, tokens: float, work: AssignWork) -> int:
    """Send the candidates marked 1 in `row_keys`, of `n` listed, `tokens` together, to worker g; returns how many."""
    sent = 0
    for i in range(n):
        if work.row_keys[i] == 1:
            send(g, work.rows[i], work)
            sent += 1
    grow(g, tokens, work)
    return sent


@part
def best_subset(g: int, n: int, slots: int, low: float, high: float, settings: Settings, work: AssignWork) -> int:
    """The subset of the first n candidates with the largest score, as a bit mask (bit i: candidate i); 0 if none fits.

    It has 1..slots members. Of equal scores the smallest mask wins.
    """
    if slots == 2:
        level, under, over = pairs(work.row_sizes, n, work.kv[g], low, high, work.sums)
    else:
        level, under, over = enumerated(work.row_sizes, n, slots, work.kv[g], low, high, work.sums, work.counts)
    if level > 0:
        return level
    if under == 0 or over == 0:
        return under + over
    return better_of(under, over, work.sums[under], work.sums[over], score_of(g, settings, work))


@part
def better_of(under: int, over: int, under_tokens: float, over_tokens: float, score: FScore) -> int:
    """The choice with the larger score, `under` or `over` (rows, or subsets); the smaller number if the scores are equal."""
    f_under, f_over = value(under_tokens, score), value(over_tokens, score)
    if f_under == f_over:
        return min(under, over)
    return under if f_under > f_over else over


@part
def best_candidate(g: int, n: int, low: float, high: float, settings: Settings, work: AssignWork) -> int:
    """The row of the candidate with the largest score for worker g, the oldest of equal ones; there must be one (n >= 1)."""
    level, under, over = -1, -1, -1
    for i in range(n):
        row, key = work.rows[i], work.row_keys[i]
        if work.row_sizes[i] < low:
            if under < 0:
                under = row
        elif work.row_sizes[i] > high:
            if over < 0 or key < work.keys[over]:
                over = row
        elif level < 0 or row < level:
            level = row
    if level >= 0:
        return level
    if under < 0 or over < 0:
        return max(under, over)
    tokens, other = tokens_of(work.keys[under]), tokens_of(work.keys[over])
    return better_of(under, over, tokens, other, score_of(g, settings, work))
