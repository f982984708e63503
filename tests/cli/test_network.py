"""``evenstep network``."""

from __future__ import annotations

import json

import pytest
from tests.sim.network.networks import EXAMPLES

from evenstep.cli.main import main

LOOP, RYBKO = str(EXAMPLES / "agent-loop.yaml"), str(EXAMPLES / "rybko-stolyar.yaml")


def test_run_prints_orders_engines_and_digests(capsys):
    assert main(["network", "run", LOOP, "--until-s", "30", "--seeds", "2", "--orders", "fcfs,least-attained"]) == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [line.split()[0] for line in lines if line]
    assert {"fcfs", "least-attained", "pool-0", "pool-1", "pool-2", "digest"} <= set(heads)
    assert "Means over 2 replicates" in "\n".join(lines)


def test_json_is_one_object_with_paired_differences(capsys):
    assert (
        main(["network", "run", LOOP, "--until-s", "30", "--seeds", "2", "--orders", "fcfs,oldest-task", "--format", "json"])
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert [one["order"] for one in found["orders"]] == ["fcfs", "oldest-task"]
    assert found["orders"][0]["versus_first"] is None and "task_mean_s" in found["orders"][1]["versus_first"]


def test_check_names_the_virtual_station_and_both_verdicts(capsys):
    assert main(["network", "check", RYBKO, "--until-s", "5000"]) == 0
    out = capsys.readouterr().out
    assert "virtual: A.long + B.long" in out and "overloaded" in out
    assert "by loads: unstable" in out and "simulated to 5,000 s: unstable" in out


def test_check_as_json(capsys):
    assert main(["network", "check", RYBKO, "--until-s", "2000", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "unstable" and found["virtual_stations"][0]["load"] == pytest.approx(1.61, abs=0.01)


def test_a_report_is_written(tmp_path, capsys):
    report = tmp_path / "net.html"
    assert main(["network", "run", LOOP, "--until-s", "20", "--seeds", "1", "--report", str(report)]) == 0
    text = report.read_text()
    assert "Network agent-loop" in text and text.count("<svg") == 2 and "<script" not in text


def test_a_time_that_is_none_is_refused(capsys):
    assert main(["network", "run", LOOP, "--until-s", "0"]) == 2
    assert "--until-s is 0.0; expected a finite number > 0" in capsys.readouterr().err
