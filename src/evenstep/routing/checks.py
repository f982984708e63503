"""The checks of a routing policy, each with a name. `evenstep policy check` and the tests run the same checks."""

from __future__ import annotations

import numpy as np

from evenstep import policy_checks as common
from evenstep.policy_checks import Finding, Judged, Simulate
from evenstep.request import I8
from evenstep.routing.check_views import check_views, tight_views
from evenstep.routing.doors import difference, kernel_call
from evenstep.routing.view import HOLD, RoutingDecision, RoutingPolicy, RoutingView, broken_rule, horizon_of, memory_size_of

#: Check that owns a broken rule, by how `broken_rule` begins to say it.
_RULES = {"over capacity": "capacity", "unknown worker": "known workers", "memory": "pure memory"}
_ONCE = "one answer a request"


def check(policy: RoutingPolicy, simulate: Simulate | None = None) -> list[Finding]:
    """Check a policy; return one finding for each check that ran, passed or failed, in a fixed order.

    A policy that raises, or does not answer with a `RoutingDecision`, fails ``answers``; one that writes into its view fails
    ``view left alone``. All later checks are then left out.

    Args:
        simulate: ``(policy, door) -> digest``, makes a short run through the door ``plain`` or ``compiled``. The check
            ``same digest`` needs it. That check is left out if this is None or another check failed.
    """
    judged = Judged(
        policy,
        "route",
        RoutingDecision,
        lambda spare: list(check_views(horizon_of(policy), memory_size_of(policy), spare=spare)),
        _own,
        lambda one, other, view: difference(one, other, view.memory),
        kernel_call,
    )

    def contract(said: list[RoutingDecision]) -> list[Finding]:
        broken = [broken_rule(view, one) for view, one in zip(judged.views(0), said, strict=True)]
        return [*_rules(broken), _work_for_idle(policy)]

    return common.run(judged, None, contract, simulate)


def _own(decision: RoutingDecision) -> RoutingDecision:
    """Copy a decision, so that a policy that reuses its arrays does not change it later."""
    memory = None if decision.memory is None else np.array(decision.memory)
    return RoutingDecision(np.array(decision.worker), memory, decision.bound)


def _rules(rules: list[str]) -> list[Finding]:
    """Return the findings of ``capacity``, ``known workers`` and ``one answer a request``.

    `rules` has, for each view, the sentence of `broken_rule` on the policy's answer; it is empty if no rule is broken.
    """

    def owner(rule: str) -> str:
        return next((check for start, check in _RULES.items() if rule.startswith(start)), _ONCE)

    broken = common.broken_rules(("capacity", "known workers", _ONCE), rules, owner)
    if broken[_ONCE]:
        broken[_ONCE] += "; a request is assigned once, and not again"
    return [common.verdict(name, message) for name, message in broken.items()]


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
    """Check on `tight_views` that a policy holds no request that fits an idle worker. Broken rules are skipped."""
    name = "never holds what fits an idle worker"
    for number, view in enumerate(tight_views(horizon_of(policy), memory_size_of(policy))):
        try:
            decision = _own(policy.route(view))
        except Exception as error:
            return Finding(name, False, f"view {number} where memory binds: {type(error).__name__}: {error}")
        if broken_rule(view, decision):  # the other checks say so
            continue
        message = held_beside_idle(view, decision.worker)
        if message:
            return Finding(name, False, f"view {number} where memory binds: {message}")
    return Finding(name, True)
