# pyright: basic
"""The policy `wait`, compiled; twin of `wait.Wait.form_batch`. Arguments as in `scheduling.view`."""

from __future__ import annotations

from evenstep.compiled import batch_kernel
from evenstep.scheduling.gated_kernel import (
    EDGES,
    FIRST_GATE,
    GROUPS,
    NUMBERS,
    SEGMENTS,
    THRESHOLD,
    form_gated,
    words,
)


def scratch(running, waiting, parameters):
    """Working space of the gates."""
    types = int(parameters[0])
    return words(running, types), types


@batch_kernel
def form_batch_into(
    iteration, seed, now_s, limits, running, waiting, first, counts,
    rows, arrival_s, arrived, memory, parameters, scratch_i, scratch_f, picked, evicted,
):  # fmt: skip
    types = int(parameters[0])
    scratch_i[GROUPS], scratch_i[SEGMENTS], scratch_i[EDGES] = types, 1, -1
    for gate in range(types):
        scratch_i[FIRST_GATE + NUMBERS * gate + THRESHOLD] = int(parameters[1 + gate])
    return form_gated(
        now_s, limits, running, waiting, first, counts, rows, arrival_s, memory, parameters, parameters[1 + types],
        scratch_i, scratch_f, picked, evicted,
    )  # fmt: skip
