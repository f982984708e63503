"""The kernel of `doors_differ`, which runs nobody."""

from __future__ import annotations

from evenstep.compiled import batch_kernel
from evenstep.scheduling.view import EVICTED, PICKED


@batch_kernel
def form_batch_into(
    iteration,
    seed,
    now_s,
    limits,
    running,
    waiting,
    first,
    counts,
    rows,
    arrival_s,
    arrived,
    memory,
    parameters,
    scratch_i,
    scratch_f,
    picked,
    evicted,
):
    counts[PICKED], counts[EVICTED] = 0, 0
    return float("inf")
