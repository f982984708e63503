"""``evenstep sweep``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from evenstep.cli.main import main

FILE = """version: 1
source: sample:azure-conv
fixed: {limit: 60, slots: 4, seeds: 2}
over:
  workers: [2, 4]
policies: [jsq, br-0]
metrics: [idle_share]
"""
RUN = [sys.executable, "-m", "evenstep", "sweep"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(FILE)
    return tmp_path


def test_a_sweep_prints_a_table_and_writes_parquet_report_and_cache(folder, capsys):
    assert main(["sweep", "s.yaml", "--report", "s.html"]) == 0
    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines() if not line.startswith("compiling kernels")]
    assert lines[0] == ["workers", "policy", "runs", "load", "imbalance"]
    assert [line[:3] for line in lines[2:6]] == [
        ["2", "jsq", "2"],
        ["2", "br-0", "2"],
        ["4", "jsq", "2"],
        ["4", "br-0", "2"],
    ]
    assert "s.parquet: 8 rows; 8 runs made, the others from s.parquet.cache" in out
    assert pq.read_table("s.parquet").num_rows == 8
    assert "evenstep sweep s.yaml --report s.html" in (folder / "s.html").read_text()
    assert len([*(folder / "s.parquet.cache").rglob("*.json")]) == 8


def test_a_second_run_makes_nothing_and_writes_the_same_bytes(folder, capsys):
    assert main(["sweep", "s.yaml"]) == 0
    first = (folder / "s.parquet").read_bytes()
    capsys.readouterr()
    assert main(["sweep", "s.yaml", "--out", "again.parquet", "--cache", "s.parquet.cache"]) == 0
    assert "0 runs made" in capsys.readouterr().out
    assert (folder / "again.parquet").read_bytes() == first


def test_json_is_one_object(folder, capsys):
    assert main(["sweep", "s.yaml", "--format", "json", "--until", "ci(idle_share) < 90%", "--most-seeds", "3"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    found = json.loads(out)
    assert [row["parameters"]["workers"] for row in found["rows"]] == [2, 2, 4, 4]
    assert all(2 <= row["replicates"] <= 3 for row in found["rows"])
    assert found["until"] == "ci(idle_share) < 90%"


def test_a_dry_run_says_how_much_there_is(folder, capsys):
    assert main(["sweep", "s.yaml", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "2 points, 8 runs that differ; 0 are in the cache" in out and "to go" in out
    assert not (folder / "s.parquet").exists()
    assert main(["sweep", "s.yaml"]) == 0
    capsys.readouterr()
    assert main(["sweep", "s.yaml", "--dry-run", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["cached"], found["seconds"]) == (8, None)
    assert main(["sweep", "s.yaml", "--dry-run"]) == 0
    assert "nothing is left to run\n" in capsys.readouterr().out
    assert main(["sweep", "s.yaml", "--dry-run", "--until", "ci(idle_share) < 0.001%"]) == 0
    assert "nothing is left to run, and then the replicates that the rule asks for\n" in capsys.readouterr().out


def test_a_damaged_cache_is_said(folder, capsys):
    assert main(["sweep", "s.yaml"]) == 0
    path = next((folder / "s.parquet.cache").rglob("*.json"))
    path.write_bytes(b"{}")
    assert main(["sweep", "s.yaml"]) == 0
    out = capsys.readouterr().out
    assert "1 run made" in out and "1 damaged" in out


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_sweep_killed_after_half_and_resumed_gives_the_same_bytes(folder):
    """The policy kills its own process at the fifth run: no clock decides where the sweep ends."""
    (folder / "mine.py").write_text(
        "import os, signal\nfrom pathlib import Path\nfrom evenstep.routing.policies.jsq import JSQ\n"
        "class Mine(JSQ):\n    def route(self, view):\n"
        "        if len([*Path('cut.parquet.cache').rglob('*.json')]) == 5 and not Path('mark').exists():\n"
        "            Path('mark').touch()\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return super().route(view)\n"
        "policy = Mine\n"
    )
    (folder / "s.yaml").write_text(FILE.replace("[jsq, br-0]", "[mine.py]").replace("[2, 4]", "[2, 3, 4, 5]"))
    cut = subprocess.run(
        [*RUN, "s.yaml", "--out", "cut.parquet", "--processes", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert cut.returncode == -signal.SIGKILL, cut.stderr
    assert len([*(folder / "cut.parquet.cache").rglob("*.json")]) == 5
    assert not (folder / "cut.parquet").exists()
    assert main(["sweep", "s.yaml", "--out", "cut.parquet"]) == 0
    assert main(["sweep", "s.yaml", "--out", "whole.parquet"]) == 0
    assert (folder / "cut.parquet").read_bytes() == (folder / "whole.parquet").read_bytes()


def test_ctrl_c_says_what_is_kept_and_how_to_go_on(folder, capsys, monkeypatch):
    made = []

    def advance(bar, label):
        made.append(label)
        if len(made) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("evenstep.experiments.progress.Bar.advance", advance)
    assert main(["sweep", "s.yaml"]) == 130
    seen = capsys.readouterr()
    assert seen.err == (
        "evenstep sweep: interrupted; 3 runs of this call are kept in s.parquet.cache, 5 are left."
        " To go on: evenstep sweep s.yaml\n"
    )
    assert not (folder / "s.parquet").exists()
    assert main(["sweep", "s.yaml"]) == 0
    assert "8 rows; 5 runs made" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.yaml"], "expected a readable file"),
        (
            ["s.yaml", "--until", "ci(idle_share) < two"],
            "--until: position 18 of 'ci(idle_share) < two' is 'two'",
        ),
        (["s.yaml", "--until", "ci(idle) < 2%"], "Did you mean idle_share"),
        (["s.yaml", "--until", "ci(idle_share) < 2%", "--most-seeds", "1"], "--most-seeds is 1"),
        (["s.yaml", "--most-seeds", "9"], "--most-seeds is 9; expected no value without --until"),
        (["s.yaml", "--processes", "0"], "--processes is 0"),
        (["s.yaml", "--ray-address", "auto"], "--ray-address is 'auto'; expected no value without --executor ray"),
        (["s.yaml", "--executor", "ray", "--processes", "2"], "--processes is 2; expected no value with --executor ray"),
        (["s.yaml", "--executor", "rya"], "Did you mean ray?"),
        (["s.yaml", "--out", "/nowhere/at/all/x.parquet"], "/nowhere/at/all"),
        (["s.yaml", "--out", ""], "--out: file is '.'; expected a file, not a folder"),
        (["s.yaml", "--report", "/nowhere/at/all/x.html"], "--report: folder is '/nowhere/at/all'"),
        (["s.yaml", "--report", ""], "--report: file is ''"),
        (["s.yaml", "--slo", "x"], "--slo: objective is 'x'; expected ttft=SECONDS"),
        (["s.yaml", "--cache", "s.yaml"], "expected a folder that can be written to"),
        (
            ["bad.yaml"],
            "bad.yaml line 3: key is 'over.wrokers'; expected a known setting. Did you mean workers",
        ),
        (["empty.yaml"], "empty.yaml line 3: over.workers is '[]'; expected at least one value"),
    ],
)
def test_bad_input_is_exit_2_and_one_line(folder, capsys, words, message):
    for name, line in (("bad", "over: {wrokers: [2]}"), ("empty", "over: {workers: []}")):
        (folder / f"{name}.yaml").write_text(f"version: 1\nsource: sample:azure-conv\n{line}\n")
    assert main(["sweep", *words]) == 2
    seen = capsys.readouterr()
    assert seen.out == "" and seen.err.count("\n") == 1
    assert message in seen.err


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /dev/full")
@pytest.mark.parametrize("flag", ["--out", "--report"])
def test_a_full_disk_is_exit_2_and_one_line(folder, capsys, flag):
    assert main(["sweep", "s.yaml", "--cache", "cache", flag, "/dev/full"]) == 2
    seen = capsys.readouterr()
    assert seen.err.count("\n") == 1 and "No space left" in seen.err


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGTERM")
@pytest.mark.parametrize("processes", ["1", "2"])
def test_sigterm_says_what_is_kept_and_how_to_go_on(folder, capsys, monkeypatch, processes):
    made = []

    def advance(bar, label):
        made.append(label)
        if len(made) == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("evenstep.experiments.progress.Bar.advance", advance)
    assert main(["sweep", "s.yaml", "--processes", processes]) == 130
    assert "evenstep sweep: interrupted; 3 runs of this call are kept in s.parquet.cache" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) == before


def test_an_objective_is_a_column_of_a_sweep(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("sweep.yaml").write_text(
        "version: 1\nsource: sample:azure-conv\npolicies: [jsq]\nover: {load: [0.5, 0.9]}\n"
        "fixed: {workers: 4, slots: 8, limit: 200, seeds: 1}\nmetrics: [makespan_s]\n"
    )
    assert main(["sweep", "sweep.yaml", "--slo", "ttft=1s,tpot=6ms", "--format", "json", "--report", "r.html"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert all(0 < row["metrics"]["slo_share"]["mean"] <= 1 for row in found["rows"])
    assert "SLO met" in Path("r.html").read_text()
    assert main(["sweep", "sweep.yaml", "--slo", "ttft=1s,tpot=6ms"]) == 0
    assert "SLO met" in capsys.readouterr().out


def test_goodput_without_an_objective_is_refused_and_one_that_is_swept_is_not_given_twice(capsys, tmp_path):
    file = tmp_path / "sweep.yaml"
    text = "version: 1\nsource: sample:azure-conv\npolicies: [jsq]\nfixed: {limit: 20}\n"
    file.write_text(text + "over: {workers: [2, 4]}\nmetrics: [slo_share]\n")
    assert main(["sweep", str(file)]) == 2
    assert (
        "metrics is 'slo_share'; expected objectives (slo), which this metric needs. Give --slo" in capsys.readouterr().err
    )
    file.write_text(text + "over: {slo: [ttft=1, ttft=2]}\nmetrics: [slo_share]\n")
    assert main(["sweep", str(file), "--slo", "ttft=1"]) == 2
    assert "expected no value when the sweep varies over.slo" in capsys.readouterr().err


def test_a_sweep_does_not_write_over_the_trace_that_it_reads(folder, capsys):
    """The name of its data follows from that of its file, and so may be the name of the trace."""
    assert main(["trace", "convert", "sample:azure-conv", "s.parquet", "--limit", "60"]) == 0
    before = (folder / "s.parquet").read_bytes()
    (folder / "s.yaml").write_text(FILE.replace("sample:azure-conv", "s.parquet"))
    for words in (["s.yaml"], ["s.yaml", "--out", "./s.parquet"], ["s.yaml", "--dry-run"]):
        capsys.readouterr()
        assert main(["sweep", *words]) == 2
        assert "--out: file is 's.parquet'; expected a file that the command does not read." in capsys.readouterr().err
    assert (folder / "s.parquet").read_bytes() == before
    assert main(["sweep", "s.yaml", "--out", "other.parquet"]) == 0
