# pyright: basic
"""The policy `a-random`, compiled; twin of `a_random.ARandom.form_batch`. Arguments as in `scheduling.view`."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import batch_kernel
from evenstep.scheduling.reserving_kernel import HIGHEST, form_reserved, scratch

__all__ = ["form_batch_into", "scratch"]


@batch_kernel
def form_batch_into(
    iteration, seed, now_s, limits, running, waiting, first, counts,
    rows, arrival_s, arrived, memory, parameters, scratch_i, scratch_f, picked, evicted,
):  # fmt: skip
    form_reserved(
        limits,
        running,
        waiting,
        first,
        counts,
        rows,
        HIGHEST,
        parameters[0],
        scratch_i,
        scratch_f,
        picked,
        evicted,
    )
    return np.inf
