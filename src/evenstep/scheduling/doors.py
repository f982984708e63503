"""Makes one decision through a policy's compiled rule and its plain one, to compare them.

Hosts keep their arrays in the kernel's layout and call it themselves; this is for checks and tests.
"""

from __future__ import annotations

import numpy as np

from evenstep import compiled
from evenstep.policy_rules import KernelCall
from evenstep.scheduling.rules import call_of
from evenstep.scheduling.view import BatchDecision, EngineView, SchedulingPolicy


def kernel_call(policy: SchedulingPolicy, view: EngineView) -> KernelCall | None:
    """The call that makes this decision through the compiled rule; None if the policy has no compiled rule."""
    door = compiled.kernel_of(policy)
    return None if door is None else call_of(door, policy, view)


def difference(plain: BatchDecision, kernel: BatchDecision) -> str:
    """The difference of two decisions on one view, as a sentence; empty if they are equal in bits."""
    for name in ("tokens", "evict", "memory"):
        one, other = getattr(plain, name), getattr(kernel, name)
        if one.shape != other.shape:
            return f"{name}: plain form_batch answers shape {one.shape}, the kernel {other.shape}"
        if not np.array_equal(one, other):
            k = int(np.argmax(one != other))
            return f"{name} of {k}: plain form_batch answers {one[k]}, the kernel {other[k]}"
    if plain.wake_s != kernel.wake_s:
        return f"wake_s: plain form_batch answers {plain.wake_s!r}, the kernel {kernel.wake_s!r}"
    return ""
