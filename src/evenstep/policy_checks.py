"""Checks that routing and scheduling policies share: each gives a `Finding`, or several."""

from __future__ import annotations

import copy
import dataclasses
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from evenstep import compiled
from evenstep.errors import PolicyError
from evenstep.names import USER_MODULE, guest_line
from evenstep.policy_rules import KernelCall
from evenstep.traps import watching
from evenstep.wording import of_other_class


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of the check `name`. `message` says what is wrong; if the check passed it is empty or a remark."""

    name: str
    passed: bool
    message: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """A policy under check, and how to ask it.

    Args:
        verb: name of the policy's method that takes a view and returns an answer.
        answer: class of its answers.
        views: makes the same views, as new objects, at each call. Its argument sets the numbers that stand in memory before
            and after the views' arrays (`spare` of `window`).
        differ: ``(answer, other, view)`` -> a sentence on how two answers to a view differ; empty if they are equal in bits.
            It calls the first ``plain VERB`` and the second ``the kernel``, words that checks replace.
        kernel_call: ``(policy, view)`` -> the prepared call of the policy's compiled rule; None if it has no rule.
    """

    policy: Any
    verb: str
    answer: type[Any]
    views: Callable[[int], Sequence[Any]]
    differ: Callable[[Any, Any, Any], str]
    kernel_call: Callable[[Any, Any], KernelCall | None]

    def raw(self, view: Any) -> Any:
        """The policy's own answer to a view, not copied."""
        return getattr(self.policy, self.verb)(view)

    def ask(self, view: Any) -> Any:
        """A copy of the policy's answer to a view, because a policy may return an array that it writes again."""
        return copy.deepcopy(self.raw(view))


#: Given a policy, and ``plain`` or ``compiled`` for the way to call it: the digest of a short run.
Simulate = Callable[[Any, str], str]


def run(
    judged: Judged, first: Finding | None, contract: Callable[[list[Any]], list[Finding]], simulate: Simulate | None
) -> list[Finding]:
    """Run every check on a policy; returns the findings in the order of the checks.

    If the policy fails to answer a view, the checks that need answers are left out. A rule whose indices leave its arrays
    fails ``doors agree`` and is not asked compiled, which could end Python.

    Args:
        first: the result of a check that needs no answers, or None. If it failed, only `frozen` is run, too.
        contract: checks the answers to `judged.views(0)`, in their order, as the policy's host would.
        simulate: makes the short runs of `same_digest`, which is left out if this is None or another check failed.
    """
    findings = [frozen(judged.policy), *([first] if first else [])]
    if first is not None and not first.passed:
        return findings
    if outran := _out_of_range(judged):
        return [*findings, Finding("doors agree", False, outran)]
    answered, said = answers(judged)
    findings.append(answered)
    if not answered.passed:
        return findings
    findings += contract(said)
    findings += outside(judged)
    findings += [promise(judged) for promise in (deterministic, view_left_alone, pure_memory, doors_agree)]
    if simulate is not None and all(f.passed for f in findings):
        findings.append(same_digest(judged.policy, simulate))
    return findings


def window(values: Any, kind: type[Any], spare: int) -> Any:
    """A read-only copy of `values`, as type `kind`, that is a view into a larger array, as hosts give arrays to policies.

    The larger array has one more entry at either end, `spare` + 1. If another `spare` changes an answer, the policy read it.
    """
    array = np.ascontiguousarray(values, dtype=kind)
    host = np.full(array.size + 2, spare + 1).astype(kind)
    shown = host[1 : array.size + 1].reshape(array.shape)
    shown[...] = array
    shown.flags.writeable = False
    return shown


def verdict(name: str, message: str) -> Finding:
    """Make the finding of the check `name`: passed if `message` is empty, else failed with that message."""
    return Finding(name, not message, message)


def frozen(policy: Any) -> Finding:
    """Check that the policy is a frozen dataclass."""
    is_frozen = getattr(getattr(type(policy), "__dataclass_params__", None), "frozen", False)
    text = f"{type(policy).__name__} is no frozen dataclass; write @dataclass(frozen=True) above it"
    return verdict("frozen", "" if is_frozen else text)


