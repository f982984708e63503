"""The promises of a routing policy, each a named check: `evenstep policy check` and the tests run the same."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenstep import compiled
from evenstep.errors import PolicyError
from evenstep.routing.check_views import check_views
from evenstep.routing.doors import difference, kernel_call
from evenstep.routing.traps import watching
from evenstep.routing.view import (
    RoutingDecision,
    RoutingPolicy,
    RoutingView,
    broken_rule,
    horizon_of,
    memory_size_of,
)

#: Digest of a short run of the policy through the door ``plain`` or ``compiled``.
Simulate = Callable[[RoutingPolicy, str], str]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found; `message` is a sentence, empty when there is nothing to say."""

    name: str
    passed: bool
    message: str = ""


def check(policy: RoutingPolicy, simulate: Simulate | None = None) -> list[Finding]:
    """Run every check on a policy.

    A policy that raises, or does not answer with a `RoutingDecision`, fails ``answers``; the checks that need its
    answers are then left out.

    Args:
        simulate: makes a short run through a named door and returns its digest; None leaves ``same digest`` out.
    """
    findings = [_frozen(policy)]
    answers = _answers(policy)
    findings.append(answers)
    if not answers.passed:
        return findings
    findings += _rules(policy)
    findings += _outside(policy)
    findings += [_deterministic(policy), _view_left_alone(policy), _pure_memory(policy), _doors_agree(policy)]
    if simulate is not None and all(f.passed for f in findings):
        findings.append(_same_digest(policy, simulate))
    return findings


def _views(policy: RoutingPolicy, spare: int = 0) -> list[RoutingView]:
    return list(check_views(horizon_of(policy), memory_size_of(policy), spare=spare))


def _verdict(name: str, message: str) -> Finding:
    return Finding(name, not message, message)


def _route(policy: RoutingPolicy, view: RoutingView) -> RoutingDecision:
    """The policy's answer, as own copies: a policy may hand out an array it writes again."""
    decision = policy.route(view)
    memory = None if decision.memory is None else np.array(decision.memory)
    return RoutingDecision(np.array(decision.worker), memory, decision.bound)


def _frozen(policy: RoutingPolicy) -> Finding:
    """Its fields are its parameters, and stay as they are."""
    parameters: Any = getattr(type(policy), "__dataclass_params__", None)
    if parameters is not None and parameters.frozen:
        return Finding("frozen", True)
    return Finding(
        "frozen",
        False,
        f"{type(policy).__name__} is no frozen dataclass; write @dataclass(frozen=True) above it",
    )


def _answers(policy: RoutingPolicy) -> Finding:
    """It answers every view, also an empty pool or a full fleet, with a decision. Its first imports happen here."""
    for number, view in enumerate(_views(policy)):
        try:
            decision: Any = policy.route(view)
        except Exception as error:
            if isinstance(error, ValueError) and "read-only" in str(error):
                return Finding(
                    "view left alone",
                    False,
                    "it writes into its view, whose arrays are read-only; copy what you count on",
                )
            return Finding("answers", False, f"view {number}: route raises {type(error).__name__}: {error}")
        if not isinstance(decision, RoutingDecision):
            return Finding(
                "answers", False, f"route answers {type(decision).__name__}; expected a RoutingDecision"
            )
    return Finding("answers", True)


#: Check that owns a broken rule, by how `broken_rule` begins to say it.
_RULES = {"over capacity": "capacity", "unknown worker": "known workers", "memory": "pure memory"}


def _rules(policy: RoutingPolicy) -> list[Finding]:
    """Capacity, known workers, one answer a request: the contract every host holds a decision to."""
    broken = {"capacity": "", "known workers": "", "one answer a request": ""}
    for number, view in enumerate(_views(policy)):
        rule = broken_rule(view, policy.route(view))
        if rule:
            name = next(
                (check for start, check in _RULES.items() if rule.startswith(start)), "one answer a request"
            )
            if not broken.get(name):
                broken[name] = f"view {number}: {rule}"
    if broken["one answer a request"]:
        broken["one answer a request"] += "; a request is assigned once, and not again"
    return [_verdict(name, message) for name, message in broken.items()]


