"""Makes a policy's decision through its compiled rule, and compares two decisions. For checks, tests and benchmarks only."""

from __future__ import annotations

import numpy as np

from evenstep import compiled
from evenstep.policy_rules import KernelCall
from evenstep.request import I8
from evenstep.routing.rules import call_of
from evenstep.routing.view import RoutingDecision, RoutingPolicy, RoutingView, plain_only


def kernel_call(policy: RoutingPolicy, view: RoutingView) -> KernelCall | None:
    """Prepare a policy's decision on a view through its compiled rule; call `decision` of the result to make it.

    Returns None if the policy is `plain_only`, or its class has no rule in its own file (an inherited rule does not count).
    """
    door = None if plain_only(policy) else compiled.kernel_of(policy)
    return None if door is None else call_of(door, policy, view)


def difference(plain: RoutingDecision, kernel: RoutingDecision, memory: I8) -> str:
    """Describe the first difference of two decisions on one view, in workers, memory or bound; empty if they are equal.

    Numbers must be equal in bits, except that a bound of nan equals nan. The view's `memory`, int64[M], stands for that of a
    decision whose `memory` is None.
    """
    if not np.array_equal(plain.worker, kernel.worker):
        if plain.worker.shape != kernel.worker.shape:
            return f"plain route answers shape {plain.worker.shape}, the kernel {kernel.worker.shape}"
        i = int(np.argmax(plain.worker != kernel.worker))
        return f"waiting request {i}: plain route answers {plain.worker[i]}, the kernel {kernel.worker[i]}"
    kept, other = (memory if d.memory is None else d.memory for d in (plain, kernel))
    if not np.array_equal(kept, other):
        return f"memory: plain route keeps {kept.tolist()}, the kernel {other.tolist()}"
    if not np.array_equal(plain.bound, kernel.bound, equal_nan=True):
        return f"bound: plain route answers {plain.bound!r}, the kernel {kernel.bound!r}"
    return ""
