# pyright: basic
"""The policy `orca`, compiled; twin of `orca.Orca.form_batch`. Arguments as in `scheduling.view`."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import batch_kernel
from evenstep.scheduling.filling_kernel import ROOM, open_batch
from evenstep.scheduling.phases_kernel import admit_first, list_phase, needed_by, run_list
from evenstep.scheduling.preempting_kernel import answer
from evenstep.scheduling.view import RUNNING, WAITING


def scratch(running, waiting, parameters):
    """Working space: (int64, float64) words for R running and W waiting requests."""
    return ROOM + running, 0


@batch_kernel
def form_batch_into(
    iteration, seed, now_s, limits, running, waiting, first, counts,
    rows, arrival_s, arrived, memory, parameters, scratch_i, scratch_f, picked, evicted,
):  # fmt: skip
    left, R, W = scratch_i, counts[RUNNING], counts[WAITING]
    open_batch(limits, left, R)
    chunks = list_phase(rows, running, R, 0, R, scratch_i, ROOM)
    end = list_phase(rows, running, R, 1, R, scratch_i, chunks)
    given, kept = run_list(limits, left, rows, running, R, scratch_i, ROOM, chunks, picked, 0)
    if kept == R:
        reserve = needed_by(limits, rows, running, kept, scratch_i, chunks, end)
        given = admit_first(limits, left, rows, waiting, first, W, R, reserve, picked, given)
    given, kept = run_list(limits, left, rows, running, kept, scratch_i, chunks, end, picked, given)
    answer(counts, kept, picked, evicted, given)
    return np.inf
