"""A kernel for policies without a compiled rule: the compiled loop calls it, and it asks the policy in Python."""

from __future__ import annotations

from typing import Any

from evenstep.compiled import batch_kernel
from evenstep.sim.asking import question

#: `answering(answer)` sets ``answer(iteration, now_s)``, which writes the batch for the loop and returns `wake_s`.
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
    """Call the function set by `answering` with `iteration` and `now_s`: it writes the batch and gives `wake_s`, seconds."""
    return _ask(iteration, now_s)
