# pyright: basic
"""The policy `a-min`, compiled; twin of `a_min.AMin.form_batch`. Arguments as in `scheduling.view`."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import batch_kernel
from evenstep.scheduling.learning_kernel import form_learned
from evenstep.scheduling.reserving_kernel import LEARNED, RAISED, scratch

__all__ = ["form_batch_into", "scratch"]


@batch_kernel
def form_batch_into(
    iteration, seed, now_s, limits, running, waiting, first, counts,
    rows, arrival_s, arrived, memory, parameters, scratch_i, scratch_f, picked, evicted,
):  # fmt: skip
    belief = LEARNED if parameters[0] == 0.0 else RAISED
    victim, share = int(parameters[1]), 1.0 - parameters[2]
    form_learned(
        seed, limits, running, waiting, first, counts, rows, belief, victim, share, scratch_i, scratch_f,
        picked, evicted,
    )  # fmt: skip
    return np.inf
