"""``evenstep leaderboard``."""

from __future__ import annotations

import pytest
from tests.experiments.leaderboards import BOARD, FEW, table

from evenstep.cli.main import main
from evenstep.experiments.leaderboard.table import read_table, write_table


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (tmp_path / "b.yaml").write_text(BOARD)
    return tmp_path


def test_a_board_becomes_a_page_with_data_and_picture_and_a_check_of_it_passes(folder, capsys):
    assert main(["leaderboard", "b.yaml", *FEW, "--picture", "b.svg"]) == 0
    out = capsys.readouterr().out
    assert "wrote b.parquet (18 runs), b.md, b.svg; 18 runs made" in out
    text = (folder / "b.md").read_text()
    assert "at commit" not in text and "](b.svg)" in text and "evenstep leaderboard b.yaml --policy" in text
    made = read_table(folder / "b.parquet")
    assert len(made.cells) == 9 and made.policies[0] == "aco"
    assert main(["leaderboard", "b.yaml", *FEW, "--check", "b.parquet", "--part", "0"]) == 0
    assert "0 with other decisions, 0 orders with disjoint intervals flipped" in capsys.readouterr().out


def test_which_tenth_follows_the_day_of_the_board_where_there_is_no_commit(folder, capsys):
    write_table(table({"chat": {"jsq": [1, 2]}}), folder / "s.parquet")
    assert main(["leaderboard", "b.yaml", "--policy", "jsq", "--check", "s.parquet"]) == 0
    assert "part 5 of 10 of the board of 2026-01-02" in capsys.readouterr().out  # day 20,455


def test_a_check_of_nothing_is_refused(folder, capsys):
    write_table(table({"chat": {"jsq": [1, 2]}}), folder / "s.parquet")
    assert main(["leaderboard", "b.yaml", "--policy", "fcfs", "--check", "s.parquet"]) == 2
    seen = capsys.readouterr()
    assert "s.parquet: cells is 0; expected a policy and workload of this command. Nothing was checked." in seen.err
    assert seen.out == ""


def test_only_cells_of_the_stored_board_are_run_again(folder, capsys):
    write_table(table({"timed": {"jsq": [1, 2]}}), folder / "s.parquet")
    for part in map(str, range(10)):
        assert main(["leaderboard", "b.yaml", "--policy", "jsq", "--check", "s.parquet", "--part", part]) == 0
        assert "1 of 1 cells run again, 1 with other decisions" in capsys.readouterr().out


def test_what_is_on_one_of_board_and_page_only_is_said(folder, capsys):
    write_table(table({"chat": {"gone": [1, 2], "aco": [1, 2]}}), folder / "s.parquet")
    assert main(["leaderboard", "b.yaml", "--check", "s.parquet", "--part", "0"]) == 0
    out = capsys.readouterr().out
    assert "cells not on the published board: " in out
    assert "cells on the published board only: 1, e.g. chat, gone: make" in out


def test_a_flipped_order_fails_the_check_and_is_printed(folder, capsys):
    write_table(table({"chat": {"jsq": [1e-9, 1.1e-9], "br-0": [5, 5.1]}}), folder / "old.parquet")
    few = ["--policy", "jsq", "--workload", "chat"]
    assert main(["leaderboard", "b.yaml", *few, "--check", "old.parquet", "--part", "0"]) == 0
    capsys.readouterr()
    write_table(table({"chat": {"jsq": [5, 5.1], "br-0": [6, 6.1], "br-1": [-9, -9.1]}}), folder / "old.parquet")
    assert main(["leaderboard", "b.yaml", *few, "--check", "old.parquet", "--part", "0"]) == 0
    capsys.readouterr()
    write_table(table({"chat": {"jsq": [-5, -5.1], "br-0": [-3, -3.1]}}), folder / "old.parquet")
    assert main(["leaderboard", "b.yaml", *few, "--check", "old.parquet", "--part", "0"]) == 1
    out = capsys.readouterr().out
    assert "chat: jsq was better than br-0" in out and "1 with other decisions, 1 orders" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["b.yaml", "--policy", "jqs"], "--policy is 'jqs'; expected one on the board. Did you mean jsq?"),
        (
            ["b.yaml", "--workload", "tim"],
            "--workload is 'tim'; expected one on the board. Did you mean timed?",
        ),
        (
            ["b.yaml", "--check", "s.parquet", "--out", "x.md"],
            "--out is 'x.md'; expected no value with --check. A check writes nothing.",
        ),
        (["b.yaml", "--check", "s.parquet", "--picture", "x.svg"], "--picture is 'x.svg'; expected no value with --check."),
        (["b.yaml", "--part", "3"], "--part is 3; expected no value without --check"),
        (["b.yaml", "--check", "s.parquet", "--part", "10"], "--part is 10; expected an integer from 0 to 9"),
        (
            ["b.yaml", "--check", "none.parquet"],
            "none.parquet: file is 'none.parquet'; expected a leaderboard's",
        ),
        (["b.yaml", "--processes", "0"], "--processes is 0; expected an integer >= 1"),
        (["b.yaml", "--out", "no/b.md"], "folder is 'no'; expected a folder that exists"),
        (["none.yaml"], "none.yaml: file is 'none.yaml'; expected a readable file"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(folder, capsys, words, said):
    write_table(table({"chat": {"jsq": [1, 2]}}), folder / "s.parquet")
    assert main(["leaderboard", *words]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not (folder / "b.md").exists()


def test_a_board_does_not_write_over_the_trace_that_it_reads(folder, capsys):
    assert main(["trace", "convert", "sample:azure-conv", "b.parquet", "--limit", "60"]) == 0
    before = (folder / "b.parquet").read_bytes()
    (folder / "b.yaml").write_text(BOARD.replace("sample:azure-conv", "b.parquet"))
    assert main(["leaderboard", "b.yaml", "--policy", "jsq"]) == 2
    assert "--out: file is 'b.parquet'; expected a file that the command does not read." in capsys.readouterr().err
    assert (folder / "b.parquet").read_bytes() == before


@pytest.mark.parametrize("words", [["--out", "b.yaml"], ["--picture", "b.yaml"]])
def test_page_and_picture_have_the_endings_of_their_formats(folder, capsys, words):
    assert main(["leaderboard", "b.yaml", *FEW, *words]) == 2
    assert f"{words[0]}: file is 'b.yaml'; expected a name that ends in ." in capsys.readouterr().err
    assert (folder / "b.yaml").read_text() == BOARD
