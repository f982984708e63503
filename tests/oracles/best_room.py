"""Room for requests that fit nowhere: before a large request is due, one worker is drained by the room it needs.

A request of half a worker's load fits nowhere by chance. When it must be admitted at last (`age_limit`), it raises the
envelope of all workers for as long as it runs. A single worker with low load costs a group of n workers only the n-th
part of it. So the worker with the most room is drained in time, by sending it small requests, until the large one
brings it back to its level.

The drain starts `LEAD` times earlier than the time in which that many tokens leave the worker while other requests wait.
From then on the request is admitted where it fits. The fit criterion relaxes as the deadline nears, because the worker
may have no free slot at the deadline.
"""

from __future__ import annotations

import math

import numpy as np
from tests.oracles.bf_io_moment import Moment

from evenstep.request import F8
from evenstep.routing.view import RoutingView

#: How early a drain begins, as a multiple of the time in which the needed tokens leave.
LEAD = 1.5
#: One worker in so many sinks, and at least one may.
SINKING_IN = 4
#: The value of admitting a due request where it fits: its size at every step, times this factor.
DUE = 2.0


def make_room(
    view: RoutingView,
    moment: Moment,
    limit_s: float,
    each_s: float,
    request: float,
    speed: F8,
    standing: F8,
    level: F8,
    unit: float,
) -> tuple[F8, F8]:
    """Find the requests that must be admitted now, and the workers to drain for the others, oldest first.

    Args:
        limit_s: a request that has waited this long is admitted before all others; 0 or inf = never.
        each_s: seconds from one admission to the next while requests wait; 0 = not known yet.
        request: mean KV tokens of a request.
        speed: float64[G], cost of a token on each worker, relative to the mean.
        standing, level: float64[G], current level of each worker without newcomers, and its target.
        unit: the weights of all steps that are looked at.

    Returns:
        float64[W], the added value of admitting each request; and float64[G], KV tokens by which a worker should stay below
        its level to make room for a request, 0 = none.
    """
    worth, sunk = np.zeros(moment.size.size), np.zeros(view.load.size)
    if not 0 < limit_s < math.inf or each_s <= 0:
        return worth, sunk
    room, left = level - standing, max(1, view.load.size // SINKING_IN)
    for i, size in enumerate(moment.size.tolist()):
        if left == 0:
            break
        lead_s = min(LEAD * size / request * view.load.size * each_s, limit_s)
        late = 1.0 - (limit_s - float(view.waited_s[i])) / lead_s
        if late <= 0:
            continue
        g = int(np.argmax(room))
        need = float(speed[g]) * size
        if room[g] >= need * (1.0 - late * late) and moment.free_slots[g] > 0:
            worth[i] = DUE * unit * size * view.load.size
        else:
            sunk[g] = need
        room[g] = -math.inf
        left -= 1
    return worth, sunk
