from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evenstep.cli.main import main
from evenstep.workload.readers import parquet
from evenstep.workload.reading import read_trace

SAMPLES = Path(__file__).parents[1] / "workload" / "samples"


def test_inspect_prints_a_table_with_the_notes(capsys):
    assert main(["trace", "inspect", "sample:azure-conv"]) == 0
    out = capsys.readouterr().out
    assert "3,000" in out and "4.77 requests/s" in out and "p95 4,080" in out


@pytest.mark.slow
def test_inspect_as_json_is_one_object_and_nothing_else(capsys, tmp_path):
    words = [
        "trace",
        "inspect",
        str(SAMPLES / "lmcache.jsonl"),
        "--format",
        "json",
        "--plot",
        str(tmp_path / "p.html"),
    ]
    assert main(words) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert (found["rows"], found["sessions"]["count"]) == (8, 3)
    assert any("2 of 10 rows have an empty output" in note for note in found["notes"])
    assert captured.err == ""
    assert (tmp_path / "p.html").exists()


@pytest.mark.parametrize("name", sorted(f.name for f in SAMPLES.iterdir()))
def test_inspect_works_on_every_format(name, capsys):
    assert main(["trace", "inspect", str(SAMPLES / name)]) == 0
    assert name in capsys.readouterr().out or name == "parquet.parquet"


def test_rates_alone_can_be_inspected_and_not_converted(capsys, tmp_path):
    path = str(SAMPLES / "servegen_rates.tar.gz")
    assert main(["trace", "inspect", path, "--plot", str(tmp_path / "c.svg")]) == 0
    assert "Rates only" in capsys.readouterr().out
    assert main(["trace", "convert", path, str(tmp_path / "x.parquet")]) == 2
    assert "rates only" in capsys.readouterr().err


