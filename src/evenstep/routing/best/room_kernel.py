# pyright: basic
"""Room for those who fit nowhere, compiled: twin of `best.room`, equal in bits."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import borrowing
from evenstep.routing.best.room import DUE, LEAD, SINKING_IN
from evenstep.routing.bf_io.plan import PLACE, RANK, TARGET, WEIGHT, WORTH
from evenstep.routing.view import FREE_SLOTS, SINCE_S, WAITING_LOAD


@borrowing
def make_room(
    first, considered, now_s, limit_s, each_s, request, speed, room, level, rise, workers_i, waiting_f, steps, places,
    tokens, requests, ranks,
):  # fmt: skip
    """Those whose time is up are worth admitting where they fit; for the others a worker's target is lowered.

    `room` holds where each worker stands, and is used up.
    """
    if not 0.0 < limit_s < np.inf or each_s <= 0.0:
        return
    G, weight = room.size, 0.0
    for k in range(steps.shape[1]):
        weight += steps[WEIGHT, k]
    for g in range(G):
        room[g] = level[g] - room[g]
    left = max(1, G // SINKING_IN)
    for i in range(considered):
        if left == 0:
            break
        size = waiting_f[WAITING_LOAD, first + i]
        lead_s = min(LEAD * size / request * G * each_s, limit_s)
        late = 1.0 - (limit_s - (now_s - waiting_f[SINCE_S, first + i])) / lead_s
        if late <= 0.0:
            continue
        g = 0
        for other in range(1, G):
            if room[other] > room[g]:
                g = other
        need = speed[g] * size
        if room[g] >= need * (1.0 - late * late) and workers_i[FREE_SLOTS, g] > 0:
            requests[WORTH, ranks[RANK, i]] += DUE * weight * size * G
        else:
            for o in range(places.shape[1]):
                if places[PLACE, o] == g:
                    tokens[TARGET, o] = min(tokens[TARGET, o], level[g] - rise[g] - need)
        room[g] = -np.inf
        left -= 1
