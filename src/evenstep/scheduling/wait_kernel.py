# pyright: basic
"""The policy `wait`, compiled; twin of `wait.Wait.form_batch`. Arguments as in `scheduling.view`."""

from __future__ import annotations

from evenstep.compiled import batch_kernel
from evenstep.scheduling.gated_kernel import (
    EDGES,
    ENDS_AT,
    FIRST_GATE,
    GROUPS,
    NUMBERS,
    SEGMENTS,
    THRESHOLD,
    floats,
    form_gated,
    words,
)


def scratch(running, waiting, parameters):
    """Working space of the gates."""
    types = int(parameters[0])
    return words(running, types), floats(types)


@batch_kernel
def form_batch_into(
    iteration, seed, now_s, limits, running, waiting, first, counts,
    rows, arrival_s, arrived, memory, parameters, scratch_i, scratch_f, picked, evicted,
):  # fmt: skip
    types = int(parameters[0])
    scratch_i[GROUPS], scratch_i[SEGMENTS], scratch_i[EDGES], scratch_i[ENDS_AT] = types, 1, -1, 0
    for gate in range(types):
        scratch_i[FIRST_GATE + NUMBERS * gate + THRESHOLD] = int(parameters[1 + gate])
    return form_gated(
        now_s, limits, running, waiting, first, counts, rows, arrival_s, memory, parameters, parameters[1 + types],
        parameters[2 + types], 0.0, scratch_i, scratch_f, picked, evicted,
    )  # fmt: skip
