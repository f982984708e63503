# pyright: basic
"""The policy `least-attained`, compiled; twin of `least_attained.LeastAttained.form_batch`. Arguments as in
`scheduling.view`."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import batch_kernel
from evenstep.scheduling.by_key_kernel import clear, room, run_by_key
from evenstep.scheduling.order_kernel import BY_PROMPT, BY_REACHED

#: Fields of the policy.
PROMPT_WEIGHT, MAKES_ROOM, WATERMARK = range(3)


def scratch(running, waiting, parameters):
    """Working space: (int64, float64) words for R running and W waiting requests."""
    return room(running)


@batch_kernel
def form_batch_into(
    iteration, seed, now_s, limits, running, waiting, first, counts,
    rows, arrival_s, arrived, memory, parameters, scratch_i, scratch_f, picked, evicted,
):  # fmt: skip
    clear(scratch_f)
    scratch_f[BY_PROMPT] = parameters[PROMPT_WEIGHT]
    scratch_f[BY_REACHED] = 1.0
    run_by_key(
        seed, limits, running, waiting, first, counts, rows, arrival_s, parameters[MAKES_ROOM] != 0.0,
        parameters[WATERMARK], scratch_i, scratch_f, picked, evicted,
    )  # fmt: skip
    return np.inf
