"""The last step of BF-IO where two slots are filled from a larger pool: both requests chosen at once."""

from __future__ import annotations

import numpy as np
from tests.oracles.bf_io_moment import TOLERANCE, Moment, in_lanes

from evenstep.request import F8


def best_pair(moment: Moment, size: F8, slots: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Two slots on two workers of a group with the requests that balance best together; as they are if none gains.

    Args:
        size: float64[W], sizes of the requests considered, ascending.
        slots: (worker, place in `size`) of both.

    A search that changes one request at a time stops where each of the two would overtake the other. Here every
    request is tried on the first worker. J is convex in the size on the second, so the best one there is a neighbour
    of the ideal. With one worker, or two groups, the search finds the best by itself; with a tie-breaker it is left
    at that.
    """
    (g, x), (p, y) = slots
    q = moment.group[g]
    if g == p or moment.group[p] != q or moment.tie[q] > 0 or moment.pull[g] > 0:
        return slots
    members = float((moment.group == q).sum())
    rest = np.full(moment.weight.size, -np.inf)
    for other in np.flatnonzero(moment.group == q):
        if other not in (g, p):
            rest = np.maximum(rest, moment.load[other])
    first, second = moment.load[g] + moment.growth, moment.load[p] + moment.growth

    def value(a: int, b: int) -> float:
        top = np.maximum(np.maximum(rest, first + size[a]), second + size[b])
        return in_lanes(moment.weight * (members * top - (size[a] + size[b])))

    best, chosen = value(x, y) - TOLERANCE, (x, y)
    for a in range(size.size):
        if size[a] > moment.kv_free[g] or (a > 0 and size[a] == size[a - 1]):
            continue
        ideal = _ideal(np.maximum(rest, first + size[a]) - second, moment.weight, members)
        start = int(np.searchsorted(size, min(ideal, moment.kv_free[p]), side="left"))
        below, above = start - 1 - (start - 1 == a), start + (start == a)
        for b in (below, above):
            if 0 <= b < size.size and size[b] <= moment.kv_free[p]:
                found = value(a, b)
                if found < best:
                    best, chosen = found, (a, b)
    return [(g, chosen[0]), (p, chosen[1])]


def _ideal(margin: F8, weight: F8, members: float) -> float:
    """Size at which J is least, on a worker this far below all others: where the slope of J turns positive."""
    margin = margin.copy()
    down, last = 0.0, -np.inf
    for w in weight.tolist():
        down += w
    while down > 0:
        at = int(np.argmin(margin))
        if margin[at] == np.inf:
            break
        last = float(margin[at])
        down -= members * weight[at]
        margin[at] = np.inf
    return last
