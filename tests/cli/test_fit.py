"""``evenstep fit step-time`` as a person uses it."""

from __future__ import annotations

import json

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
