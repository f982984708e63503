"""``evenstep reproduce``."""

from __future__ import annotations

import csv
import io
import json

import pytest

from evenstep import names
from evenstep.cli.main import main

NAME = "bfio-adversarial"  # the quickest


def reproduce(capsys, tmp_path, *words: str, code: int = 0) -> tuple[str, str]:
    assert main(["reproduce", *words, "--out", str(tmp_path / "out")]) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_list_names_every_experiment_with_its_source(capsys, tmp_path):
    out, _ = reproduce(capsys, tmp_path, "list")
    assert [line.split()[0] for line in out.splitlines()] == list(names.members("experiments"))
    assert "BF-IO Table 1" in out
    assert not (tmp_path / "out").exists()


def test_list_is_csv_and_json_too(capsys, tmp_path):
    rows = list(csv.DictReader(io.StringIO(reproduce(capsys, tmp_path, "list", "--format", "csv")[0])))
    found = json.loads(reproduce(capsys, tmp_path, "list", "--format", "json")[0])
    assert [row["name"] for row in rows] == [row["name"] for row in found["experiments"]]


def test_a_run_prints_the_table_and_says_what_it_wrote(capsys, tmp_path):
    out, err = reproduce(capsys, tmp_path, NAME, "--quick")
    assert "QUICK" in out and "free constants" in out and "stands in" in out
    assert err == ""
    for ending in ("svg", "png", "parquet", "html"):
        path = tmp_path / "out" / f"{NAME}-quick.{ending}"
        assert path.exists()
        assert str(path) in out


@pytest.mark.parametrize(
    "form",
    ["csv", pytest.param("latex", marks=pytest.mark.slow), pytest.param("json", marks=pytest.mark.slow)],
)
def test_other_formats_have_stdout_for_themselves(capsys, tmp_path, form):
    out, err = reproduce(capsys, tmp_path, NAME, "--quick", "--format", form, "--seeds", "1")
    assert "wrote" in err and "wrote" not in out
    if form == "csv":
        assert {row["experiment"] for row in csv.DictReader(io.StringIO(out))} == {NAME}
    elif form == "latex":
        assert out.rstrip().endswith(r"\end{tabular}")
    else:
        found = json.loads(out)
        assert found["command"].startswith("evenstep reproduce")
        assert found["quick"] is True
        assert found["versions"]["evenstep"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bfio-table-1"], "Did you mean bfio-table1"),
        ([NAME, "--seeds", "0"], "--seeds is 0; expected an integer >= 1"),
        ([NAME, "--processes", "0"], "--processes is 0"),
        ([NAME, "--trace", "x.csv"], "makes its own instance"),
        (["bfio-table1", "--quick", "--trace", "missing.csv"], "missing.csv: file is 'missing'"),
        (["bfio-table1", "--trace", "a", "--trace", "b"], "at most 1 for bfio-table1"),
        ([NAME, "--format", "pdf"], "--format is 'pdf'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys, tmp_path, words, said):
    out, err = reproduce(capsys, tmp_path, *words, code=2)
    assert said in err
    assert err.count("\n") == 1
    assert out == ""


def test_a_folder_that_is_a_file_is_refused_before_the_run(capsys, tmp_path):
    (tmp_path / "out").write_text("x")
    _, err = reproduce(capsys, tmp_path, NAME, "--quick", code=2)
    assert "a folder that can be written to" in err


@pytest.mark.parametrize("form", ["table", "csv", "latex", "json"])
def test_all_is_no_bug_of_ours_if_every_experiment_fails(capsys, tmp_path, monkeypatch, form):
    monkeypatch.setattr(names, "members", lambda room: ("reproduce",))  # which is no experiment
    assert main(["reproduce", "all", "--quick", "--out", str(tmp_path), "--format", form]) == 1
    assert "1/1 reproduce: did not run: experiment: name is 'reproduce'" in capsys.readouterr().err
