# pyright: basic
"""The policy `sarathi`, compiled; twin of `sarathi.Sarathi.form_batch`. Arguments as in `scheduling.view`."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import batch_kernel
from evenstep.scheduling.filling_kernel import ROOM, admit, open_batch
from evenstep.scheduling.preempting_kernel import answer, run_or_evict
from evenstep.scheduling.view import DECODING, RUNNING, WAITING


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
    given, kept, chunks = 0, R, 0
    for position in range(R):
        if rows[DECODING, running[position]] == 1:
            given, kept = run_or_evict(limits, left, rows, running, kept, position, picked, given)
        else:
            chunks += 1
    if chunks > 0:
        for position in range(R):
            if rows[DECODING, running[position]] == 0:
                given, kept = run_or_evict(limits, left, rows, running, kept, position, picked, given)
    if kept == R:
        for i in range(W):
            before = given
            given = admit(limits, left, rows, waiting[first + i], R + i, 0, picked, given)
            if given == before:
                break
    answer(counts, kept, picked, evicted, given)
    return np.inf
