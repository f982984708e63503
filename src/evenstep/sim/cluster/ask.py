"""A kernel for policies without a compiled rule: the compiled loop calls it, and it asks the policy in Python.

A file of its own, because most runs do not need it.
"""

from __future__ import annotations

from typing import Any

from evenstep.compiled import route_kernel
from evenstep.sim.asking import question

#: Answers to `answering`: ``answer(decision, now_s, mean_wait_s, first, waiting)`` writes where the loop reads, and returns
#: its bound.
_ask, answering = question("evenstep_ask_policy", "float64(int64, float64, float64, int64, int64)")


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
    """Ask the function that `answering` installed in this thread, which writes the answer itself. Returns its bound.

    The arguments are those of every policy's kernel (`routing.view`). Only `decision`, `now_s`, `mean_wait_s`, `first` and
    `waiting` are passed on.
    """
    return _ask(decision, now_s, mean_wait_s, first, waiting)
