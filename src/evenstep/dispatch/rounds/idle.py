"""Keeps no worker idle while a fitting request waits: least load sends that request even if the policy holds it.

A policy may hold requests for its own reasons. On a worker that runs nothing, such a reason can never change: no request
leaves that worker, and its load does not shrink. So the host sends the oldest request that fits there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from evenstep import compiled
from evenstep.dispatch.fleet.mirror import Mirror
from evenstep.dispatch.requests.pool import Pool
from evenstep.dispatch.requests.rows import Rows
from evenstep.dispatch.rounds import showing
from evenstep.dispatch.rounds.policy_call import Packed
from evenstep.request import I8
from evenstep.routing.view import HOLD, KV_FREE

_idle_workers = compiled.entry(showing.idle_workers)


def fill_idle(
    rows: Rows, mirror: Mirror, packed: Packed, pool: Pool, shown: int, margin: int, excluded: Mapping[int, Collection[str]]
) -> int:
    """Add to the answer in `packed` one request for each idle worker: the first unsent one in the pool that fits it.

    A worker is idle if it holds no request, foreign or not, is not gathering and gets nothing by the answer. Requests and
    slots outside the round count, too: `pool_window` and `round_slots` bound only the policy's view. A request that the
    answer sends to a worker excluded for it does not make that worker busy.

    Args:
        packed: the round, with room for `shown` and one request a worker; its answer, rows and free slots are written.
        shown: requests in the round.
        margin: slots beyond its own that a worker's requests may take.
        excluded: row -> names of workers that may not get the request.

    Returns the number of requests that the answer now covers: `shown`, and those added from the rest of the pool.
    """
    waiting, answer = packed.waiting[:shown], packed.worker
    if excluded:
        answer = _allowed(mirror.names, waiting, answer, excluded)
    idle: I8 = np.empty(packed.workers, np.int64)
    count = _idle_workers(mirror.columns.given, margin, packed.gathers, answer, shown, idle)
    if not count:
        return shown
    left: I8 = np.array(pool.here)
    left = left[np.isin(left, waiting[answer[:shown] != HOLD], invert=True)]
    known = rows.columns.arrays
    tokens, copies = (known.prompt[left] + known.produced[left]).astype(np.float64), known.copies[left]
    place = {row: i for i, row in enumerate(waiting.tolist())}
    is_left = np.ones(left.size, np.bool_)
    for g in idle[:count].tolist():
        name, slots = mirror.names[g], mirror.at.free_at_most[g] + margin
        fits = np.flatnonzero(is_left & (tokens <= packed.workers_f[KV_FREE, g]) & (copies <= slots))
        for k in fits.tolist():
            row = int(left[k])
            if name in excluded.get(row, ()):
                continue
            if row not in place:
                place[row] = len(place)
            packed.waiting[place[row]], packed.worker[place[row]] = row, g
            packed.free[g], is_left[k] = slots, False
            break
    return len(place)


def _allowed(names: list[str], waiting: I8, answer: I8, excluded: Mapping[int, Collection[str]]) -> I8:
    """A copy of the answer in which requests sent to workers excluded for them are held."""
    answer = answer.copy()
    for i, row in enumerate(waiting.tolist()):
        g = int(answer[i])
        if row in excluded and g != HOLD and names[g] in excluded[row]:
            answer[i] = HOLD
    return answer
