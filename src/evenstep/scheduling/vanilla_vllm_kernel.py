# pyright: basic
"""The policy `vanilla-vllm`, compiled; twin of `vanilla_vllm.VanillaVllm.form_batch`. Arguments as in `scheduling.view`."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import batch_kernel, borrowing
from evenstep.scheduling.filling_kernel import BUDGET_LEFT, FREE, ROOM, grows, offer, open_batch
from evenstep.scheduling.preempting_kernel import answer, run_or_evict
from evenstep.scheduling.view import (
    BATCH_LIMIT,
    BLOCK_TOKENS,
    DECODING,
    KV_CAPACITY,
    LEFT,
    RUNNING,
    WAITING,
)


def scratch(running, waiting, parameters):
    """Working space: (int64, float64) words for R running and W waiting requests."""
    return ROOM, 0


@borrowing
def admit(limits, left, rows, waiting, first, R, W, decoding, watermark, picked, given):
    """The queue's first that are of this phase; whole, but for the first of a batch. How many are given now."""
    for i in range(min(W, limits[BATCH_LIMIT] - R)):
        row = waiting[first + i]
        whole = rows[LEFT, row]
        reserve = watermark if R + i > 0 else 0
        if rows[DECODING, row] != decoding or (whole > left[BUDGET_LEFT] and given > 0):
            break
        if grows(limits, rows, row, whole) > left[FREE] - reserve:
            break
        before = given
        given = offer(limits, left, rows, row, R + i, 0, picked, given)
        if given == before:
            break
    return given


@batch_kernel
def form_batch_into(
    iteration, seed, now_s, limits, running, waiting, first, counts,
    rows, arrival_s, arrived, memory, parameters, scratch_i, scratch_f, picked, evicted,
):  # fmt: skip
    left, R, W = scratch_i, counts[RUNNING], counts[WAITING]
    open_batch(limits, left, R)
    block = limits[BLOCK_TOKENS]
    watermark = np.int64(parameters[0] * (limits[KV_CAPACITY] // block)) * block
    given, kept = 0, R
    for position in range(R):
        if rows[DECODING, running[position]] == 0:
            given, kept = run_or_evict(limits, left, rows, running, kept, position, picked, given)
    if kept == R:
        given = admit(limits, left, rows, waiting, first, R, W, 0, watermark, picked, given)
    if given == 0:
        for position in range(R):
            if rows[DECODING, running[position]] == 1:
                given, kept = run_or_evict(limits, left, rows, running, kept, position, picked, given)
        if kept == R:
            given = admit(limits, left, rows, waiting, first, R, W, 1, watermark, picked, given)
    answer(counts, kept, picked, evicted, given)
    return np.inf
