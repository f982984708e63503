"""Mutants are other programs than the one they come from, one change each."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from tests.mutants.mutate import mutants

ROOT = Path(__file__).parents[2]
SOURCE = '''
LIMIT = 3

def first(values, limit=LIMIT):
    """The first value above a limit, counted from 1."""
    for k in range(len(values)):
        if values[k] > limit and not values[k] == 9:
            return min(k + 1, limit)
    return 0

def other(a):
    return a * 2

async def later(a):
    return a / 4
'''


def test_each_mutant_changes_one_thing_of_the_functions_and_nothing_else():
    whole = ast.unparse(ast.parse(SOURCE))
    found = list(mutants(SOURCE))
    assert len({one.source for one in found}) == len(found)
    for one in found:
        changed = [(a, b) for a, b in zip(whole.splitlines(), one.source.splitlines(), strict=True) if a != b]
        assert len(changed) == 1, one
    assert {one.said for one in found} == {
        "Gt -> GtE",
        "Gt -> LtE",
        "And -> Or",
        "not left out",
        "Eq -> NotEq",
        "9 -> 10",
        "min -> max",
        "Add -> Sub",
        "1 -> 2",
        "0 -> 1",
        "Mult -> Add",
        "2 -> 3",
        "Div -> Mult",
        "4 -> 5",
    }


def test_only_the_functions_that_are_named_are_changed():
    assert {one.said for one in mutants(SOURCE, {"other"})} == {"Mult -> Add", "2 -> 3"}


@pytest.mark.slow
def test_the_tool_runs_a_module_s_tests_on_its_mutants_and_counts_those_that_are_noticed():
    words = [sys.executable, "-m", "tests.mutants", "measure/tally", "--most", "2", "--processes", "1"]
    ran = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.endswith("measure/tally: 2 of 2 mutants caught (100%)\n")
