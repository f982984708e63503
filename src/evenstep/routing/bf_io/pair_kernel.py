# pyright: basic
"""Two slots of BF-IO, compiled: both requests chosen at once.

Twin of `bf_io.pair`, equal in bits; the arrays of the plan are described in `bf_io.plan`.
"""

from __future__ import annotations

import numpy as np

from evenstep.compiled import borrowing, borrowing_inlined
from evenstep.routing.bf_io.plan import (
    BASE,
    BEST_REQUEST,
    BEST_WORKER,
    FLOOR,
    GROWTH,
    KIN,
    KV,
    MARGIN,
    MEMBERS,
    OTHERS,
    PULL,
    SIZE,
    TERM,
    TIE,
    WEIGHT,
)
from evenstep.routing.bf_io.search import TOLERANCE, rank_from, sum_of_terms


@borrowing_inlined
def value_of(o, p, size_o, size_p, members, steps, loads):
    """J, up to a constant, with these sizes on workers o and p; OTHERS is the envelope without the two."""
    for h in range(steps.shape[1]):
        top = max(steps[OTHERS, h], loads[BASE, o, h] + steps[GROWTH, h] + size_o)
        top = max(top, loads[BASE, p, h] + steps[GROWTH, h] + size_p)
        steps[TERM, h] = steps[WEIGHT, h] * (members * top - (size_o + size_p))
    return sum_of_terms(steps)


@borrowing_inlined
def ideal_beside(o, p, size_o, members, steps, loads):
    """Size on worker p at which J is least with this size on o: where the slope of J turns positive."""
    down, last = 0.0, -np.inf
    for h in range(steps.shape[1]):
        top = max(steps[OTHERS, h], loads[BASE, o, h] + steps[GROWTH, h] + size_o)
        steps[MARGIN, h] = top - (loads[BASE, p, h] + steps[GROWTH, h])
        down += steps[WEIGHT, h]
    while down > 0.0:
        at = 0
        for h in range(1, steps.shape[1]):
            if steps[MARGIN, h] < steps[MARGIN, at]:
                at = h
        if steps[MARGIN, at] == np.inf:
            break
        last = steps[MARGIN, at]
        down -= members * steps[WEIGHT, at]
        steps[MARGIN, at] = np.inf
    return last


@borrowing
def best_pair(steps, requests, places, tokens, loads, groups, envelopes, slots):
    """Give the two slots of the best plan the requests that balance best together, where that gains."""
    o, p = slots[BEST_WORKER, 0], slots[BEST_WORKER, 1]
    q = places[KIN, o]
    if o == p or places[KIN, p] != q or groups[TIE, q] > 0.0 or tokens[PULL, o] > 0.0:
        return
    members, W = groups[MEMBERS, q], requests.shape[1]
    for h in range(steps.shape[1]):
        steps[OTHERS, h] = envelopes[FLOOR, q, h]  # two slots in all: no third worker is open
    x, y = slots[BEST_REQUEST, 0], slots[BEST_REQUEST, 1]
    best = value_of(o, p, requests[SIZE, x], requests[SIZE, y], members, steps, loads) - TOLERANCE
    for a in range(W):
        size = requests[SIZE, a]
        if size > tokens[KV, o] or (a > 0 and size == requests[SIZE, a - 1]):
            continue
        ideal = ideal_beside(o, p, size, members, steps, loads)
        start = rank_from(requests, min(ideal, tokens[KV, p]))
        for side in range(2):
            b = start - 1 + side
            if b == a:
                b += 1 if side == 1 else -1
            if 0 <= b < W and requests[SIZE, b] <= tokens[KV, p]:
                value = value_of(o, p, size, requests[SIZE, b], members, steps, loads)
                if value < best:
                    best, x, y = value, a, b
    slots[BEST_REQUEST, 0], slots[BEST_REQUEST, 1] = x, y
