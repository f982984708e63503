"""A kernel for policies without a compiled rule: the compiled loop calls it, and it asks the policy in Python."""

from __future__ import annotations

from typing import Any

from evenstep.compiled import route_kernel
from evenstep.sim.asking import question

#: `answering(answer, stop)` sets ``answer(decision, now_s, mean_wait_s, first, waiting)``, which writes the answer for the
#: loop and returns its bound.
_ask, answering = question("evenstep_ask_policy", int, float, float, int, int)


@route_kernel
def route_into(
    decision: Any,
    seed: Any,
    now_s: Any,
    mean_wait_s: Any,
    first: Any,
    waiting: Any,
    workers_i: Any,
    workers_f: Any,
    waiting_i: Any,
    waiting_f: Any,
    projections: Any,
    growth: Any,
    cached: Any,
    memory: Any,
    parameters: Any,
    scratch_i: Any,
    scratch_f: Any,
    worker: Any,
) -> float:
    """Call the Python function set by `answering`, which writes the policy's answer for the loop, and return its result.

    The result is the policy's certified lower bound on its objective, nan without one; 0 after an error or in a network. The
    arguments are those of every policy's kernel (`routing.view`). Only `decision`, `now_s`, `mean_wait_s`, `first` and
    `waiting` are passed on.
    """
    return _ask(decision, now_s, mean_wait_s, first, waiting)
