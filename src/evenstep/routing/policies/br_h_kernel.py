"""Compiled twin of `br_h`."""
# pyright: basic

from __future__ import annotations

from evenstep.compiled import route_kernel
from evenstep.routing.balance_route.assign_kernel import Rule, decide, scratch_sizes


def scratch(workers, waiting, horizon, parameters):
    return scratch_sizes(workers, waiting, horizon, parameters[6])


@route_kernel
def route_into(
    decision, seed, now_s, mean_wait_s, first, waiting,
    workers_i, workers_f, waiting_i, waiting_f,
    projections, growth, cached, memory, parameters,
    scratch_i, scratch_f, worker,
):  # fmt: skip
    horizon, discount, penalty, reward = int(parameters[0]), parameters[1], parameters[2], parameters[3]
    steps = 1.0
    if parameters[4] == 0.0:
        power = 1.0
        for _ in range(horizon):
            power *= discount
            steps += power
    by_margin = parameters[8] == 1.0
    rule = Rule(
        reward * steps, penalty, parameters[5], int(parameters[6]), parameters[7] == 1.0, by_margin,
        parameters[9] == 1.0, parameters[10], False, by_margin,
    )  # fmt: skip
    decide(
        now_s, mean_wait_s, first, waiting, workers_i, workers_f, waiting_f, projections,
        horizon + 1, discount, rule, scratch_i, scratch_f, worker,
    )  # fmt: skip
    return float("nan")
