# pyright: basic
"""The policy `work-conserving`, compiled; twin of `work_conserving.WorkConserving.form_batch`. Arguments as in
`scheduling.view`."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import batch_kernel
from evenstep.scheduling.filling_kernel import ROOM, open_batch
from evenstep.scheduling.phases_kernel import (
    admit_first,
    admit_shortest,
    list_phase,
    needed_by,
    run_list,
    sort_by_left,
)
from evenstep.scheduling.preempting_kernel import answer
from evenstep.scheduling.view import RUNNING, UNLIMITED, WAITING

#: Fields of the policy.
PREFILL_CAP, DECODE_CAP, PREFILL_FIRST, FEWEST_LEFT = range(4)


def scratch(running, waiting, parameters):
    """Working space: (int64, float64) words for R running and W waiting requests."""
    return ROOM + 2 * running, 0


@batch_kernel
def form_batch_into(
    iteration, seed, now_s, limits, running, waiting, first, counts,
    rows, arrival_s, arrived, memory, parameters, scratch_i, scratch_f, picked, evicted,
):  # fmt: skip
    left, R, W = scratch_i, counts[RUNNING], counts[WAITING]
    open_batch(limits, left, R)
    prefills = np.int64(parameters[PREFILL_CAP]) if parameters[PREFILL_CAP] > 0.0 else UNLIMITED
    decodes = np.int64(parameters[DECODE_CAP]) if parameters[DECODE_CAP] > 0.0 else UNLIMITED
    shortest = parameters[FEWEST_LEFT] == 1.0
    chunks = list_phase(rows, running, R, 0, prefills, scratch_i, ROOM)
    end = list_phase(rows, running, R, 1, decodes, scratch_i, chunks)
    W = min(W, prefills - (chunks - ROOM))
    if shortest:
        sort_by_left(rows, running, scratch_i, ROOM, chunks)
        sort_by_left(rows, running, scratch_i, chunks, end)
    given, kept, reserve = 0, R, 0
    if parameters[PREFILL_FIRST] == 1.0:
        reserve = needed_by(limits, rows, running, kept, scratch_i, chunks, end)
    else:
        given, kept = run_list(limits, left, rows, running, kept, scratch_i, chunks, end, picked, given)
    given, kept = run_list(limits, left, rows, running, kept, scratch_i, ROOM, chunks, picked, given)
    if kept == R:
        if shortest:
            given = admit_shortest(limits, left, rows, waiting, first, W, R, reserve, picked, given)
        else:
            given = admit_first(limits, left, rows, waiting, first, W, R, reserve, picked, given)
    if parameters[PREFILL_FIRST] == 1.0:
        given, kept = run_list(limits, left, rows, running, kept, scratch_i, chunks, end, picked, given)
    answer(counts, kept, picked, evicted, given)
    return np.inf
