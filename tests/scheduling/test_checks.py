"""The conformance suite, itself tested: every bad policy fails its own check, with its own message, and no other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from evenstep import names
from evenstep.scheduling.checks import check
from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.scheduling.view import BatchDecision

BAD = Path(__file__).parent.parent / "bad_scheduling"
EXPECTED = {
    "over_budget": ("token budget", "of a budget of"),
    "over_memory": ("memory", "would hold"),
    "over_seats": ("batch limit", "the limit is 3"),
    "over_residents": ("resident limit", "requests hold memory; resident_limit is"),
    "evicts_those_that_wait": ("evictions", "was evicted and holds no memory"),
    "more_than_left": ("tokens left", "more tokens than it has left"),
    "throws_dice": ("no chance of its own", "global random generator"),
    "reads_a_clock": ("no clock", "reads a clock: time.monotonic"),
    "mutates_its_view": ("view left alone", "form_batch changes left"),
    "remembers_by_itself": ("pure memory", "depends on what was asked before"),
    "doors_differ": ("doors agree", "plain form_batch answers"),
}
#: The same fault, seen otherwise.
ALSO = {
    "remembers_by_itself": {"deterministic", "no peeking"},
    "over_budget": {"batch limit", "resident limit", "memory"},
    "mutates_its_view": {"no peeking"},
}


def failures(policy, simulate=None):
    return {f.name: f.message for f in check(policy, simulate) if not f.passed}


def test_every_bad_policy_is_expected_here():
    assert {p.stem for p in BAD.glob("*.py")} == set(EXPECTED)


@pytest.mark.slow
@pytest.mark.parametrize("stem", EXPECTED)
def test_a_bad_policy_fails_its_own_check_with_its_own_message(stem):
    name, message = EXPECTED[stem]
    found = failures(names.build("scheduling", {"name": str(BAD / f"{stem}.py")}))
    assert {name} <= set(found) <= {name} | ALSO.get(stem, set())
    assert message in found[name]


def test_a_good_policy_passes_and_names_every_check():
    findings = check(Sarathi(), lambda policy, door: "same")
    assert [f.name for f in findings if not f.passed] == []
    assert len({f.name for f in findings}) == len(findings) == 18


def test_a_digest_that_differs_is_found():
    assert "plain door plain, compiled door compiled" in failures(Sarathi(), lambda p, door: door)["same digest"]
    counted = iter(range(9))
    assert "two equal runs: 0 and 1" in failures(Sarathi(), lambda p, door: str(next(counted)))["same digest"]


@pytest.mark.parametrize(
    ("tokens", "failed", "said"),
    [
        (list, "answers", "form_batch answers tokens as a list; expected an array"),
        (lambda n: np.full(n, 0.5), "tokens left", "answers tokens of dtype float64; expected int64"),
    ],
)
def test_an_answer_that_no_engine_takes_is_said(tokens, failed, said):
    @dataclass(frozen=True)
    class Odd:
        def form_batch(self, view):
            none = np.zeros(view.left.size, np.int64)
            return BatchDecision(tokens(none if tokens is list else none.size), none > 0, view.memory)

    assert said in failures(Odd())[failed]


def test_what_is_no_policy_is_said():
    @dataclass(frozen=True)
    class Nothing:
        order: int = 3

        def form_batch(self, view):
            return None

    assert "order is 3" in failures(Nothing())["queue order"]
    assert "form_batch answers NoneType" in failures(type("Plain", (), {"form_batch": lambda s, v: None})())["answers"]


def test_an_answer_without_its_memory_is_said():
    @dataclass(frozen=True)
    class Odd:
        def form_batch(self, view):
            none = np.zeros(view.left.size, np.int64)
            return BatchDecision(none, none > 0, None)

    assert "form_batch answers memory as a NoneType; expected an array" in failures(Odd())["answers"]
