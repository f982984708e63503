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
from evenstep.request import I8
from evenstep.routing.check_views import check_views, tight_views
from evenstep.routing.doors import difference, kernel_call
from evenstep.routing.view import (
    HOLD,
    RoutingDecision,
    RoutingPolicy,
    RoutingView,
    broken_rule,
    horizon_of,
    memory_size_of,
)
from evenstep.traps import watching

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
    views = _views(policy)
    answers, said, broken = _answers(policy, views)
    findings.append(answers)
    if not answers.passed:
        return findings
    left_alone = _view_left_alone(policy)
    fresh = [views] if left_alone.passed else [_views(policy) for _ in range(3)]
    asked = _asked(policy, *fresh)
    findings += _rules(broken)
    findings.append(_work_for_idle(policy))
    findings += _outside(policy, asked)
    findings += [_deterministic(asked), left_alone, _pure_memory(asked, said), _doors_agree(policy, asked)]
    if simulate is not None and all(f.passed for f in findings):
        findings.append(_same_digest(policy, simulate))
    return findings


def _views(policy: RoutingPolicy, spare: int = 0) -> list[RoutingView]:
    return list(check_views(horizon_of(policy), memory_size_of(policy), spare=spare))


def _verdict(name: str, message: str) -> Finding:
    return Finding(name, not message, message)


def _route(policy: RoutingPolicy, view: RoutingView) -> RoutingDecision:
    return _own(policy.route(view))


def _own(decision: RoutingDecision) -> RoutingDecision:
    """The decision as own copies: a policy may hand out an array it writes again."""
    memory = None if decision.memory is None else np.array(decision.memory)
    return RoutingDecision(np.array(decision.worker), memory, decision.bound)


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """A policy's answers to each view, asked twice in a row, the last view first.

    Args:
        views: views that it has not written into.
    """

    views: list[RoutingView]
    first: list[RoutingDecision]
    again: list[RoutingDecision]


def _asked(policy: RoutingPolicy, views: list[RoutingView], *more: list[RoutingView]) -> _Asked:
    """Ask of `views`; of as many equal ones each time, where `more` are given because it writes into them."""
    one, other = more or (views, views)
    pairs = zip(reversed(one), reversed(other), strict=True)
    twice = [(_route(policy, a), _route(policy, b)) for a, b in pairs][::-1]
    return _Asked(views, [first for first, _ in twice], [again for _, again in twice])


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


def _answers(policy: RoutingPolicy, views: list[RoutingView]) -> tuple[Finding, list[RoutingDecision], list[str]]:
    """It answers every view, also an empty pool or a full fleet, with a decision. Its first imports happen here.

    Returns:
        The problems, the answers, and for each answer the rule that it breaks.
    """
    said: list[RoutingDecision] = []
    broken: list[str] = []
    for number, view in enumerate(views):
        try:
            decision: Any = policy.route(view)
        except Exception as error:
            if isinstance(error, ValueError) and "read-only" in str(error):
                message = "it writes into its view, whose arrays are read-only; copy what you count on"
                return Finding("view left alone", False, message), said, broken
            message = f"view {number}: route raises {type(error).__name__}: {error}"
            return Finding("answers", False, message), said, broken
        if not isinstance(decision, RoutingDecision):
            message = f"route answers {type(decision).__name__}; expected a RoutingDecision"
            return Finding("answers", False, message), said, broken
        broken.append(broken_rule(view, decision))
        said.append(_own(decision))
    return Finding("answers", True), said, broken


#: Check that owns a broken rule, by how `broken_rule` begins to say it.
_RULES = {"over capacity": "capacity", "unknown worker": "known workers", "memory": "pure memory"}


def _rules(rules: list[str]) -> list[Finding]:
    """Capacity, known workers, one answer a request: the contract every host holds a decision to."""
    broken = {"capacity": "", "known workers": "", "one answer a request": ""}
    for number, rule in enumerate(rules):
        if rule:
            name = next((check for start, check in _RULES.items() if rule.startswith(start)), "one answer a request")
            if not broken.get(name):
                broken[name] = f"view {number}: {rule}"
    if broken["one answer a request"]:
        broken["one answer a request"] += "; a request is assigned once, and not again"
    return [_verdict(name, message) for name, message in broken.items()]


def held_beside_idle(view: RoutingView, worker: I8) -> str:
    """Which request an answer holds though it fits a worker that runs nothing, as a sentence; empty when none.

    Such a worker has free slots, nothing runs or waits there, and the answer sends nothing there either.
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
    """It never holds what fits an idle worker: nothing there changes by itself, so it could hold for ever."""
    name = "never holds what fits an idle worker"
    for number, view in enumerate(tight_views(horizon_of(policy), memory_size_of(policy))):
        try:
            decision = _route(policy, view)
        except Exception as error:
            return Finding(name, False, f"view {number} where memory binds: {type(error).__name__}: {error}")
        if broken_rule(view, decision):  # the other checks say so
            continue
        message = held_beside_idle(view, decision.worker)
        if message:
            return Finding(name, False, f"view {number} where memory binds: {message}")
    return Finding(name, True)


def _outside(policy: RoutingPolicy, asked: _Asked) -> list[Finding]:
    """It looks at nothing but its view: no frames or objects of the host, no clock, no chance of its own, no system."""
    views, seen = _views(policy, spare=1000), dict[str, str]()
    with watching() as found:
        said = [_route(policy, view) for view in views]
    for kind, what in found:
        seen.setdefault(kind, what)
    peek = _behind_the_window(asked, said)
    if "peek" in seen:
        peek = f"it reaches outside its view: {seen['peek']}"
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


def _behind_the_window(asked: _Asked, said: list[RoutingDecision]) -> str:
    """Equal views must get equal answers, whatever surrounds their arrays."""
    for number, (view, one, other) in enumerate(zip(asked.views, asked.first, said, strict=True)):
        if difference(one, other, view.memory):
            return f"view {number}: the answer depends on what stands behind the view's arrays"
    return ""


def _deterministic(asked: _Asked) -> Finding:
    """The same view gets the same answer, at once."""
    for number, (view, one, other) in enumerate(zip(asked.views, asked.first, asked.again, strict=True)):
        differs = difference(one, other, view.memory)
        if differs:
            said = differs.replace("the kernel", "then").replace("plain route", "it first")
            return Finding("deterministic", False, f"view {number}, asked twice: {said}")
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


def _pure_memory(asked: _Asked, said: list[RoutingDecision]) -> Finding:
    """Its state goes through `memory`: the answer does not depend on earlier questions."""
    for number, (view, one, other) in enumerate(zip(asked.views, said, asked.first, strict=True)):
        if difference(one, other, view.memory):
            return Finding(
                "pure memory",
                False,
                f"view {number}: the answer depends on what was asked before; keep it in memory (memory_size)",
            )
    return Finding("pure memory", True)


def _doors_agree(policy: RoutingPolicy, asked: _Asked) -> Finding:
    """The kernel, where there is one, gives the same bits, and writes only where it may."""
    name = "doors agree"
    if compiled.kernel_of(policy) is None:
        return Finding(name, True, "no kernel: the plain door only")
    for number, (view, plain) in enumerate(zip(asked.views, asked.first, strict=True)):
        call = kernel_call(policy, view)
        assert call is not None
        differs = difference(plain, call.decision(), view.memory) or call.overrun()
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
        return Finding("same digest", False, f"plain door {digests[0][:16]}, compiled door {digests[-1][:16]}")
    return Finding("same digest", True)
