# pyright: basic
"""The policy `alpha-switch`, compiled; twin of `alpha_switch.AlphaSwitch.form_batch`. Arguments as in `scheduling.view`."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import batch_kernel
from evenstep.scheduling.alpha_switch import THRESHOLD
from evenstep.scheduling.learning_kernel import BOUND, form_learned
from evenstep.scheduling.reserving_kernel import LEARNED, LOWEST_THEN_HIGHEST, form_reserved, scratch

__all__ = ["form_batch_into", "scratch"]


@batch_kernel
def form_batch_into(
    iteration, seed, now_s, limits, running, waiting, first, counts,
    rows, arrival_s, arrived, memory, parameters, scratch_i, scratch_f, picked, evicted,
):  # fmt: skip
    if parameters[0] < THRESHOLD:
        form_reserved(
            limits, running, waiting, first, counts, rows, LOWEST_THEN_HIGHEST, 1.0, scratch_i, scratch_f, picked,
            evicted,
        )  # fmt: skip
    else:
        form_learned(
            seed, limits, running, waiting, first, counts, rows, LEARNED, BOUND, 1.0, scratch_i, scratch_f, picked,
            evicted,
        )  # fmt: skip
    return np.inf