def _outside(policy: RoutingPolicy) -> list[Finding]:
    """It looks at nothing but its view: no frames or objects of the host, no clock, no chance of its own, no system."""
    views, seen = _views(policy), dict[str, str]()
    with watching() as found:
        for view in views:
            policy.route(view)
    for kind, what in found:
        seen.setdefault(kind, what)
    peek = f"it reaches outside its view: {seen['peek']}" if "peek" in seen else _behind_the_window(policy)
    clock = f"it reads a clock: {seen['clock']}; the view has now_s" if "clock" in seen else ""
    chance = ""
    if "chance" in seen:
        chance = f"it draws from {seen['chance']}; use streams.uniform(view.seed, name, request_id)"
    system = f"it calls the system: {seen['system']}" if "system" in seen else ""
    return [
        _verdict("no peeking", peek),
        _verdict("no clock", clock),
        _verdict("no chance of its own", chance),
        _verdict("no system calls", system),
    ]


def _behind_the_window(policy: RoutingPolicy) -> str:
    """Equal views with different arrays behind them must get equal answers."""
    for number, (one, other) in enumerate(
        zip(_views(policy, spare=0), _views(policy, spare=1000), strict=True)
    ):
        if _said(policy, one, other):
            return f"view {number}: the answer depends on what stands behind the view's arrays"
    return ""


def _said(policy: RoutingPolicy, one: RoutingView, other: RoutingView) -> str:
    """Where the answers to two equal views differ."""
    return difference(_route(policy, one), _route(policy, other), one.memory).replace("the kernel", "then")


def _deterministic(policy: RoutingPolicy) -> Finding:
    """The same view gets the same answer, at once."""
    for number, view in enumerate(_views(policy)):
        differs = _said(policy, view, view)
        if differs:
            return Finding(
                "deterministic",
                False,
                f"view {number}, asked twice: {differs.replace('plain route', 'it first')}",
            )
    return Finding("deterministic", True)


def _view_left_alone(policy: RoutingPolicy) -> Finding:
    """Nothing in the view changes: no value, no array taken off its read-only lock, no field replaced."""
    name = "view left alone"
    for number, view in enumerate(_views(policy)):
        fields = {f.name: getattr(view, f.name) for f in dataclasses.fields(view)}
        before = copy.deepcopy(fields)
        policy.route(view)
        for field, value in fields.items():
            if getattr(view, field) is not value:
                return Finding(name, False, f"view {number}: route replaces {field}")
            if isinstance(value, np.ndarray):
                if value.flags.writeable:
                    return Finding(name, False, f"view {number}: route takes the lock off {field}")
                if not np.array_equal(value, before[field], equal_nan=value.dtype.kind == "f"):
                    return Finding(name, False, f"view {number}: route changes {field}")
    return Finding(name, True)


def _pure_memory(policy: RoutingPolicy) -> Finding:
    """What it remembers goes through `memory`: the answer does not depend on what was asked before."""
    views = _views(policy)
    forward = [_route(policy, view) for view in views]
    backward = [_route(policy, view) for view in reversed(views)][::-1]
    for number, (view, one, other) in enumerate(zip(views, forward, backward, strict=True)):
        if difference(one, other, view.memory):
            return Finding(
                "pure memory", False,
                f"view {number}: the answer depends on what was asked before; keep it in memory (memory_size)",
            )  # fmt: skip
    return Finding("pure memory", True)


def _doors_agree(policy: RoutingPolicy) -> Finding:
    """The kernel, where there is one, gives the same bits, and writes only where it may."""
    name = "doors agree"
    if compiled.kernel_of(policy) is None:
        return Finding(name, True, "no kernel: the plain door only")
    for number, view in enumerate(_views(policy)):
        call = kernel_call(policy, view)
        assert call is not None
        differs = difference(_route(policy, view), call.decision(), view.memory) or call.overrun()
        if differs:
            return Finding(name, False, f"view {number}: {differs}")
    return Finding(name, True)


def _same_digest(policy: RoutingPolicy, simulate: Simulate) -> Finding:
    """A short run has one digest: again, and through the other door."""
    doors = ["plain", "plain"] + ["compiled"] * (compiled.kernel_of(policy) is not None)
    try:
        digests = [simulate(policy, door) for door in doors]
    except PolicyError as error:
        return Finding("same digest", False, f"a short run fails: {error}")
    if digests[0] != digests[1]:
        return Finding("same digest", False, f"two equal runs: {digests[0][:16]} and {digests[1][:16]}")
    if digests[-1] != digests[0]:
        return Finding(
            "same digest", False, f"plain door {digests[0][:16]}, compiled door {digests[-1][:16]}"
        )
    return Finding("same digest", True)
