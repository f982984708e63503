"""The checks of a routing policy, each with a name. `evenstep policy check` and the tests run the same checks."""

from __future__ import annotations

import numpy as np

from evenstep import compiled
from evenstep import policy_checks as common
from evenstep.policy_checks import Finding, Judged, Simulate
from evenstep.policy_rules import KernelCall
from evenstep.request import I8
from evenstep.routing.check_views import check_views, tight_views
from evenstep.routing.rules import call_of
from evenstep.routing.view import (
    HOLD,
    RoutingDecision,
    RoutingPolicy,
    RoutingView,
    broken_rule,
    horizon_of,
    memory_size_of,
    plain_only,
)

#: Check that owns a broken rule, by how `broken_rule` begins to say it.
_RULES = {"over capacity": "capacity", "unknown worker": "known workers", "memory": "pure memory"}
_ONCE = "one answer a request"


def check(policy: RoutingPolicy, simulate: Simulate | None = None) -> list[Finding]:
    """Check a policy; return one finding for each check that ran, passed or failed, in a fixed order.

    A policy that raises, or does not answer with a `RoutingDecision` of arrays, fails ``answers``; if it raises because it
    wrote into a read-only array, it fails ``view left alone``. All later checks are then left out.

    Args:
        simulate: ``(policy, door) -> digest``, makes a short run through the door ``plain`` or ``compiled``. The check
            ``same digest`` needs it. That check is left out if this is None or another check failed.
    """
    judged = Judged(
        policy,
        "route",
        RoutingDecision,
        lambda spare: list(check_views(horizon_of(policy), memory_size_of(policy), spare=spare)),
        lambda one, other, view: difference(one, other, view.memory),
        kernel_call,
    )

    def contract(said: list[RoutingDecision]) -> list[Finding]:
        broken = [broken_rule(view, one) for view, one in zip(judged.views(0), said, strict=True)]
        found = common.broken_rules(("capacity", "known workers", _ONCE), broken, _owner)
        if found[_ONCE]:
            found[_ONCE] += "; a request is assigned once, and not again"
        return [*(common.verdict(*one) for one in found.items()), _work_for_idle(policy)]

    return common.run(judged, None, contract, simulate)


def kernel_call(policy: RoutingPolicy, view: RoutingView) -> KernelCall | None:
    """Prepare a policy's decision on a view through its compiled rule; call `decision` of the result to make it.

    Returns None if the policy is `plain_only`, or its class has no rule in its own file (an inherited rule does not count).
    """
    door = None if plain_only(policy) else compiled.kernel_of(policy)
    return None if door is None else call_of(door, policy, view)


def difference(plain: RoutingDecision, kernel: RoutingDecision, memory: I8) -> str:
    """Describe the first difference of two decisions on one view, in workers, memory or bound; empty if they are equal.

    Numbers must be exactly equal, except that a bound of nan equals nan. The view's `memory`, int64[M], stands for that of a
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


def _owner(rule: str) -> str:
    """The name of the check that a sentence of `broken_rule` belongs to."""
    return next((check for start, check in _RULES.items() if rule.startswith(start)), _ONCE)


def held_beside_idle(view: RoutingView, worker: I8) -> str:
    """Describe a request that an answer holds although it fits an idle worker; empty if there is no such request.

    An idle worker has free slots and no running or queued request, and the answer sends it nothing. A request fits if its
    load at admission is at most the worker's `kv_free`. `worker`, int64[W], is the answer.
    """
    is_idle = (view.running == 0) & (view.queued == 0) & (view.free_slots > 0)
    is_idle[worker[worker != HOLD]] = False
    for g in np.flatnonzero(is_idle).tolist():
        held = np.flatnonzero((worker == HOLD) & (view.waiting_load <= view.kv_free[g]))
        if held.size:
            tokens, room = view.waiting_load[held[0]], view.kv_free[g]
            return f"it holds request {held[0]} of {tokens:g} tokens, and worker {g} runs nothing and has {room:g} free"
    return ""


def _work_for_idle(policy: RoutingPolicy) -> Finding:
    """Check on `tight_views` that a policy never raises, nor holds what fits an idle worker; skips broken rules."""
    name = "never holds what fits an idle worker"
    for number, view in enumerate(tight_views(horizon_of(policy), memory_size_of(policy))):
        try:
            decision = policy.route(view)
        except Exception as error:
            return Finding(name, False, f"view {number} where memory binds: {type(error).__name__}: {error}")
        if broken_rule(view, decision):  # the other checks say so
            continue
        message = held_beside_idle(view, decision.worker)
        if message:
            return Finding(name, False, f"view {number} where memory binds: {message}")
    return Finding(name, True)
