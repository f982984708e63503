"""The promises of an engine scheduling policy, each a named check: `evenstep policy check --kind scheduling` runs them."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenstep import compiled
from evenstep.errors import InputError, PolicyError
from evenstep.scheduling.check_views import check_views
from evenstep.scheduling.doors import difference, kernel_call
from evenstep.scheduling.order import QueueOrder, order_of
from evenstep.scheduling.view import BatchDecision, EngineView, SchedulingPolicy, broken_rule
from evenstep.traps import watching

#: Digest of short runs of the policy through the door ``plain`` or ``compiled``.
Simulate = Callable[[SchedulingPolicy, str], str]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found; `message` is a sentence, empty when there is nothing to say."""

    name: str
    passed: bool
    message: str = ""


def check(policy: SchedulingPolicy, simulate: Simulate | None = None) -> list[Finding]:
    """Run every check on a policy.

    A policy that raises, or does not answer with a `BatchDecision`, fails ``answers``; the checks that need its answers
    are then left out.

    Args:
        simulate: makes short runs through a named door and returns their digest; None leaves ``same digest`` out.
    """
    findings = [_frozen(policy), _order(policy)]
    if not findings[-1].passed:
        return findings
    findings.append(_answers(policy))
    if not findings[-1].passed:
        return findings
    findings += _rules(policy)
    findings += _outside(policy)
    findings += [_deterministic(policy), _view_left_alone(policy), _pure_memory(policy), _doors_agree(policy)]
    if simulate is not None and all(f.passed for f in findings):
        findings.append(_same_digest(policy, simulate))
    return findings


def _memory_size(policy: SchedulingPolicy) -> int:
    return int(getattr(policy, "memory_size", 0))


def _views(policy: SchedulingPolicy, spare: int = 0) -> list[EngineView]:
    return list(check_views(order_of(policy), _memory_size(policy), spare=spare))


def _form(policy: SchedulingPolicy, view: EngineView) -> BatchDecision:
    """The policy's answer, as own copies: a policy may hand out an array it writes again."""
    said = policy.form_batch(view)
    return BatchDecision(np.array(said.tokens), np.array(said.evict), np.array(said.memory), said.wake_s)


def _verdict(name: str, message: str) -> Finding:
    return Finding(name, not message, message)


def _frozen(policy: SchedulingPolicy) -> Finding:
    """Its fields are its parameters, and stay as they are."""
    parameters: Any = getattr(type(policy), "__dataclass_params__", None)
    if parameters is not None and parameters.frozen:
        return Finding("frozen", True)
    text = f"{type(policy).__name__} is no frozen dataclass; write @dataclass(frozen=True) above it"
    return Finding("frozen", False, text)


def _order(policy: SchedulingPolicy) -> Finding:
    """The order of its queue is a `QueueOrder`, or left out."""
    try:
        order: Any = order_of(policy)
    except InputError as error:
        return Finding("queue order", False, str(error))
    if isinstance(order, QueueOrder):
        return Finding("queue order", True)
    return Finding("queue order", False, f"order is {order!r}; expected a QueueOrder")


def _answers(policy: SchedulingPolicy) -> Finding:
    """It answers every view, also an empty one, with a decision. Its first imports happen here."""
    for number, view in enumerate(_views(policy)):
        try:
            decision: Any = policy.form_batch(view)
        except Exception as error:
            if isinstance(error, ValueError) and "read-only" in str(error):
                text = "it writes into its view, whose arrays are read-only; copy what you count on"
                return Finding("view left alone", False, text)
            text = f"view {number}: form_batch raises {type(error).__name__}: {error}"
            return Finding("answers", False, text)
        if not isinstance(decision, BatchDecision):
            text = f"form_batch answers {type(decision).__name__}; expected a BatchDecision"
            return Finding("answers", False, text)
    return Finding("answers", True)


#: Check that owns a broken rule, by words in how `broken_rule` says it.
_RULES = {
    "of a budget": "token budget",
    "the limit is": "batch limit",
    "resident_limit": "resident limit",
    "the memory holds": "memory",
    "evicted": "evictions",
    "words": "pure memory",
}


def _rules(policy: SchedulingPolicy) -> list[Finding]:
    """Budget, limits, memory, evictions, tokens that are left: what every host holds a decision to."""
    names = ("token budget", "batch limit", "resident limit", "memory", "evictions", "tokens left")
    broken: dict[str, str] = dict.fromkeys(names, "")
    for number, view in enumerate(_views(policy)):
        rule = broken_rule(view, policy.form_batch(view), _memory_size(policy))
        if rule:
            name = next((check for words, check in _RULES.items() if words in rule), "tokens left")
            if not broken.get(name):
                broken[name] = f"view {number}: {rule}"
    return [_verdict(name, message) for name, message in broken.items()]


