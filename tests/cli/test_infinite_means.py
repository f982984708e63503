"""Laws of infinite mean: refused by name where requests arrive over time, and run where they all wait from the start."""

from __future__ import annotations

import pytest

from evenstep.cli.main import main

SMALL = ["--workers", "2", "--slots", "4"]
ENGINE = ["--engine", "kv-tokens=0", "--policy", "sarathi"]
OVER_TIME = [
    ["compare", "FILE", *ENGINE, "--rate", "1"],
    ["compare", "FILE", *ENGINE, "--load", "0.5"],
    ["compare", "FILE", *SMALL, "--policy", "jsq", "--rate", "1"],
    ["compare", "FILE", *SMALL, "--policy", "jsq", "--load", "0.5"],
    ["simulate", "FILE", *SMALL, "--policy", "jsq", "--rate", "1"],
    ["load", "FILE", "--url", "http://127.0.0.1:9", "--rate", "1"],
]


@pytest.fixture
def heavy(tmp_path):
    """Writes a workload of Pareto outputs, alpha 0.9, with more in its law and its file."""

    def write(more="", arrivals=""):
        path = tmp_path / "w.yaml"
        laws = f"  prompt: {{law: constant, tokens: 12}}\n  output: {{law: pareto, alpha: 0.9, minimum: 4{more}}}\n"
        path.write_text(f"version: 1\nsynthetic:\n  requests: 60\n{laws}{arrivals}")
        return str(path)

    return write


def named(words, path):
    return [path if word == "FILE" else word for word in words]


def is_refused(capsys):
    told = capsys.readouterr().err
    assert "w.yaml line 5: synthetic.output.alpha is 0.9" in told and "infinite mean" in told
    return told.count("\n") == 1


@pytest.mark.parametrize("words", OVER_TIME)
def test_it_is_refused_in_one_line_where_requests_arrive_over_time(heavy, capsys, words):
    assert main(named(words, heavy())) == 2
    assert is_refused(capsys)


@pytest.mark.parametrize("more", ["  arrivals: {process: poisson, requests_per_s: 1}\n", "requests_per_s: 1\n"])
def test_a_rate_of_the_file_counts_too(heavy, capsys, more):
    assert main(["compare", heavy(arrivals=more), *ENGINE]) == 2
    assert is_refused(capsys)
    assert main(["simulate", heavy(arrivals=more), *SMALL, "--policy", "jsq", "--arrivals", "timed"]) == 2
    assert is_refused(capsys)


def test_a_sweep_refuses_it(heavy, tmp_path, capsys):
    path = tmp_path / "sweep.yaml"
    over = "over: {rate: [1, 2]}\nfixed: {workers: 2, slots: 4, seeds: 1}\npolicies: [jsq]\nmetrics: [idle_share]\n"
    path.write_text(f"version: 1\nsource: {heavy()}\n{over}")
    assert main(["sweep", str(path), "--out", str(tmp_path / "s.parquet")]) == 2
    assert is_refused(capsys)


def test_a_closed_batch_of_it_runs(heavy, capsys):
    assert main(["simulate", heavy(more=", high: 900"), *SMALL, "--policy", "jsq", "--rate", "1"]) == 0
    assert main(["simulate", heavy(), *SMALL, "--policy", "jsq"]) == 0
    assert main(["compare", heavy(), *ENGINE, "--arrivals", "together", "--seeds", "1"]) == 0
    assert main(["compare", heavy(arrivals="  arrivals: {process: at-once}\n"), *ENGINE, "--seeds", "1"]) == 0
