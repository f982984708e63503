"""Compiled twin of `filling.overdue`."""
# pyright: basic

from __future__ import annotations

from evenstep.compiled import jit
from evenstep.routing.view import FREE_SLOTS, SINCE_S


@jit
def overdue(now_s, mean_wait_s, first, waiting, waiting_f, workers_i, age_limit):
    """How many of the oldest requests go first; see `filling.overdue`."""
    if not (age_limit > 0.0 and mean_wait_s > 0.0):
        return 0
    limit = age_limit * mean_wait_s
    late, free = 0, 0
    for g in range(workers_i.shape[1]):
        free += workers_i[FREE_SLOTS, g]
    most = min(waiting, max(1, free // 4))
    while late < most and now_s - waiting_f[SINCE_S, first + late] > limit:
        late += 1
    return late
