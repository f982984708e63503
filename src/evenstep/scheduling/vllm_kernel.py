# pyright: basic
"""The policy `vllm`, compiled; twin of `vllm.Vllm.form_batch`. Arguments as in `scheduling.view`."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import batch_kernel
from evenstep.scheduling.filling_kernel import FREE, ROOM, give, grows, most, open_batch
from evenstep.scheduling.preempting_kernel import answer, run_or_evict
from evenstep.scheduling.view import (
    BATCH_LIMIT,
    BLOCK_TOKENS,
    KV_CAPACITY,
    LEFT,
    RUNNING,
    UNLIMITED,
    WAITING,
)

#: Fields of the policy.
WATERMARK, RESERVE_FULL_PROMPT, CHUNK = range(3)


def scratch(running, waiting, parameters):
    """Working space: (int64, float64) words for R running and W waiting requests."""
    return ROOM, 0


@batch_kernel
def form_batch_into(
    iteration, seed, now_s, limits, running, waiting, first, counts,
    rows, arrival_s, arrived, memory, parameters, scratch_i, scratch_f, picked, evicted,
):  # fmt: skip
    left, R, W = scratch_i, counts[RUNNING], counts[WAITING]
    open_batch(limits, left, R)
    chunk = int(parameters[CHUNK])
    if R + W <= 1 or chunk == 0:
        chunk = UNLIMITED
    given, kept = 0, R
    for position in range(R):
        given, kept = run_or_evict(limits, left, rows, running, kept, position, picked, given, chunk)
    if kept == R:
        block = limits[BLOCK_TOKENS]
        watermark = np.int64(parameters[WATERMARK] * (limits[KV_CAPACITY] // block)) * block
        for i in range(min(W, limits[BATCH_LIMIT] - R)):
            row = waiting[first + i]
            tokens = min(most(left, rows, row), chunk)
            whole = rows[LEFT, row] if parameters[RESERVE_FULL_PROMPT] != 0.0 else tokens
            reserve = watermark if R + i > 0 else 0
            if tokens < 1 or grows(limits, rows, row, whole) > left[FREE] - reserve:
                break
            given = give(limits, left, rows, row, tokens, R + i, picked, given)
    answer(counts, kept, picked, evicted, given)
    return np.inf
