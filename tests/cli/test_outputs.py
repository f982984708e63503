"""What commands print and write."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.measure.test_comparison import replicates

from evenstep.cli.parts import outputs
from evenstep.errors import InputError
from evenstep.load.run import Progress
from evenstep.measure import comparison, parquet
from evenstep.measure.comparison import compare_runs


def test_a_row_of_many_policies_is_compared_with_the_first_alone(monkeypatch, capsys):
    compared, met = [], [replicates("fcfs"), replicates("even", even=True), replicates("jsq:ties=lowest")]
    asked = [SimpleNamespace(name=runs[0].conditions.policy) for runs in met]

    def counted(runs):
        compared.append([own[0].conditions.policy for own in runs])
        return compare_runs(runs)

    monkeypatch.setattr(comparison, "compare_runs", counted)
    rows = outputs.Rows(asked, None)
    for runs in met:
        rows.add(runs)
    assert compared == [["fcfs"], ["fcfs", "even"], ["fcfs", "jsq:ties=lowest"]]
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]] == ["fcfs", "even", "jsq:ties=lowest"]


def test_overload_says_what_definition_1_is():
    said = outputs.overload(compare_runs([replicates("fcfs")]))
    assert "without the requests of its most frequent prompt length" in said


def test_a_terminal_gets_lines_wrapped_between_words_and_a_file_gets_them_whole(capsys, monkeypatch):
    line = "policy  one two three report: /a/long/path-without-a-gap"
    outputs.tell([line], 8)
    assert capsys.readouterr().out == line + "\n"
    monkeypatch.setattr(outputs, "terminal_width", lambda: 20)
    outputs.tell([line], 8)
    assert capsys.readouterr().out.splitlines() == [
        "policy  one two",
        "        three",
        "        report:",
        "        /a/long/path-without-a-gap",
    ]


def test_json_is_one_line_and_refuses_nan(capsys):
    outputs.print_json({"a": 1})
    assert json.loads(capsys.readouterr().out) == {"a": 1}
    with pytest.raises(ValueError, match="not JSON compliant"):
        outputs.print_json({"a": float("nan")})


def test_an_infinity_in_json_is_an_error_of_the_input():
    with pytest.raises(InputError, match="--format json: a figure is 'infinite'; expected figures that are finite"):
        outputs.print_json({"makespan_s": float("inf")})


def test_a_policy_becomes_a_file_name():
    assert outputs.file_name("bf-io:horizon=20,discount=0.9") == "bf-io-horizon=20-discount=0.9"
    assert outputs.file_name("some/where/mine.py:Thing") == "mine.py-Thing"


def test_places_are_tried_before_a_long_run(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    outputs.check_writable("--plot", None)
    outputs.check_writable("--plot", str(tmp_path / "new.html"))
    outputs.check_folder(None)
    outputs.check_folder(str(tmp_path / "a" / "b"))
    with pytest.raises(InputError, match="^--plot: file is .*a file, not a folder"):
        outputs.check_writable("--plot", str(tmp_path))
    with pytest.raises(InputError, match="^--plot: folder is .*a folder that exists"):
        outputs.check_writable("--plot", str(tmp_path / "absent" / "x.html"))
    with pytest.raises(InputError, match="can be written to"):
        outputs.check_folder(str(file / "below"))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_old_file_in_a_folder_that_may_not_be_written_to_is_refused_before_a_long_run(tmp_path, monkeypatch):
    """It is replaced by a new one, which is written next to it. A device is written in place."""
    (tmp_path / "old.html").write_text("")
    monkeypatch.setattr(outputs.os, "access", lambda folder, mode: Path(folder) != tmp_path and str(folder) != "/dev")
    with pytest.raises(InputError, match="^--plot: folder is .*can be written to"):
        outputs.check_writable("--plot", str(tmp_path / "old.html"))
    outputs.check_writable("--plot", "/dev/null")


def test_a_report_that_cannot_be_written_is_one_clear_error(tmp_path):
    assert outputs.write_report(str(tmp_path / "r.html"), "<p>page</p>") == f"report: {tmp_path / 'r.html'}"
    assert (tmp_path / "r.html").read_text() == "<p>page</p>"
    with pytest.raises(InputError, match="a file that can be written"):
        outputs.write_report(str(tmp_path / "nowhere" / "r.html"), "<p>page</p>")


def test_versions_say_what_runs_the_kernels():
    assert set(outputs.versions()) == {"evenstep", "python", "numpy", "kernels"}


def test_records_of_an_earlier_command_in_the_same_folder_are_named(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(parquet, "write_run", lambda run, folder: written.append(folder))
    for place in ("0-jsq/replicate-0", "0-jsq/replicate-1", "1-br-0/replicate-0", "notes"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "1-file").write_text("")
    head = f"records: {tmp_path}/"
    runs = {"jsq": {"replicate-0": None}, "best": {"replicate-0": None}}
    said = "of an earlier command, and left as they were: "
    assert outputs.write_records(tmp_path, runs) == [head, said + "0-jsq/replicate-1, 1-br-0"]
    assert written == [tmp_path / "0-jsq" / "replicate-0", tmp_path / "1-best" / "replicate-0"]
    assert outputs.write_records(tmp_path, {"jsq": {"": None}, "br-0": {"": None}})[:1] == [head]
    assert written[2:] == [tmp_path / "0-jsq", tmp_path / "1-br-0"]
    kept = {"jsq": {"replicate-0": None, "replicate-1": None}, "br-0": {"replicate-0": None}}
    assert outputs.write_records(tmp_path, kept) == [head]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(stream, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream)
    bar = outputs.LoadBar()
    bar.say("starting")
    bar.draw(Progress(done=3, failed=1, running=2, total=9, tokens=50, now_s=2.0), "jsq")
    bar.end()
    return stream.getvalue()


def test_a_terminal_sees_how_far_it_is(monkeypatch):
    text = shown(Terminal(), monkeypatch)
    assert "starting" in text
    assert "jsq: 2 under way, 25 tokens/s, 1 failed" in text


def test_a_file_sees_nothing(monkeypatch):
    assert shown(io.StringIO(), monkeypatch) == ""
