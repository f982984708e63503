"""``evenstep load`` as a person uses it."""

from __future__ import annotations

import json
import signal

import pyarrow.parquet as pq
import pytest
from tests.load.running import emulated

from evenstep.cli.load import _trace
from evenstep.cli.main import main
from evenstep.cli.parts.outputs import LoadBar
from evenstep.load.settings import LoadSettings

TRACE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2023-11-16 18:17:03.{i:02}00000,{5 + i},{1 + i % 4}\n" for i in range(12)
)


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    return str(path)


def test_a_trace_is_sent_and_measured_and_everything_asked_for_is_written(trace, tmp_path, capsys):
    report, rows = tmp_path / "load.html", tmp_path / "rows.parquet"
    with emulated(speed=500.0) as url:
        words = ["--url", url, "--api-key", "sesame", "--report", str(report), "--save-requests", str(rows)]
        assert main(["load", trace, *words]) == 0
        out = capsys.readouterr().out
        assert "12 of 12 good" in out
        assert str(report) in out
        assert main(["load", trace, "--url", url, "--closed", "2", "--format", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
    assert (found["completed"], found["model_id"], found["counting"]) == (12, "emulated", "usage")
    assert pq.read_table(rows).num_rows == 12
    page = report.read_text()
    assert "sesame" not in page and "sesame" not in out
    assert page.count("<svg") == 6


def test_a_run_without_a_good_answer_fails(trace, capsys):
    with emulated(speed=500.0) as url:
        assert main(["load", trace, "--url", url, "--model", "other"]) == 1
    out = capsys.readouterr().out
    assert "failed: 12 status-404" in out
    assert "status-404 (12): " in out and "`other`" in out
    assert "estimated:" not in out  # of no answer


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reports_what_was_measured_until_then(number, trace, tmp_path, monkeypatch, capsys):
    def draw(self, at):
        if at.done:
            signal.raise_signal(number)

    monkeypatch.setattr(LoadBar, "draw", draw)
    report, rows = tmp_path / "load.html", tmp_path / "rows.parquet"
    with emulated(speed=500.0) as url:
        words = ["--url", url, "--speed", "0.02", "--report", str(report), "--save-requests", str(rows)]
        assert main(["load", trace, *words]) == 130
    out = capsys.readouterr().out
    assert "of 12 good" in out and "failed" not in out
    assert "Interrupted: these figures are partial. " in out and " of 12 requests had not ended." in out
    assert report.exists() and pq.read_table(rows).num_rows == 12


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--url", "http://127.0.0.1:1"], "a server that answers"),
        (["--url", "nonsense"], "--url is 'nonsense'"),
        ([], "--url is 'missing'"),
        (["--url", "http://a", "--closed", "x"], "--closed is 'x'"),
        (["--url", "http://a", "--goodput", "ttfb:3"], "Did you mean ttft"),
        (["--url", "http://a", "--urll", "b"], "Did you mean --url"),
        (["--url", "http://a", "--report", "/no/such/folder/x.html"], "/no/such/folder"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(trace, arguments, said, capsys):
    assert main(["load", trace, *arguments]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_a_list_of_lengths_needs_a_rate_or_users(tmp_path, capsys):
    path = tmp_path / "lengths.csv"
    path.write_text("prompt_tokens,output_tokens\n5,2\n6,3\n")
    assert main(["load", str(path), "--url", "http://127.0.0.1:1", "--model", "m"]) == 2
    assert "--rate" in capsys.readouterr().err


@pytest.mark.parametrize(("more", "notes"), [({}, 1), ({"rate": 2.0}, 0), ({"closed": 4}, 0)])
def test_a_load_that_a_workload_file_asks_for_is_said_to_need_a_fleet(tmp_path, more, notes):
    file = tmp_path / "w.yaml"
    law = "{law: constant, tokens: 4}"
    arrivals = "{process: poisson, requests_per_s: 5}"
    file.write_text(
        f"version: 1\nload: 0.9\nsynthetic: {{requests: 9, prompt: {law}, output: {law}, arrivals: {arrivals}}}\n"
    )
    trace = _trace(LoadSettings(source=str(file), **more))
    assert sum("The file asks for a load of 0.9" in note for note in trace.notes) == notes


@pytest.mark.parametrize("key", ["two\nlines", "na\u00efve", "byte\udcff"])
def test_a_key_of_the_environment_that_no_header_can_hold_is_refused_unseen(key, trace, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    assert main(["load", trace, "--url", "http://127.0.0.1:9"]) == 2
    said = capsys.readouterr().err
    assert "environment: OPENAI_API_KEY is '(hidden)'; expected printable ASCII" in said
    assert key not in said


def test_white_space_around_a_key_of_the_environment_is_no_part_of_it(trace, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", "sesame\r\n")
    with emulated(speed=500.0) as url:
        assert main(["load", trace, "--url", url]) == 0
    assert "12 of 12 good" in capsys.readouterr().out
