"""Room for those who fit nowhere: before a large request is due, a worker sinks by what it will take.

A request of half a worker's load fits nowhere by chance, and whoever must admit it one day (`age_limit`) raises the
envelope of all workers for as long as it runs. That one worker stands low for a while costs a group of n workers the n-th
part of it. So in time the worker that has most room is led down, by sending it small requests, until the large one stands
level there.

In time is `LEAD` times as long as it takes until the worker has been left by as many tokens, as requests leave while
others wait. From then on the request is admitted where it fits, and what fits is judged the more mildly the less time is
left: the worker may have no free slot when the time is over.
"""

from __future__ import annotations

import math

import numpy as np

from evenstep.request import F8
from evenstep.routing.bf_io_moment import Moment
from evenstep.routing.view import RoutingView

#: How early a worker begins to sink, in times of what it takes to lose as many tokens as are needed.
LEAD = 1.5
#: One worker in so many sinks, and at least one may.
SINKING_IN = 4
#: What it is worth to admit a request that is due where it fits: its size at every step, so many times over.
DUE = 2.0


def make_room(
    view: RoutingView, moment: Moment, limit_s: float, each_s: float, request: float, speed: F8, standing: F8, level: F8,
    unit: float,
) -> tuple[F8, F8]:  # fmt: skip
    """Who may come in now for lack of time, and who is to sink for the others, the oldest first.

    Args:
        limit_s: who has waited so long is admitted before all others; 0 or inf = nobody ever is.
        each_s: seconds from one admission to the next while some wait; 0 = not known yet.
        request: mean KV tokens of a request.
        speed: float64[G], what a token costs on each worker, relative to the mean.
        standing, level: float64[G], where each worker stands, newcomers apart, and where it should.
        unit: the weights of all steps that are looked at.

    Returns:
        float64[W], what it is worth to admit each request, beside anything else; and float64[G], by how much a worker is to
        stand under its level so that a request has room there, 0 where it need not.
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
