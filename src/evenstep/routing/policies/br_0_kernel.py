"""Compiled twin of `br_0`."""
# pyright: basic

from __future__ import annotations

from evenstep.compiled import route_kernel
from evenstep.routing.balance_route.assign_kernel import Rule, decide, scratch_sizes


def scratch(workers, waiting, horizon, parameters):
    return scratch_sizes(workers, waiting, 0, parameters[6])


@route_kernel
def route_into(
    decision, seed, now_s, mean_wait_s, first, waiting,
    workers_i, workers_f, waiting_i, waiting_f,
    projections, growth, cached, memory, parameters,
    scratch_i, scratch_f, worker,
):  # fmt: skip
    by_margin, bypass = parameters[8] == 1.0, parameters[11] == 1.0
    ties_by_margin = parameters[12] == 0.0 if bypass else by_margin
    rule = Rule(
        parameters[3], parameters[2], parameters[5], int(parameters[6]), parameters[7] == 1.0, by_margin,
        parameters[9] == 1.0, parameters[10], bypass, ties_by_margin,
    )  # fmt: skip
    decide(
        now_s, mean_wait_s, first, waiting, workers_i, workers_f, waiting_f, projections,
        1, 1.0, rule, scratch_i, scratch_f, worker,
    )  # fmt: skip
    return float("nan")
