# pyright: basic
"""The policy `nested-wait`, compiled; twin of `nested_wait.NestedWait.form_batch`. Arguments as in `scheduling.view`."""

from __future__ import annotations

from evenstep.compiled import batch_kernel
from evenstep.scheduling.gated_kernel import (
    EDGES,
    EDGES_AT,
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
    ends = int(parameters[0]) + 1
    gates = (int(parameters[ends]) + 1) * (int(parameters[ends + 1 + int(parameters[ends])]) + 1)
    return words(running, gates), floats(gates)


@batch_kernel
def form_batch_into(
    iteration, seed, now_s, limits, running, waiting, first, counts,
    rows, arrival_s, arrived, memory, parameters, scratch_i, scratch_f, picked, evicted,
):  # fmt: skip
    given = int(parameters[0])
    ends = 1 + given
    edges = ends + 1 + int(parameters[ends])
    scratch_i[SEGMENTS], scratch_i[ENDS_AT] = int(parameters[ends]) + 1, ends + 1
    scratch_i[EDGES], scratch_i[EDGES_AT] = int(parameters[edges]), edges + 1
    scratch_i[GROUPS] = scratch_i[EDGES] + 1
    for gate in range(scratch_i[GROUPS] * scratch_i[SEGMENTS]):
        scratch_i[FIRST_GATE + NUMBERS * gate + THRESHOLD] = int(parameters[1 + gate % given])
    rest = edges + 1 + scratch_i[EDGES]
    return form_gated(
        now_s, limits, running, waiting, first, counts, rows, arrival_s, memory, parameters, parameters[rest],
        parameters[rest + 1], parameters[rest + 2], scratch_i, scratch_f, picked, evicted,
    )  # fmt: skip
