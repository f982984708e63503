# pyright: basic
"""The policy `faster-transformer`, compiled; twin of `faster_transformer.FasterTransformer.form_batch`. Arguments as in
`scheduling.view`."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import batch_kernel, borrowing
from evenstep.scheduling.filling_kernel import FREE, ROOM, grows, offer, open_batch
from evenstep.scheduling.preempting_kernel import answer, run_or_evict
from evenstep.scheduling.view import (
    BATCH_LIMIT,
    DECODING,
    LEFT,
    RESIDENT_LIMIT,
    RUNNING,
    UNLIMITED,
    WAITING,
)


def scratch(running, waiting, parameters):
    """Working space: (int64, float64) words for R running and W waiting requests."""
    return ROOM, 0


@borrowing
def group_size(limits, rows, waiting, first, W, group):
    """How many of the queue's first are alike in phase: the next group."""
    most = min(group, limits[BATCH_LIMIT], limits[RESIDENT_LIMIT], W)
    for i in range(1, most):
        if rows[DECODING, waiting[first + i]] != rows[DECODING, waiting[first]]:
            return i
    return most


@batch_kernel
def form_batch_into(
    iteration, seed, now_s, limits, running, waiting, first, counts,
    rows, arrival_s, arrived, memory, parameters, scratch_i, scratch_f, picked, evicted,
):  # fmt: skip
    left, R, W = scratch_i, counts[RUNNING], counts[WAITING]
    open_batch(limits, left, R)
    joining = memory[0]
    if R == 0:
        group = np.int64(parameters[0]) if parameters[0] > 0.0 else UNLIMITED
        joining = group_size(limits, rows, waiting, first, W, group)
    given, kept = 0, R
    for position in range(R):
        if rows[DECODING, running[position]] == 0:
            given, kept = run_or_evict(limits, left, rows, running, kept, position, picked, given)
    for i in range(joining):
        row, before = waiting[first + i], given
        if kept < R or grows(limits, rows, row, rows[LEFT, row]) > left[FREE]:
            joining = 0
            break
        given = offer(limits, left, rows, row, R + i, 0, picked, given)
        if given == before:
            break
        joining -= 1
    if given == 0:
        for position in range(R):
            if rows[DECODING, running[position]] == 1:
                given, kept = run_or_evict(limits, left, rows, running, kept, position, picked, given)
    memory[0] = joining
    answer(counts, kept, picked, evicted, given)
    return np.inf
