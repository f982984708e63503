"""``evenstep fit step-time`` as a person uses it."""

from __future__ import annotations

import json
import os

from evenstep.cli.main import main


def write(path, slope=2e-6):
    rows = [f"{kv},{0.01 + slope * kv + 1e-4 * (kv % 7)}" for kv in range(0, 40_000, 1_000)]
    path.write_text("kv,seconds\n" + "\n".join(rows) + "\n")
    return str(path)


def test_it_says_how_good_each_fit_is_and_what_to_write(capsys, tmp_path):
    assert main(["fit", "step-time", write(tmp_path / "log.csv"), "--plot", str(tmp_path / "r.svg")]) == 0
    out = capsys.readouterr().out
    assert "affine-kv     R^2 0.9" in out and "token-budget  not fitted: the log has no tokens" in out
    assert "--batch-time affine-kv:d0_s=0.01" in out
    assert (tmp_path / "r.svg").read_bytes().startswith(b"<?xml")


def test_a_pipe_is_refused_in_words(capsys, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert main(["fit", "step-time", str(tmp_path / "pipe")]) == 2
    assert "file is 'a pipe'; expected a file. A log is read more than once" in capsys.readouterr().err


def test_json_holds_every_fit(capsys, tmp_path):
    assert main(["fit", "step-time", write(tmp_path / "log.csv"), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["iterations"] == 40 and found["fits"][0]["law"] == "affine-kv"
    assert found["batch_time"].startswith("affine-kv:")


def test_a_log_that_follows_no_law_and_a_bad_picture_are_refused(capsys, tmp_path):
    assert main(["fit", "step-time", write(tmp_path / "log.csv", slope=0.0)]) == 2
    assert "at least 0.8" in capsys.readouterr().err
    assert main(["fit", "step-time", write(tmp_path / "log.csv"), "--plot", "r.pdf"]) == 2
    assert ".svg or .png" in capsys.readouterr().err


def test_a_law_is_refused_by_itself_and_can_be_asked_for(capsys, tmp_path):
    path = tmp_path / "log.csv"
    rows = [f"{tokens},{tokens * 37 % 101},{0.02 + 1e-4 * max(0, tokens - 96)}" for tokens in range(1, 900, 7)]
    path.write_text("tokens,kv,seconds\n" + "\n".join(rows) + "\n")
    assert main(["fit", "step-time", str(path), "--law", "token-budget"]) == 0
    out = capsys.readouterr().out
    assert "affine-kv     R^2 0.0" in out and "refused: below 0.8" in out
    assert "--batch-time token-budget:c_s=0.02,a_s=0.0001,b0=96" in out
    assert main(["fit", "step-time", str(path), "--format", "json"]) == 0
    assert [fit["refused"] for fit in json.loads(capsys.readouterr().out)["fits"]] == [False, True]
    for law, said in (
        ("affine-kv", "R^2 of the fit"),
        ("regression", "the log has no requests"),
        ("affine", "affine-kv"),
    ):
        assert main(["fit", "step-time", str(path), "--law", law]) == 2
        assert said in capsys.readouterr().err


def test_a_file_in_place_of_the_verb_and_a_page_in_place_of_a_log_are_told_apart(capsys, tmp_path):
    page = tmp_path / "report.html"
    page.write_text("<!doctype html><html></html>")
    assert main(["fit", str(page)]) == 2
    assert f"expected step-time first. Write evenstep fit step-time {page}" in capsys.readouterr().err
    assert main(["fit", "step-time", str(page)]) == 2
    assert "file is 'a page'; expected a CSV log of iterations" in capsys.readouterr().err


def test_a_picture_does_not_replace_the_log(capsys, tmp_path):
    path = write(tmp_path / "log.svg")
    assert main(["fit", "step-time", path, "--plot", path]) == 2
    assert "--plot: file is " in capsys.readouterr().err
    assert (tmp_path / "log.svg").read_text().startswith("kv,seconds\n")
