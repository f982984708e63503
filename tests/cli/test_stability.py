"""``evenstep stability`` as a person uses it."""

from __future__ import annotations

import json

import pytest

from evenstep.cli.main import main

SMALL = ["--engine", "token-budget=4,batch-limit=0,first-token=decode", "--batch-time", "unit", "--requests", "2000"]


def test_the_table_says_verdict_limit_and_formula(capsys):
    assert (
        main(["stability", "3/5", *SMALL, "--rate", "0.4", "--seeds", "2", "--policy", "sarathi", "--policy", "best"]) == 0
    )
    out = capsys.readouterr().out
    assert "sarathi at 0.4 requests/s: stable" in out
    assert "closed form 0.5 requests/s" in out and "eq. 2.7" in out
    assert "best: no closed form: " in out and "at most 0.5 requests/s" in out


def test_json_holds_the_interval(capsys):
    assert main(["stability", "3/5", *SMALL, "--seeds", "2", "--format", "json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["policies"]
    largest = one["largest_requests_per_s"]
    assert largest["low"] < 0.505 and largest["high"] > 0.495
    assert one["closed_form"]["requests_per_s"] == pytest.approx(0.5)


@pytest.mark.parametrize("words", [["--rate", "0"], ["--processes", "0"], ["--policy", "nothing"]])
def test_bad_flags_are_one_line_and_exit_2(capsys, words):
    assert main(["stability", "3/5", *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1
