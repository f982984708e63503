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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rate", "0"], "--rate is 0.0"),
        (["--processes", "0"], "--processes is 0"),
        (["--policy", "nothing"], "'nothing'; expected a known scheduling policy"),
        (["--policy", "jsq"], "routes requests to workers: use evenstep compare without --engine, or evenstep simulate"),
        (["--requests", "1000000000"], "--requests is 1000000000; expected an integer from 1000 to 10000000"),
        (["--batch-time", "token-budget:c-s=0,a-s=0,b0=0"], "b0=0'; expected a batch that takes time"),
        (["--engine", "kv-tokens"], "option is 'kv-tokens'; expected key=value"),
    ],
)
def test_bad_flags_are_one_line_and_exit_2(capsys, words, said):
    assert main(["stability", "3/5", *words]) == 2
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("3/pareto:alpha=1,minimum=9", "This law has an infinite mean"),
        ("3/pareto:alpha=0.9,mean=9", "up to 1 the law has an infinite mean"),
        ("3/pareto", "pareto: alpha is 'missing'; expected a value"),
        ("3/geometrc:mean=4", "expected laws PROMPT/OUTPUT or an existing file. Did you mean geometric?"),
        ("3/constant:5", "constant: option is '5'; expected key=value"),
        ("²/5", "expected laws PROMPT/OUTPUT or an existing file"),
        ("3:/5", "expected laws PROMPT/OUTPUT or an existing file"),
        ("3:tokens=3/5", "expected laws PROMPT/OUTPUT or an existing file"),
        ("3/5/7", "laws is '3/5/7'; expected PROMPT/OUTPUT"),
        (
            "fitted:file=x,column=prompt_tokens/5",
            "expected laws whose options are numbers. Write fitted in a workload file.",
        ),
        ("5/capped:of=geometric,cap=9", "expected laws whose options are numbers. Write capped in a workload file."),
    ],
)
def test_a_bad_source_is_one_line_and_exit_2(capsys, source, said):
    assert main(["stability", source]) == 2
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1


def test_a_law_of_infinite_mean_in_a_workload_is_named_with_its_line(tmp_path, capsys):
    path = tmp_path / "w.yaml"
    heavy = "{law: bimodal, share: 0.5, first: {law: pareto, alpha: 1, minimum: 9}, second: {law: constant, tokens: 3}}"
    path.write_text(f"version: 1\nsynthetic:\n  requests: 9\n  prompt: {{law: constant, tokens: 3}}\n  output: {heavy}\n")
    assert main(["stability", str(path)]) == 2
    told = capsys.readouterr().err
    assert "w.yaml line 5: synthetic.output.first.alpha is 1.0" in told and told.count("\n") == 1


@pytest.mark.slow
def test_a_policy_without_the_bounds_it_plans_with_says_so(capsys):
    policies = [word for name in ("srpt", "h-sf", "sarathi") for word in ("--policy", name)]
    assert main(["stability", "10/5", *policies, "--requests", "1000", "--seeds", "1", "--precision", "0.2"]) == 0
    out = capsys.readouterr().out
    assert "srpt: note: srpt plans with bounds of the output lengths and nothing is believed of them here." in out
    assert "h-sf: note: h-sf is shown the true output lengths" in out and "sarathi: note" not in out
