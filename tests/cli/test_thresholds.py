"""``evenstep thresholds`` as a person uses it."""

from __future__ import annotations

import json

import pytest

from evenstep.cli.main import main
from evenstep.cli.thresholds import command

FILE = ["thresholds", "sample:azure-conv", "--limit", "2000"]


def test_each_gate_is_shown_with_the_inequality_it_satisfies(capsys):
    assert main([*FILE, "--rate", "4", "--segments", "4"]) == 0
    out = capsys.readouterr().out
    assert "WAIT, wait:thresholds=1\n  type 0: n = 1, eq. 9: " in out
    assert out.count("eq. 10: ") == 4 and out.count("eq. 12: ") == 1
    assert "4 requests a second" in out


def test_the_policy_printed_for_wait_gives_each_class_its_own_threshold(tmp_path, capsys):
    """`wait` counts classes from 0, those too that a trace does not have."""
    rows = [f"{i / 40},100,20,{2 if i % 20 == 0 else 1}" for i in range(600)]
    path = tmp_path / "classes.csv"
    path.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens,request_class", *rows]))
    assert main(["thresholds", str(path), "--batch-time", "affine-kv:d0-s=0.1,d1-s=1e-6"]) == 0
    assert "wait:thresholds=1/5/1\n  type 1: n = 5," in capsys.readouterr().out


@pytest.mark.parametrize("example", command.examples)
def test_the_examples_of_its_help_have_an_answer(capsys, example):
    assert main(example.split()[1:]) == 0
    assert "Nested WAIT, nested-wait:thresholds=" in capsys.readouterr().out


def test_json_says_the_same_in_numbers_and_the_inequalities_hold(capsys):
    assert main([*FILE, "--rate", "4", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    for policy in ("wait", "nested_wait"):
        own = found[policy]
        assert own["iteration_s"] < own["gates"][0]["threshold"] / 4.0
        assert own["iteration_s"] == pytest.approx(0.01 + 4e-7 * own["kv_tokens"])
        assert own["fluid_kv_tokens"] < own["kv_tokens"]
        assert own["expected_latency_s"] > own["iteration_s"]
    nested = found["nested_wait"]
    assert len(nested["gates"]) == nested["segments"] == len(nested["ends"]) + 1
    assert nested["enough_kv_tokens"] > nested["kv_tokens"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--rate", "0"], "--rate is 0.0"),
        (["--rate", "500"], "load is"),
        (["--rate", "4", "--engine", "kv-tokens=1000"], "--engine kv-tokens is '1,000'; expected at least"),
        (["--rate", "4", "--engine", "token-budget=1"], "--engine token-budget is '1'; expected no key but kv-tokens"),
        (["--rate", "4", "--engine", "kv-tokens=4000000,batch-limit=9"], "--engine batch-limit is '9'"),
        (["--batch-time", "token-budget"], "expected affine-kv"),
        (["--batch-time", "affine-kv:d0-s=0"], "thresholds: --batch-time d0-s is 0.0"),
        (
            ["--rate", "4", "--segments", "1"],
            "room for whole thresholds and a slack of 0. Each request counts as long as the",
        ),
        (["--rate", "4", "--segments", "0"], "thresholds: --segments is 0"),
        (["--delta", "1"], "--delta is 1.0"),
        (["--iterations", "0"], "--iterations is 0.0"),
    ],
)
def test_what_cannot_be_solved_is_one_line_and_exit_code_2(capsys, flags, said):
    assert main([*FILE, *flags]) == 2
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1


def test_where_only_nested_wait_does_not_fit_wait_is_told_and_why(capsys):
    """Until now the command told nothing of WAIT, which fits."""
    flags = ["--rate", "2", "--engine", "kv-tokens=1000000"]
    assert main([*FILE, *flags]) == 0
    told = capsys.readouterr().out
    assert "WAIT, wait:thresholds=1\n" in told
    assert (
        "Nested WAIT has no thresholds here. evenstep thresholds: --engine kv-tokens is '1,000,000'; expected at least"
        in told
    )
    assert main([*FILE, *flags, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["wait"]["gates"] and list(found["nested_wait"]) == ["not_solved"]


def test_one_number_of_segments_is_not_said_to_need_the_least(capsys):
    """With 4 segments asked for, the error said that these need the least memory; 2 need less."""
    flags = ["--rate", "2", "--engine", "kv-tokens=1000000"]
    assert main([*FILE, *flags, "--segments", "4"]) == 2
    assert capsys.readouterr().err.endswith("That is with 4 segments.\n")
    assert main([*FILE, *flags]) == 0
    assert "segments, which need the least." in capsys.readouterr().out


def test_a_trace_without_times_needs_a_rate_and_no_flag_that_is_not_there(tmp_path, capsys):
    file = tmp_path / "t.csv"
    file.write_text("prompt_tokens,output_tokens\n5,6\n7,8\n")
    assert main(["thresholds", str(file)]) == 2
    assert capsys.readouterr().err.endswith(
        "arrival times is 'missing'; expected times in the trace, or a rate. Give --rate.\n"
    )


@pytest.mark.parametrize("rate", [[], ["--rate", "4"]])
def test_a_trace_of_one_time_is_not_sent_to_a_setting_that_is_not_there(tmp_path, capsys, rate):
    path = tmp_path / "one.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,20\n")
    assert main(["thresholds", str(path), *rate]) == 2
    said = "arrivals is 'no rate'; expected several arrival times."
    if rate:
        said = "arrival_s is 'one time only'; expected times to scale. Without a column of times, rows arrive at the rate."
    assert capsys.readouterr().err == f"one.csv: {said}\n"


def test_a_law_of_infinite_mean_is_called_so(tmp_path, capsys):
    path = tmp_path / "w.yaml"
    laws = "  prompt: {law: constant, tokens: 129}\n  output: {law: pareto, alpha: 1, minimum: 9}\n"
    path.write_text(f"version: 1\nsynthetic:\n  requests: 2000\n{laws}")
    assert main(["thresholds", str(path), "--rate", "1"]) == 2
    told = capsys.readouterr().err
    assert "w.yaml line 5: synthetic.output.alpha is 1.0" in told and "infinite mean" in told and told.count("\n") == 1


def test_arrivals_drawn_at_a_rate_have_that_rate(tmp_path, capsys):
    """Poisson arrivals at 4 a second came at 4.03, and so did the thresholds."""
    path = tmp_path / "w.yaml"
    lengths = "prompt: {law: constant, tokens: 129}, output: {law: constant, tokens: 20}"
    path.write_text(f"version: 1\nsynthetic: {{requests: 2000, {lengths}}}\n")
    assert main(["thresholds", str(path), "--rate", "4", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["requests_per_s"] == pytest.approx(4.0, abs=1e-9)


def test_columns_of_any_csv_are_named_as_the_error_says(capsys, tmp_path):
    """The error told its reader to name columns by a flag that the command did not have."""
    path = tmp_path / "u.csv"
    path.write_text("ts,in,out\n" + "".join(f"{n},50,8\n" for n in range(20)))
    assert main(["thresholds", str(path)]) == 2
    assert "--columns prompt=...,output=...,time=...,unit=ms." in capsys.readouterr().err
    assert main(["thresholds", str(path), "--columns", "prompt=in,output=out,time=ts"]) == 0