def _outside(policy: SchedulingPolicy) -> list[Finding]:
    """It looks at nothing but its view: no frames or objects of the host, no clock, no chance of its own, no system."""
    views, seen = _views(policy), dict[str, str]()
    with watching() as found:
        for view in views:
            policy.form_batch(view)
    for kind, what in found:
        seen.setdefault(kind, what)
    said = {
        "peek": f"it reaches outside its view: {seen.get('peek')}",
        "clock": f"it reads a clock: {seen.get('clock')}; the view has now_s",
        "chance": f"it draws from {seen.get('chance')}; use streams.uniform(view.seed, name, request_id)",
        "system": f"it calls the system: {seen.get('system')}",
    }
    said = {kind: text if kind in seen else "" for kind, text in said.items()}
    return [
        _verdict("no peeking", said["peek"] or _behind_the_window(policy)),
        _verdict("no clock", said["clock"]),
        _verdict("no chance of its own", said["chance"]),
        _verdict("no system calls", said["system"]),
    ]


def _behind_the_window(policy: SchedulingPolicy) -> str:
    """Equal views with different arrays behind them must get equal answers."""
    pairs = zip(_views(policy, spare=0), _views(policy, spare=1000), strict=True)
    for number, (one, other) in enumerate(pairs):
        if difference(_form(policy, one), _form(policy, other)):
            return f"view {number}: the answer depends on what stands behind the view's arrays"
    return ""


def _deterministic(policy: SchedulingPolicy) -> Finding:
    """The same view gets the same answer, at once."""
    for number, view in enumerate(_views(policy)):
        differs = difference(_form(policy, view), _form(policy, view))
        if differs:
            differs = differs.replace("plain form_batch", "it first").replace("the kernel", "then")
            return Finding("deterministic", False, f"view {number}, asked twice: {differs}")
    return Finding("deterministic", True)


def _view_left_alone(policy: SchedulingPolicy) -> Finding:
    """Nothing in the view changes: no value, no array taken off its read-only lock, no field replaced."""
    name = "view left alone"
    for number, view in enumerate(_views(policy)):
        fields = {f.name: getattr(view, f.name) for f in dataclasses.fields(view)}
        before = copy.deepcopy(fields)
        policy.form_batch(view)
        for field, value in fields.items():
            if getattr(view, field) is not value:
                return Finding(name, False, f"view {number}: form_batch replaces {field}")
            if isinstance(value, np.ndarray):
                if value.flags.writeable:
                    return Finding(name, False, f"view {number}: form_batch takes the lock off {field}")
                if not np.array_equal(value, before[field]):
                    return Finding(name, False, f"view {number}: form_batch changes {field}")
    return Finding(name, True)


def _pure_memory(policy: SchedulingPolicy) -> Finding:
    """What it remembers goes through `memory`: the answer does not depend on what was asked before."""
    views = _views(policy)
    forward = [_form(policy, view) for view in views]
    backward = [_form(policy, view) for view in reversed(views)][::-1]
    for number, (one, other) in enumerate(zip(forward, backward, strict=True)):
        if difference(one, other):
            text = "the answer depends on what was asked before; keep it in memory (memory_size)"
            return Finding("pure memory", False, f"view {number}: {text}")
    return Finding("pure memory", True)


def _doors_agree(policy: SchedulingPolicy) -> Finding:
    """The kernel, where there is one, gives the same bits, and writes only where it may."""
    name = "doors agree"
    if compiled.kernel_of(policy) is None:
        return Finding(name, True, "no kernel: the plain door only")
    for number, view in enumerate(_views(policy)):
        call = kernel_call(policy, view)
        assert call is not None
        differs = difference(_form(policy, view), call.decision()) or call.overrun()
        if differs:
            return Finding(name, False, f"view {number}: {differs}")
    return Finding(name, True)


def _same_digest(policy: SchedulingPolicy, simulate: Simulate) -> Finding:
    """Short runs come to their end with one digest: again, and through the other door."""
    name = "same digest"
    doors = ["plain", "plain"] + ["compiled"] * (compiled.kernel_of(policy) is not None)
    try:
        digests = [simulate(policy, door) for door in doors]
    except PolicyError as error:
        return Finding(name, False, f"a short run fails: {error}")
    if digests[0] != digests[1]:
        return Finding(name, False, f"two equal runs: {digests[0][:16]} and {digests[1][:16]}")
    if digests[-1] != digests[0]:
        text = f"plain door {digests[0][:16]}, compiled door {digests[-1][:16]}"
        return Finding(name, False, text)
    return Finding(name, True)
