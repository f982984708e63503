"""The promises of an engine scheduling policy as named checks, for `evenstep policy check --kind scheduling`."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep import compiled
from evenstep import policy_checks as common
from evenstep.errors import InputError
from evenstep.policy_checks import Finding, Judged, Simulate
from evenstep.policy_rules import KernelCall
from evenstep.scheduling.check_views import check_views
from evenstep.scheduling.order import QueueOrder, order_of
from evenstep.scheduling.rules import call_of
from evenstep.scheduling.view import BatchDecision, EngineView, SchedulingPolicy, broken_rule

#: Words in a sentence of `broken_rule` -> the check that it belongs to.
_RULES = {
    "of a budget": "token budget",
    "the limit is": "batch limit",
    "resident_limit": "resident limit",
    "the memory holds": "memory",
    "evicted": "evictions",
    "words": "pure memory",
}
_NAMES = ("token budget", "batch limit", "resident limit", "memory", "evictions", "tokens left")


def check(policy: SchedulingPolicy, simulate: Simulate | None = None) -> list[Finding]:
    """Run the checks on a policy; returns a finding for each one made, passed or failed.

    A policy that raises, or does not answer with a `BatchDecision`, fails ``answers``; checks that need its answers are then
    left out. ``simulate(policy, "plain" or "compiled")`` makes a short run through that door and returns its digest. The
    check ``same digest`` repeats the plain run, and adds a compiled one only if the policy has a rule. It is left out if
    `simulate` is None or another check failed.
    """
    memory = int(getattr(policy, "memory_size", 0))
    judged = Judged(
        policy,
        "form_batch",
        BatchDecision,
        lambda spare: list(check_views(order_of(policy), memory, spare=spare)),
        lambda one, other, view: difference(one, other),
        kernel_call,
    )

    def contract(said: list[BatchDecision]) -> list[Finding]:
        broken = [broken_rule(view, one, memory) for view, one in zip(judged.views(0), said, strict=True)]
        return [common.verdict(*one) for one in common.broken_rules(_NAMES, broken, _owner).items()]

    return common.run(judged, _order(policy), contract, simulate)


def kernel_call(policy: SchedulingPolicy, view: EngineView) -> KernelCall | None:
    """Prepare the call that decides on this view through the policy's compiled function; None if its file has no rule."""
    door = compiled.kernel_of(policy)
    return None if door is None else call_of(door, policy, view)


def difference(plain: BatchDecision, kernel: BatchDecision) -> str:
    """The first difference between two decisions on one view, as a sentence; empty if all values are equal."""
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


def _owner(rule: str) -> str:
    """The name of the check that a sentence of `broken_rule` belongs to."""
    return next((check for words, check in _RULES.items() if words in rule), "tokens left")


def _order(policy: SchedulingPolicy) -> Finding:
    """The finding of the check ``queue order``: passed if the policy's `order` is a `QueueOrder` or left out."""
    try:
        order: Any = order_of(policy)
    except InputError as error:
        return Finding("queue order", False, str(error))
    text = "" if isinstance(order, QueueOrder) else f"order is {order!r}; expected a QueueOrder"
    return common.verdict("queue order", text)
