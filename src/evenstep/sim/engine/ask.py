"""A kernel for policies without a compiled rule: the compiled loop calls it, and it asks the policy in Python.

A file of its own, because most runs do not need it.
"""

from __future__ import annotations

from typing import Any

from evenstep.compiled import batch_kernel
from evenstep.sim.asking import question

#: Answers to `answering`: ``answer(iteration, now_s)`` writes where the loop reads, and returns the policy's `wake_s`.
_ask, answering = question("evenstep_ask_batch_policy", "float64(int64, float64)")


@batch_kernel
def form_batch_into(
    iteration: Any,
    seed: Any,
    now_s: Any,
    limits: Any,
    running: Any,
    waiting: Any,
    first: Any,
    counts: Any,
    rows: Any,
    arrival_s: Any,
    arrived: Any,
    memory: Any,
    parameters: Any,
    scratch_i: Any,
    scratch_f: Any,
    picked: Any,
    evicted: Any,
) -> float:
    """Ask `answering`'s function, which writes the answer; returns its `wake_s`. For arguments see `scheduling.view`."""
    return _ask(iteration, now_s)
