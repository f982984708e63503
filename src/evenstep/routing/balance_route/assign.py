"""The two stages of BalanceRoute, shared by BR-0 and BR-H.

Projected loads and envelopes are computed once a decision and updated with each admission. A worker with one free slot, the
usual case of stage 2, needs no subset: one pass over the pool finds the requests nearest to the peak of the score.
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
#: Safety margin against rounding: tokens, and share of them.
SLACK = 1e-3
#: Values of `until` in `decide`; each includes those before it.
PREPARATION, STAGE_ONE, STAGE_TWO = 0, 1, 2


class Settings(NamedTuple):
    """The options of BR-0 and BR-H, as the stages use them."""

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
    """The answer (see `RoutingWork`), and working space of one decision.

    A row is a request's position in the pool, 0 = oldest; H1 stands for H + 1 steps.
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
    """Place the oldest `alone` requests one by one; then run stage 1 while slots abound, and stage 2 when they are scarce.

    The answer is written to `work.worker`; requests that get no worker stay at `HOLD`. `until` is the last part to run:
    `PREPARATION` (requests one by one), `STAGE_ONE` or `STAGE_TWO`. `discount` is the weight of a step relative to the one
    before it. Source: BalanceRoute Algs. 2 and 3.
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
    """Write what the stages start from: room, loads, envelopes, keys and weights; returns the sum of all free slots."""
    H1 = work.weights.size
    work.weights[0] = 1.0
    for h in range(1, H1):
        work.weights[h] = work.weights[h - 1] * discount
    for g in range(work.free.size):
        work.free[g] = view.free_slots[g]
        work.kv[g] = view.kv_free[g]
        work.group[g] = view.group[g]
    work.members[:] = 0
    work.envelope[:] = 0.0
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
    return total_free(view)


@borrowing
def set_margins(g: int, work: AssignWork) -> float:
    """Write the margins of worker g to `work.margins`, KV tokens at each step, and return the smallest of them."""
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
    """The score function of worker g. It holds `work.margins` itself, not a copy; call `set_margins` for g first."""
    penalty = settings.penalty
    if math.isnan(penalty):
        penalty = float(work.members[work.group[g]])
    return FScore(work.margins, work.weights, settings.reward, penalty)


@part
def worth(g: int, tokens: float, settings: Settings, work: AssignWork) -> float:
    """The score F of sending this many KV tokens to worker g; 0 for no tokens. Call `set_margins` for g first."""
    return value(tokens, score_of(g, settings, work))


@part
def peak_of(g: int, settings: Settings, work: AssignWork) -> tuple[float, float, float]:
    """Write the margins of worker g, and return the `f_score.peak` of its score: least and largest tokens, slope beyond."""
    set_margins(g, work)
    return peak(score_of(g, settings, work), work.kinks, work.places)


@part
def send(g: int, row: int, work: AssignWork) -> None:
    """Answer that the request in `row` goes to worker g: it leaves the pool and takes a slot. `grow` adds its tokens."""
    work.worker[row] = g
    work.keys[row] = -1
    work.free[g] -= 1


@borrowing
def grow(g: int, tokens: float, work: AssignWork) -> bool:
    """Add tokens sent to worker g to its loads, memory and group envelope; returns True if the envelope rose at any step."""
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
    """Send the request in `row` to worker g and add its tokens. Returns 1, or 0 and does nothing for row -1."""
    if row < 0:
        return 0
    tokens = tokens_of(work.keys[row])
    send(g, row, work)
    grow(g, tokens, work)
    return 1


@borrowing
def send_alone(row: int, settings: Settings, work: AssignWork) -> int:
    """Send the request in `row` to the worker with room and the largest score. Returns 1, or 0 if no worker has room.

    It leaves the pool in either case; without room it is held. Equal scores go as `ties_by_margin` says, then by margin,
    then by index.
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
    """The waiting request with the largest score for worker g, the oldest of equal ones.

    The peak of its score, `low` to `high`, is from `peak_of`. Returns its row, -1 if none fits; the smallest key above the
    peak, or `NONE`; and the number of fitting requests above it.
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

    Workers queue by `first_in_queue`. `left` and `slots` are the numbers of waiting requests and of free slots. Returns both
    afterwards, without free slots of workers that no request fits.
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
        if row < 0:  # no waiting request fits its KV memory: its slots are useless
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
    """Stage 2, when slots are scarce: give the first worker in queue its best subset of candidates, while any fits.

    Workers queue by `first_in_queue`; `left` is the number of waiting requests.
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
    """The worker to send requests to next, among those with free slots; -1 if no worker has free slots.

    With `margin_first` it is the worker of largest key, ties to the most free slots; without, the worker of most free slots,
    ties to the largest key. Then the lowest index wins. The key is a worker's margin; in stage 1 without `margin_first` it
    is minus the worker's load.
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
    """The sum over the steps of the envelope of worker g's group, KV tokens. It rises if the envelope rises at any step."""
    H1, total = work.weights.size, 0.0
    b = work.group[g] * H1
    for h in range(H1):
        total += work.envelope[b + h]
    return float(total)


@borrowing
def pick_for_one_slot(g: int, at: float, slope: float, settings: Settings, work: AssignWork) -> int:
    """The row of the best request for the single free slot of worker g, found without listing candidates; -1 if none fits.

    With `fit` it is the best of the pool. Else the candidates are the K largest fitting requests. If fewer than K requests
    are above the peak, those nearest to the peak are candidates, so the best of the pool is the best candidate. Otherwise
    all candidates are above the peak, and the smallest of them is the best. As in the paper, that one is the answer if its
    score is above 0, though the pool may hold better ones; otherwise the answer is the best of the pool. `at` is the peak in
    KV tokens, a single point, and `slope` the slope of the score beyond it, below 0.
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

    The peak of its score, `low` to `high`, is from `peak_of`. Returns the number of requests sent; 0 if no request fits.
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
    """List the candidates for worker g in `rows` and `row_keys`; returns their number, 0 if no request fits its memory.

    `high` is the end of the peak of its score.
    """
    limit = key_of(work.kv[g])
    if settings.fit:
        return keys.list_fitting(work.keys, key_of(high), limit, settings.candidates, work.rows, work.row_keys)
    return keys.list_first(1, work.keys, -1, limit, settings.candidates, work.rows, work.row_keys)


@part
def send_chosen(g: int, n: int, tokens: float, work: AssignWork) -> int:
    """Send worker g those of the n candidates with a 1 in `row_keys`; returns their number. `tokens` is their sum."""
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

    It has 1..slots members, and of equal scores the smallest mask wins. The peak, `low` to `high`, is from `peak_of`.
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
    """The one of two rows, or of two masks of subsets, with the larger score; the smaller number if scores are equal.

    `under` and `over` are the two; they come with their KV tokens.
    """
    f_under, f_over = value(under_tokens, score), value(over_tokens, score)
    if f_under == f_over:
        return min(under, over)
    return under if f_under > f_over else over


@part
def best_candidate(g: int, n: int, low: float, high: float, settings: Settings, work: AssignWork) -> int:
    """The row of the candidate with the largest score for worker g, the oldest of equals; n, their number, is at least 1."""
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
