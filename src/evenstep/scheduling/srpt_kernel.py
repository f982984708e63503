# pyright: basic
"""The policy `srpt`, compiled; twin of `srpt.Srpt.form_batch`. Arguments as in `scheduling.view`."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import batch_kernel
from evenstep.scheduling.by_key_kernel import clear, room, run_by_key
from evenstep.scheduling.order_kernel import BY_HIGH, BY_LOW, BY_PRODUCED

#: Fields of the policy.
STATISTIC, MAKES_ROOM, WATERMARK = range(3)


def scratch(running, waiting, parameters):
    """Working space: (int64, float64) words for R running and W waiting requests."""
    return room(running)


@batch_kernel
def form_batch_into(
    iteration, seed, now_s, limits, running, waiting, first, counts,
    rows, arrival_s, arrived, memory, parameters, scratch_i, scratch_f, picked, evicted,
):  # fmt: skip
    clear(scratch_f)
    scratch_f[BY_LOW] = 1.0 - parameters[STATISTIC] / 2.0
    scratch_f[BY_HIGH] = parameters[STATISTIC] / 2.0
    scratch_f[BY_PRODUCED] = -1.0
    run_by_key(
        seed, limits, running, waiting, first, counts, rows, arrival_s, parameters[MAKES_ROOM] != 0.0,
        parameters[WATERMARK], scratch_i, scratch_f, picked, evicted,
    )  # fmt: skip
    return np.inf
