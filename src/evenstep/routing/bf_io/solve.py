# pyright: basic
"""From a plan laid out to the answer, compiled: starting orders, searches, levels; shared by BF-IO and `best`.

Twin of `bf_io.reference.decide`, equal in bits; the arrays of the plan are described in `bf_io.plan`.
"""

from __future__ import annotations

import numpy as np

from evenstep.compiled import borrowing, borrowing_inlined
from evenstep.routing.bf_io.level_kernel import fit_best_level
from evenstep.routing.bf_io.pair_kernel import best_pair
from evenstep.routing.bf_io.plan import (
    ARRIVAL,
    HIT,
    REQUEST,
    WORKER,
    WORTH,
    answer,
    fill,
    hits,
    keep,
    objective,
    refill,
)
from evenstep.routing.bf_io.search import search
from evenstep.routing.view import SINCE_S


@borrowing_inlined
def count_overdue(first, count, now_s, overdue_s, waiting_f):
    """How many of the oldest `count` requests have waited longer than `overdue_s`."""
    overdue = 0
    while overdue < count and now_s - waiting_f[SINCE_S, first + overdue] > overdue_s:
        overdue += 1
    return overdue


@borrowing_inlined
def less_worth(value, filled, requests, slots):
    """The objective, less what those admitted are worth."""
    for k in range(filled):
        value -= requests[WORTH, slots[REQUEST, k]]
    return value


@borrowing
def solve(
    starts, moves, rounds, forced, tries_all,
    steps, requests, ranks, places, tokens, loads, groups, envelopes, slots, quota, cached, worker,
):  # fmt: skip
    """Search from each starting order, then from shifted levels, `rounds` times at most; write the best plan.

    With 0 starts the plan is filled in order of arrival, and the search only moves requests between workers.
    """
    best_value, best_filled, best_pinned = np.inf, -1, 0
    for number in range(max(starts, 1)):
        start = number if starts > 0 else ARRIVAL
        pinned, filled = fill(
            start, forced, steps, requests, ranks, places, tokens, loads, envelopes, slots, quota
        )
        if starts == 0:
            pinned = filled
        search(
            pinned, filled, moves, tries_all,
            steps, requests, ranks, places, tokens, loads, groups, envelopes, slots, cached,
        )  # fmt: skip
        filled = refill(filled, steps, requests, ranks, places, tokens, loads, envelopes, slots)
        value = objective(steps, places, tokens, loads, groups, envelopes)
        if tokens[HIT, 0] > 0.0:
            for k in range(filled):
                value -= hits(slots[REQUEST, k], slots[WORKER, k], ranks, places, tokens, cached)
        value = less_worth(value, filled, requests, slots)
        if filled > best_filled or (filled == best_filled and value < best_value):
            best_value, best_filled, best_pinned = value, filled, pinned
            keep(filled, envelopes, slots)
    levels_help = starts > 0 and best_filled < requests.shape[1] and moves > 0 and not tries_all
    rounds = rounds if levels_help else 0
    for _ in range(rounds):
        if not fit_best_level(
            best_pinned, best_filled, steps, requests, ranks, places, tokens, loads, groups, envelopes, slots
        ):
            break
        search(
            best_pinned, best_filled, moves, tries_all,
            steps, requests, ranks, places, tokens, loads, groups, envelopes, slots, cached,
        )  # fmt: skip
        filled = refill(best_filled, steps, requests, ranks, places, tokens, loads, envelopes, slots)
        value = objective(steps, places, tokens, loads, groups, envelopes)
        value = less_worth(value, filled, requests, slots)
        if filled == best_filled and value >= best_value:
            break
        best_value, best_filled = value, filled
        keep(filled, envelopes, slots)
    if rounds > 0 and best_filled == 2 and best_pinned == 0:
        best_pair(steps, requests, places, tokens, loads, groups, envelopes, slots)
    answer(best_filled, tries_all, requests, ranks, places, slots, worker)