def answers(judged: Judged) -> tuple[Finding, list[Any]]:
    """Check that the policy answers each view of `judged.views(0)` without error, in the right class, with arrays in it.

    Returns:
        The finding, and a copy of each answer in the order of the views; the first bad one and all after it are left out.
        The finding is named ``answers``, or ``view left alone`` if the policy wrote into a read-only array of its view.
    """
    said: list[Any] = []
    for number, view in enumerate(judged.views(0)):
        try:
            decision = judged.raw(view)
        except Exception as error:
            if isinstance(error, ValueError) and "read-only" in str(error):
                text = "it writes into its view, whose arrays are read-only; copy what you count on"
                return Finding("view left alone", False, text), said
            text = f"view {number}: {judged.verb} raises {type(error).__name__}: {error}"
            return Finding("answers", False, text), said
        if other := of_other_class(judged.verb, decision, judged.answer):
            return Finding("answers", False, other), said
        for field in dataclasses.fields(decision):
            name, value, needed = field.name, getattr(decision, field.name), field.default is dataclasses.MISSING
            if not isinstance(value, np.ndarray if needed else np.ndarray | Real | None):
                text = f"view {number}: {judged.verb} answers {name} as a {type(value).__name__}; expected an array"
                return Finding("answers", False, text), said
        said.append(copy.deepcopy(decision))
    return Finding("answers", True), said


def broken_rules(names: Sequence[str], rules: Sequence[str], owner: Callable[[str], str]) -> dict[str, str]:
    """Assign broken rules to checks: name of check -> its first broken rule, with the number of the view, or empty text.

    Args:
        names: of the checks.
        rules: for each view, in order, the rule that its answer breaks, as text; empty if it breaks no rule.
        owner: gives the name of the check that a broken rule belongs to, one of `names`.
    """
    broken = dict.fromkeys(names, "")
    for number, rule in enumerate(rules):
        if rule and not broken.get(owner(rule)):
            broken[owner(rule)] = f"view {number}: {rule}"
    return broken


def outside(judged: Judged) -> list[Finding]:
    """Check that a policy uses only its view; one finding each for the host's objects, clocks, chance and system calls.

    The first also fails if numbers in memory beyond the view's arrays change an answer. `answers` must have passed.
    """
    views = judged.views(1000)
    with watching() as found:
        said = [judged.ask(view) for view in views]
    seen = dict(reversed(found))  # the first of each kind
    rules = {
        "peek": ("no peeking", "it reaches outside its view: {}"),
        "clock": ("no clock", "it reads a clock: {}; the view has now_s"),
        "chance": ("no chance of its own", "it draws from {}; use streams.uniform(view.seed, name, request_id)"),
        "system": ("no system calls", "it calls the system: {}"),
    }
    broken = {kind: text.format(seen[kind]) if kind in seen else "" for kind, (_, text) in rules.items()}
    broken["peek"] = broken["peek"] or _beyond_the_window(judged, said)
    return [verdict(name, broken[kind]) for kind, (name, _) in rules.items()]


def _beyond_the_window(judged: Judged, said: Sequence[Any]) -> str:
    """A sentence on the first view of `judged.views(0)` whose answer differs from that in `said`; empty if none does.

    `said` are the answers to the same views, with other numbers in memory before and after their arrays.
    """
    for number, (view, other) in enumerate(zip(judged.views(0), said, strict=True)):
        if judged.differ(judged.ask(view), other, view):
            return f"view {number}: the answer depends on what stands behind the view's arrays"
    return ""


def deterministic(judged: Judged) -> Finding:
    """Check that each view, asked twice in a row, gets the same answer to the bit."""
    for number, (view, again) in enumerate(zip(judged.views(0), judged.views(0), strict=True)):
        differs = judged.differ(judged.ask(view), judged.ask(again), view)
        if differs:
            differs = differs.replace("the kernel", "then").replace(f"plain {judged.verb}", "it first")
            return Finding("deterministic", False, f"view {number}, asked twice: {differs}")
    return Finding("deterministic", True)


def view_left_alone(judged: Judged) -> Finding:
    """Check that the policy changes no value of the view's arrays, makes none writable, and replaces no field."""
    for number, view in enumerate(judged.views(0)):
        fields = {f.name: getattr(view, f.name) for f in dataclasses.fields(view)}
        before = copy.deepcopy(fields)
        judged.raw(view)
        for field, value in fields.items():
            is_array = isinstance(value, np.ndarray)
            if getattr(view, field) is not value:
                what = "replaces"
            elif is_array and value.flags.writeable:
                what = "takes the lock off"
            elif is_array and not np.array_equal(value, before[field], equal_nan=value.dtype.kind == "f"):
                what = "changes"
            else:
                continue
            return Finding("view left alone", False, f"view {number}: {judged.verb} {what} {field}")
    return Finding("view left alone", True)