def test_a_workload_file_is_inspected_as_its_first_draw(capsys):
    path = Path(__file__).parents[2] / "examples" / "workloads" / "recurring.yaml"
    assert main(["trace", "inspect", str(path), "--limit", "300", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["format"], found["rows"]) == ("synthetic", 300)


def test_convert_writes_what_was_read_and_says_what_was_dropped(capsys, tmp_path):
    out = tmp_path / "x.parquet"
    assert main(["trace", "convert", str(SAMPLES / "burstgpt.csv"), str(out), "--limit", "5"]) == 0
    said = capsys.readouterr().out
    assert "2 of 10 rows have 0 tokens" in said and "5 requests written" in said
    assert read_trace(out).prompt_tokens.tolist() == read_trace(SAMPLES / "burstgpt.csv", limit=5).prompt_tokens.tolist()


def test_converted_to_a_pipe_the_file_is_alone_in_it(capsys, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        whole = pool.submit(pipe.read_bytes)
        assert main(["trace", "convert", str(SAMPLES / "burstgpt.csv"), str(pipe)]) == 0
        assert whole.result()[-4:] == b"PAR1"
    captured = capsys.readouterr()
    assert captured.out == "" and "8 requests written" in captured.err


def test_skipped_rows_are_counted_in_the_answer(capsys, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("prompt,output\n1,2\n-1,2\n")
    assert main(["trace", "inspect", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "x.csv:3: prompt is '-1'" in error
    assert main(["trace", "inspect", str(path), "--skip-bad-rows"]) == 0
    assert "1 bad row was skipped" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["inspect", "no-such-file"],
        ["inspect", str(SAMPLES)],
        ["inspect", "sample:azure-con"],
        ["inspect", str(SAMPLES / "azure.csv"), "--limit", "0"],
        ["inspect", str(SAMPLES / "azure.csv"), "--limit", "some"],
        ["inspect", str(SAMPLES / "azure.csv"), "--format-name", "azur"],
        ["inspect", str(SAMPLES / "azure.csv"), "--plot", "x.gif"],
        ["inspect", str(SAMPLES / "azure.csv"), "--plot", "/no/such/folder/x.svg"],
        ["convert", str(SAMPLES / "azure.csv"), "x.csv"],
        ["convert", str(SAMPLES / "azure.csv"), "/no/such/folder/x.parquet"],
        ["inspct", "x"],
        [],
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(words, capsys):
    assert main(["trace", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


def test_any_csv_is_read_by_naming_its_columns(capsys, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("ts,in,out\n2000,50,8\n3500,30,9\n")
    words = ["trace", "inspect", str(path), "--columns", "prompt=in,output=out,time=ts,unit=ms"]
    assert main([*words, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["span_s"] == 1.5
    assert main([*words, "--format-name", "lengths"]) == 2
    assert "expected no value with --columns" in capsys.readouterr().err
    assert main(["trace", "inspect", str(path), "--columns", "in"]) == 2
    assert "--columns is 'in'; expected KEY=NAME" in capsys.readouterr().err


SCALED = """version: 1
%s
synthetic:
  requests: 1000
  prompt: {law: constant, tokens: 100}
  output: {law: constant, tokens: 10}
  arrivals: {process: poisson, requests_per_s: 2}
"""


def test_a_workload_file_is_shown_and_written_at_its_own_rate(capsys, tmp_path):
    path, out = tmp_path / "w.yaml", tmp_path / "x.parquet"
    path.write_text(SCALED % "requests_per_s: 50")
    assert main(["trace", "inspect", str(path), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["requests_per_s"] == pytest.approx(50)
    assert main(["trace", "convert", str(path), str(out)]) == 0
    assert read_trace(out).arrival_s[-1] == pytest.approx(999 / 50)


def test_a_load_that_needs_a_fleet_is_named_and_not_applied(capsys, tmp_path):
    path = tmp_path / "w.yaml"
    path.write_text(SCALED % "load: 0.9")
    assert main(["trace", "inspect", str(path)]) == 0
    assert "load of 0.9: that needs a fleet" in capsys.readouterr().out


def test_neither_verb_writes_over_the_file_that_it_reads(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["trace", "convert", "sample:azure-conv", "x.parquet"]) == 0
    trace = Path("x.parquet").read_bytes()
    Path("x.svg").write_bytes(trace)
    capsys.readouterr()
    for words in (["convert", "x.parquet", "x.parquet", "--limit", "5"], ["inspect", "x.svg", "--plot", "x.svg"]):
        assert main(["trace", *words]) == 2
        assert "expected a file that the command does not read" in capsys.readouterr().err
    assert Path("x.parquet").read_bytes() == Path("x.svg").read_bytes() == trace


def test_inspect_shows_a_file_name_with_brackets_whole(tmp_path, capsys):
    file = tmp_path / "a[bold]b.csv"
    file.write_bytes((SAMPLES / "azure.csv").read_bytes())
    assert main(["trace", "inspect", str(file)]) == 0
    assert capsys.readouterr().out.startswith("file                   a[bold]b.csv (azure)\n")


def test_a_tar_of_clients_is_drawn_from_if_a_format_is_named(capsys):
    file = str(SAMPLES / "servegen.tar.gz")
    assert main(["trace", "inspect", file, "--format-name", "servegen:start_s=0,duration_s=60", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["span_s"] < 60
    for more in (["--format-name", "azure"], ["--columns", "prompt=a,output=b"]):
        assert main(["trace", "inspect", file, *more]) == 2


def test_convert_writes_through_a_link_and_leaves_the_old_file_if_the_disk_is_full(tmp_path, monkeypatch, capsys):
    old, link = tmp_path / "old.parquet", tmp_path / "link.parquet"
    old.write_bytes(b"old")
    link.symlink_to(old)
    words = ["trace", "convert", str(SAMPLES / "azure.csv"), str(link)]

    def full(trace):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(parquet, "packed", full)
        assert main(words) == 2
    assert "No space left on device" in capsys.readouterr().err and old.read_bytes() == b"old"
    assert main(words) == 0
    assert link.is_symlink() and len(read_trace(old)) == 10
    assert sorted(tmp_path.iterdir()) == [link, old]
