# pyright: basic
"""BF-IO(H), compiled: reads the host's arrays, searches from each starting order, writes the best plan.

Twin of `bf_io_reference`, equal in bits. Arguments as in `routing.view`; parameters are the fields of `BFIO`; the
arrays of the plan are described in `bf_io_plan_kernel`, and cut here from the scratch space.
"""

from __future__ import annotations

import numpy as np

from evenstep.compiled import borrowing, borrowing_inlined, route_kernel
from evenstep.routing.bf_io_level_kernel import fit_best_level
from evenstep.routing.bf_io_pair_kernel import best_pair
from evenstep.routing.bf_io_plan_kernel import (
    answer,
    fill,
    group_workers,
    keep,
    objective,
    set_requests,
    set_steps,
    set_workers,
)
from evenstep.routing.bf_io_search_kernel import search
from evenstep.routing.view import FREE_SLOTS, SINCE_S

HORIZON, DISCOUNT, TIE_WEIGHT, STARTS, EXACT, WINDOW, MOVES, AGE_LIMIT = range(8)

#: Times the best plan is fitted to another level, as long as that gains.
ROUNDS = 2


def scratch(workers, waiting, horizon, parameters):
    """Working space: (int64, float64) words for G workers, W waiting requests and H steps ahead."""
    n = horizon + 1
    return 7 * waiting + 7 * workers, 2 * waiting + 6 * workers + 8 * workers * n + 5 * n


@borrowing_inlined
def count_overdue(first, count, now_s, overdue_s, waiting_f):
    """How many of the oldest `count` requests have waited longer than `overdue_s`."""
    overdue = 0
    while overdue < count and now_s - waiting_f[SINCE_S, first + overdue] > overdue_s:
        overdue += 1
    return overdue


@borrowing
def decide(
    first, forced, growth, workers_i, workers_f, waiting_f, projections, parameters, numbers,
    steps, requests, ranks, places, tokens, loads, groups, envelopes, slots, worker,
):  # fmt: skip
    """Build the plan, search from each starting order, write the best plan."""
    set_steps(steps, growth, parameters[DISCOUNT])
    set_workers(
        numbers, workers_i, workers_f, projections, parameters[TIE_WEIGHT],
        steps, places, tokens, loads, groups, envelopes,
    )  # fmt: skip
    ends_known = set_requests(waiting_f, first, steps.shape[1], requests, ranks)
    best_value, best_filled, best_pinned, moves = np.inf, -1, 0, int(parameters[MOVES])
    for start in range(int(parameters[STARTS])):
        pinned, filled = fill(start, forced, steps, requests, ranks, places, tokens, loads, envelopes, slots)
        search(
            pinned, filled, moves, ends_known,
            steps, requests, ranks, places, tokens, loads, groups, envelopes, slots,
        )  # fmt: skip
        value = objective(steps, places, loads, groups, envelopes)
        if filled > best_filled or (filled == best_filled and value < best_value):
            best_value, best_filled, best_pinned = value, filled, pinned
            keep(filled, envelopes, slots)
    rounds = ROUNDS if best_filled < requests.shape[1] and moves > 0 and not ends_known else 0
    for _ in range(rounds):
        if not fit_best_level(
            best_pinned, best_filled, steps, requests, ranks, places, tokens, loads, groups, envelopes, slots
        ):
            break
        search(
            best_pinned, best_filled, moves, ends_known,
            steps, requests, ranks, places, tokens, loads, groups, envelopes, slots,
        )  # fmt: skip
        value = objective(steps, places, loads, groups, envelopes)
        if value >= best_value:
            break
        best_value = value
        keep(best_filled, envelopes, slots)
    if rounds > 0 and best_filled == 2 and best_pinned == 0:
        best_pair(steps, requests, places, tokens, loads, groups, envelopes, slots)
    answer(best_filled, ends_known, requests, ranks, places, slots, worker)


@route_kernel
def route_into(
    decision, seed, now_s, mean_wait_s, first, waiting,
    workers_i, workers_f, waiting_i, waiting_f,
    projections, growth, cached, memory, parameters,
    scratch_i, scratch_f, worker,
):  # fmt: skip
    G, free, opened = workers_i.shape[1], 0, 0
    for g in range(G):
        if workers_i[FREE_SLOTS, g] > 0:
            free += workers_i[FREE_SLOTS, g]
            opened += 1
    U = min(waiting, free)
    if U == 0:
        return np.nan
    W = waiting
    if parameters[WINDOW] > 0.0:
        W = min(waiting, max(int(parameters[WINDOW]), U))
    forced = 0
    if parameters[AGE_LIMIT] > 0.0 and mean_wait_s > 0.0:
        forced = count_overdue(
            first, min(U, max(1, free // 4)), now_s, parameters[AGE_LIMIT] * mean_wait_s, waiting_f
        )

    Q, n = group_workers(workers_i, scratch_i), max(projections.shape[1], 1)
    a, b = G, 0  # the first G integers hold the numbers of the groups
    ranks, a = scratch_i[a : a + 3 * W].reshape(3, W), a + 3 * W
    places, a = scratch_i[a : a + 6 * opened].reshape(6, opened), a + 6 * opened
    slots = scratch_i[a : a + 4 * U].reshape(4, U)
    steps, b = scratch_f[b : b + 5 * n].reshape(5, n), b + 5 * n
    requests, b = scratch_f[b : b + 2 * W].reshape(2, W), b + 2 * W
    tokens, b = scratch_f[b : b + 4 * opened].reshape(4, opened), b + 4 * opened
    loads, b = scratch_f[b : b + 2 * opened * n].reshape(2, opened, n), b + 2 * opened * n
    groups, b = scratch_f[b : b + 2 * Q].reshape(2, Q), b + 2 * Q
    envelopes = scratch_f[b : b + 6 * Q * n].reshape(6, Q, n)

    decide(
        first, forced, growth, workers_i, workers_f, waiting_f, projections, parameters, scratch_i,
        steps, requests, ranks, places, tokens, loads, groups, envelopes, slots, worker,
    )  # fmt: skip
    return np.nan
