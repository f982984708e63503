# pyright: basic
"""BF-IO(H), compiled: reads the host's arrays, searches from each starting order, writes the best plan.

Twin of `bf_io.reference`, equal in bits. Arguments as in `routing.view`; parameters are the fields of `BFIO`; the
arrays of the plan are described in `bf_io.plan`, and cut here from the scratch space.
"""

from __future__ import annotations

import numpy as np

from evenstep.compiled import route_kernel
from evenstep.routing.bf_io.plan import group_workers, set_requests, set_steps, set_workers
from evenstep.routing.bf_io.solve import count_overdue, solve
from evenstep.routing.view import FREE_SLOTS

HORIZON, DISCOUNT, TIE_WEIGHT, STARTS, EXACT, WINDOW, MOVES, AGE_LIMIT = range(8)

#: Times the best plan is fitted to another level, as long as that gains.
ROUNDS = 2


def scratch(workers, waiting, horizon, parameters):
    """Working space: (int64, float64) words for G workers, W waiting requests and H steps ahead."""
    n = horizon + 1
    return 8 * waiting + 7 * workers + 2, 3 * waiting + 12 * workers + 8 * workers * n + 5 * n


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
    ranks, a = scratch_i[a : a + 4 * W].reshape(4, W), a + 4 * W
    places, a = scratch_i[a : a + 6 * opened].reshape(6, opened), a + 6 * opened
    slots, a = scratch_i[a : a + 4 * U].reshape(4, U), a + 4 * U
    quota = scratch_i[a : a + 2].reshape(2, 1)
    steps, b = scratch_f[b : b + 5 * n].reshape(5, n), b + 5 * n
    requests, b = scratch_f[b : b + 3 * W].reshape(3, W), b + 3 * W
    tokens, b = scratch_f[b : b + 8 * opened].reshape(8, opened), b + 8 * opened
    loads, b = scratch_f[b : b + 2 * opened * n].reshape(2, opened, n), b + 2 * opened * n
    groups, b = scratch_f[b : b + 3 * Q].reshape(3, Q), b + 3 * Q
    envelopes, b = scratch_f[b : b + 6 * Q * n].reshape(6, Q, n), b + 6 * Q * n
    speeds = scratch_f[b : b + G]

    for g in range(G):
        speeds[g] = 1.0
    quota[0, 0] = U
    set_steps(steps, growth, parameters[DISCOUNT])
    set_workers(
        scratch_i, workers_i, workers_f, projections, parameters[TIE_WEIGHT], speeds,
        steps, places, tokens, loads, groups, envelopes,
    )  # fmt: skip
    ends_known = set_requests(waiting_f, first, n, requests, ranks)
    solve(
        int(parameters[STARTS]), int(parameters[MOVES]), ROUNDS, forced, ends_known,
        steps, requests, ranks, places, tokens, loads, groups, envelopes, slots, quota, cached, worker,
    )  # fmt: skip
    return np.nan