def pure_memory(judged: Judged) -> Finding:
    """Check that the policy remembers nothing but `memory`: views asked forward, then backward, get equal answers."""
    views = judged.views(0)
    forward = [judged.ask(view) for view in views]
    backward = [judged.ask(view) for view in reversed(judged.views(0))][::-1]
    for number, (view, one, other) in enumerate(zip(views, forward, backward, strict=True)):
        if judged.differ(one, other, view):
            text = "the answer depends on what was asked before; keep it in memory (memory_size)"
            return Finding("pure memory", False, f"view {number}: {text}")
    return Finding("pure memory", True)


def doors_agree(judged: Judged) -> Finding:
    """Check that a compiled rule gives the bits of plain Python and stays in its arrays. Without a rule it passes."""
    for number, view in enumerate(judged.views(0)):
        call, again = (judged.kernel_call(judged.policy, view) for _ in range(2))
        if call is None or again is None:
            return Finding("doors agree", True, "there is no compiled rule, so only plain Python was asked")
        try:
            plain = again.in_plain().decision()
        except Exception as error:
            return Finding("doors agree", False, _says(number, error))
        differs = judged.differ(plain, call.decision(), view) or call.overrun()
        if differs:
            return Finding("doors agree", False, f"view {number}: {differs}")
    return Finding("doors agree", True)


def _out_of_range(judged: Judged) -> str:
    """A sentence on the first view at which the policy's rule, in plain Python, raises an `IndexError`; empty if none does.

    Any other error is left to the checks that ask the policy.
    """
    for number, view in enumerate(judged.views(0)):
        try:
            call = judged.kernel_call(judged.policy, view)
        except Exception:  # as when the rule cannot be compiled
            return ""
        if call is None:
            return ""
        try:
            call.in_plain().decision()
        except IndexError as error:
            return _says(number, error)
        except Exception:  # compiled, it may go on to the view in which it leaves its arrays
            continue
    return ""


def _says(number: int, error: Exception) -> str:
    """A sentence on an error that a rule raised in plain Python: its type and text, and the user's line if known."""
    line = guest_line(error)
    place = f" ({line})" if line else ""
    return f"view {number}: the rule, in plain Python, raises {type(error).__name__}: {error}{place}"


def same_digest(policy: Any, simulate: Simulate) -> Finding:
    """Check that a short run ends without a `PolicyError`, and has the same digest when repeated.

    If the policy has a rule, and not `plain_only`, a run with the compiled rule must have that digest too. So must a run in
    a second process, where hashes of text differ, unless the policy is evenstep's own or cannot be run there.
    """
    is_compiled = compiled.kernel_of(policy) is not None and not getattr(policy, "plain_only", False)
    doors = ["plain", "plain"] + ["compiled"] * is_compiled
    try:
        digests = [simulate(policy, door) for door in doors]
    except PolicyError as error:
        return Finding("same digest", False, f"a short run fails: {error}")
    text = ""
    if digests[0] != digests[1]:
        text = f"two equal runs: {digests[0][:16]} and {digests[1][:16]}"
    elif digests[-1] != digests[0]:
        text = f"plain door {digests[0][:16]}, compiled door {digests[-1][:16]}"
    elif (other := _in_second_process(policy, simulate)) not in ("", digests[0]):
        hint = "do not use hash() of text or the order of a set"
        text = f"this process {digests[0][:16]}, a second one {other[:16]}; {hint}"
    return verdict("same digest", text)


#: Prints the digest of a short run of a pickled policy. The user's file that defines it is loaded first, if there is one.
_SECOND = """
import pickle, sys
place, sys.path[:], run = pickle.load(sys.stdin.buffer)
if place:
    from evenstep import names
    names.find("routing", place)
policy, simulate = pickle.loads(run)
print("\\n" + simulate(policy, "plain"))
"""


def _in_second_process(policy: Any, simulate: Simulate) -> str:
    """Digest of a short run in a process with another hash seed; empty for evenstep's own policies, or if it cannot run."""
    kind = type(policy)
    if kind.__module__.startswith("evenstep."):
        return ""
    home = getattr(sys.modules.get(kind.__module__), "__file__", "")
    place = f"{home}:{kind.__qualname__.partition('.')[0]}" if kind.__module__.startswith(USER_MODULE) else ""
    try:
        sent = pickle.dumps((place, sys.path, pickle.dumps((policy, simulate))))
    except (AttributeError, TypeError, pickle.PicklingError):  # a class or function inside a function
        return ""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    ran = subprocess.run([sys.executable, "-c", _SECOND], input=sent, env=environment, capture_output=True, check=False)
    return ran.stdout.decode(errors="replace").splitlines()[-1] if ran.returncode == 0 else ""
