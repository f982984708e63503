"""Compiled twin of `min_min`."""
# pyright: basic

from __future__ import annotations

from evenstep.compiled import route_kernel
from evenstep.routing.completion_time_kernel import decide, scratch

__all__ = ["route_into", "scratch"]


@route_kernel
def route_into(
    decision, seed, now_s, mean_wait_s, first, waiting,
    workers_i, workers_f, waiting_i, waiting_f,
    projections, growth, cached, memory, parameters,
    scratch_i, scratch_f, worker,
):  # fmt: skip
    decide(
        now_s, mean_wait_s, first, waiting, workers_i, workers_f, waiting_f, False, parameters[0] == 1.0, parameters[1],
        scratch_i, scratch_f, worker,
    )  # fmt: skip
    return float("nan")
