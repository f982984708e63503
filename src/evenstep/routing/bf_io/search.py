"""Local search of BF-IO: replaces requests from the pool, and moves and swaps them between workers."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import Floats, Ints, ReadTable, part
from evenstep.routing.bf_io import gains
from evenstep.routing.bf_io.gains import TOLERANCE, ideal_size, set_others
from evenstep.routing.bf_io.plan import Plan, change, hits

#: This many of the oldest requests are tried in every slot, where age is worth something.
OLDEST = 4


@part
def rank_from(sizes: Floats, size: float, beyond: bool = False) -> int:
    """First rank of size at least `size`, or above it if `beyond`; W if there is none. `sizes` are sorted ascending."""
    low, high = 0, sizes.size
    while low < high:
        middle = (low + high) // 2
        if sizes[middle] < size or (beyond and sizes[middle] == size):
            low = middle + 1
        else:
            high = middle
    return low


@part
def waiting_below(r: int, taken: Ints) -> int:
    """The largest rank below r whose request has no slot (`taken` is not 1); -1 if there is none."""
    r -= 1
    while r >= 0 and taken[r] == 1:
        r -= 1
    return r


@part
def waiting_from(r: int, taken: Ints) -> int:
    """The smallest rank >= r whose request has no slot (`taken` is not 1); W if there is none."""
    while r < taken.size and taken[r] == 1:
        r += 1
    return r


@part
def best_replacement(o: int, out: int, tries_all: bool, plan: Plan, cached: ReadTable) -> int:
    """The rank of the waiting request that gains most in place of that of rank `out` on open worker o; -1 if none gains.

    It is of the same class as `out`, and fits the worker's KV memory. If only size and age count, the gain is concave in the
    size. Then only the two neighbours of the ideal size are tried, and the oldest if age counts. With `tries_all` all are
    tried. The plan's assignment stays. `cached` is float64[W, G], cached prompt tokens. Call `set_others` for o first.
    """
    size, stays = plan.size[out], plan.stays[out]
    limit = plan.kv_left[o] + size
    low, high = 0, plan.size.size - 1
    if not tries_all:
        start = rank_from(plan.size, min(ideal_size(o, size, stays, plan), limit))
        low, high = max(waiting_below(start, plan.taken), 0), min(waiting_from(start, plan.taken), high)
    best, best_gain = -1, TOLERANCE
    r = low
    while r <= high:
        if plan.taken[r] == 0 and plan.size[r] <= limit and plan.kind[r] == plan.kind[out]:
            gain = gains.replacement_gain(o, size, stays, plan.size[r], plan.stays[r], plan)
            if plan.hit[o] > 0.0:
                gain += hits(r, o, plan, cached) - hits(out, o, plan, cached)
            gain += plan.worth[r] - plan.worth[out]
            if gain > best_gain:
                best, best_gain = r, gain
        r = r + 1 if tries_all or r == high else high
    if tries_all or plan.worth[plan.rank[0]] <= 0.0:
        return best
    return best_of_oldest(o, out, best, best_gain, plan)


@part
def best_of_oldest(o: int, out: int, best: int, best_gain: float, plan: Plan) -> int:
    """The rank of the one of the `OLDEST` oldest waiting requests that gains most in place of rank `out` on worker o.

    The result is `best` if none gains more than `best_gain`. Only requests that fit the worker's KV memory are tried.
    Classes and cached tokens do not count. Call `set_others` for o first.
    """
    size, stays = plan.size[out], plan.stays[out]
    limit = plan.kv_left[o] + size
    i, tried = 0, 0
    while i < plan.rank.size and tried < OLDEST:
        r = int(plan.rank[i])
        if plan.taken[r] == 0:
            tried += 1
            if plan.size[r] <= limit:
                gain = gains.replacement_gain(o, size, stays, plan.size[r], plan.stays[r], plan)
                gain += plan.worth[r] - plan.worth[out]
                if gain > best_gain:
                    best, best_gain = r, gain
        i += 1
    return best


@part
def smallest_from(ideal: float, low: int, high: int, plan: Plan) -> int:
    """The rank above `low` of the waiting request that, with that of rank `low`, has the smallest sum of sizes >= `ideal`.

    `low` and `high` are ranks of waiting requests, low < high. Of equal sizes it is the last. It is at most `high`, and
    `high` if no sum reaches `ideal`.
    """
    below, last = low, high
    while below < last:
        middle = (below + last) // 2
        if plan.size[low] + plan.size[middle] < ideal:
            below = middle + 1
        else:
            last = middle
    first = waiting_from(max(last, low + 1), plan.taken)
    return waiting_below(rank_from(plan.size, plan.size[first], beyond=True), plan.taken)


@part
def nearest_pairs(ideal: float, limit: float, plan: Plan) -> tuple[int, int, int, int]:
    """The two pairs of waiting requests whose sizes add up nearest to `ideal`: one below, one at or above it.

    No sum exceeds `limit`, and `ideal` must not either. Returns the lower and higher rank of the first pair, then of the
    second; -1 for a pair that does not exist.
    """
    below, above = -np.inf, np.inf
    a, b, c, d = -1, -1, -1, -1
    low, high = waiting_from(0, plan.taken), waiting_below(plan.taken.size, plan.taken)
    if low < high:
        high = smallest_from(ideal, low, high, plan)
    while low < high:
        total = plan.size[low] + plan.size[high]
        if total < ideal:
            if total > below:
                a, b, below = low, high, total
            low = waiting_from(low + 1, plan.taken)
        else:
            if total < above and total <= limit:
                c, d, above = low, high, total
            high = waiting_below(high, plan.taken)
    return a, b, c, d


@part
def replace_pair(k: int, m: int, plan: Plan) -> bool:
    """Replace the requests in slots k and m of one worker by the best of `nearest_pairs`, if that gains; True if it did.

    The plan's loads, envelope, slots and `taken` are updated. Call `set_others` for the worker first.
    """
    o, x, y = int(plan.worker[k]), int(plan.request[k]), int(plan.request[m])
    size = plan.size[x] + plan.size[y]
    limit = plan.kv_left[o] + size
    ideal = ideal_size(o, size, np.inf, plan)
    plan.taken[x], plan.taken[y] = 0, 0
    a, b, c, d = nearest_pairs(min(ideal, limit), limit, plan)
    plan.taken[x], plan.taken[y] = 1, 1
    best, best_gain = -1, TOLERANCE
    for side in range(2):
        low, high = (a, b) if side == 0 else (c, d)
        if low >= 0:
            gain = gains.replacement_gain(o, size, np.inf, plan.size[low] + plan.size[high], np.inf, plan)
            worth = plan.worth[low] + plan.worth[high]
            gain += worth - (plan.worth[x] + plan.worth[y])
            if gain > best_gain:
                best, best_gain = side, gain
    if best < 0:
        return False
    low, high = (a, b) if best == 0 else (c, d)
    change(o, x, low, plan)
    change(o, y, high, plan)
    plan.taken[low], plan.taken[high] = 1, 1
    plan.request[k], plan.request[m] = low, high
    return True


@part
def replace(k: int, filled: int, tries_all: bool, plan: Plan, cached: ReadTable) -> tuple[bool, int]:
    """Replace the request of slot k by a waiting one, if that gains; else replace two requests of its worker, as a pair.

    Pairs are not tried with `tries_all`. Returns whether anything was replaced, and the number of tries, at least 1.
    """
    o, out = int(plan.worker[k]), int(plan.request[k])
    set_others(o, plan)
    r = best_replacement(o, out, tries_all, plan, cached)
    if r >= 0:
        change(o, out, r, plan)
        plan.request[k] = r
        return True, 1
    tries = 1
    if not tries_all:
        for m in range(k + 1, filled):
            if plan.worker[m] == o:
                tries += 1
                if replace_pair(k, m, plan):
                    return True, tries
    return False, tries


@part
def best_transfer(k: int, filled: int, most: float, plan: Plan, cached: ReadTable) -> tuple[int, int, int]:
    """Find the best move or swap of the request in slot k to another worker; `transfer` carries it out.

    A move needs a free slot and memory; a swap is with a smaller request. Call `set_others` for the slot's worker first.
    `most` is an upper bound of the gain, from `most_gain`, or inf. Transfers that cannot beat the best are skipped. Returns
    the worker's place, -1 if nothing gains; the slot to swap with, -1 for a move; and the number of tries.
    """
    o, out = int(plan.worker[k]), int(plan.request[k])
    size = plan.size[out]
    to, swap, best_gain, tries = -1, -1, TOLERANCE, 0
    for p in range(plan.place.size):
        if p != o and plan.room[p] > 0 and size <= plan.kv_left[p]:
            tries += 1
            if not gains.may_gain(o, p, out, -1, most, best_gain, plan):
                continue
            gain = gains.transfer_gain(o, p, out, -1, plan)
            if plan.hit[o] > 0.0:
                gain += hits(out, p, plan, cached) - hits(out, o, plan, cached)
            if gain > best_gain:
                to, swap, best_gain = p, -1, gain
    for m in range(filled):
        p, back = int(plan.worker[m]), int(plan.request[m])
        delta = size - plan.size[back]
        if p != o and delta > 0.0 and delta <= plan.kv_left[p]:
            tries += 1
            if not gains.may_gain(o, p, out, back, most, best_gain, plan):
                continue
            gain = gains.transfer_gain(o, p, out, back, plan)
            if plan.hit[o] > 0.0:
                swapped = hits(out, p, plan, cached) + hits(back, o, plan, cached)
                now = hits(out, o, plan, cached) + hits(back, p, plan, cached)
                gain += swapped - now
            if gain > best_gain:
                to, swap, best_gain = p, m, gain
    return to, swap, tries


@part
def transfer(k: int, to: int, swap: int, plan: Plan) -> None:
    """Move the request of slot k to open worker `to`, in exchange for that of slot `swap` (-1: none). No check of room."""
    o, out = int(plan.worker[k]), int(plan.request[k])
    back = int(plan.request[swap]) if swap >= 0 else -1
    change(o, out, back, plan)
    change(to, back, out, plan)
    plan.worker[k] = to
    if swap >= 0:
        plan.taken[back] = 1
        plan.worker[swap] = o


@part
def search(pinned: int, filled: int, tries: int, tries_all: bool, plan: Plan, cached: ReadTable) -> None:
    """Improve the plan in place, slot after slot, until a whole round gains nothing or the tries are used up.

    In each slot it replaces the request from the pool (`replace`), then moves or swaps it (`transfer`). Requests in the
    first `pinned` of `filled` slots are not replaced. Without tie-breaker, targets and cached tokens, only a worker above
    all others of its group at some step gives a request away.
    """
    k, idle, bounded = 0, 0, gains.is_bounded(plan)
    while idle < filled and tries > 0:
        idle += 1
        o = int(plan.worker[k])
        if k >= pinned and filled < plan.size.size:
            made, used = replace(k, filled, tries_all, plan, cached)
            tries -= used
            if made:
                idle = 0
        above = set_others(o, plan)
        if above or plan.tie[plan.group[o]] > 0.0 or plan.pull[o] > 0.0 or plan.hit[o] > 0.0:
            most = np.inf if not bounded else gains.most_gain(o, plan) if above else 0.0
            to, swap, used = best_transfer(k, filled, most, plan, cached)
            tries -= used
            if to >= 0:
                transfer(k, to, swap, plan)
                idle = 0
        k = k + 1 if k + 1 < filled else 0
