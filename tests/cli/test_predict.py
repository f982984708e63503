"""``evenstep predict`` as a person uses it."""

from __future__ import annotations

import json

import pytest

from evenstep.cli.main import main


def run(*arguments):
    return main(["predict", "evaluate", "sample:azure-conv", "--limit", "300", *arguments])


def test_it_prints_a_row_for_each_predictor_and_horizon(capsys):
    assert run("--horizon", "20", "--horizon", "40") == 0
    out = capsys.readouterr().out
    rows = [line.split()[:2] for line in out.splitlines() if line.startswith(("survival ", "memorised "))]
    assert rows == [["survival", "20"], ["survival", "40"], ["memorised", "20"], ["memorised", "40"]]
    assert "note: The trace has no prompt keys" in out


def test_json_is_one_object_and_a_report_is_written(capsys, tmp_path):
    place = tmp_path / "page.html"
    assert (
        run(
            "--predictor",
            "bounded:of=survival",
            "--horizon",
            "20",
            "--format",
            "json",
            "--report",
            str(place),
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["scores"][0]["predictor"] == "bounded:of=survival"
    assert 0 < found["scores"][0]["auc"] <= 1
    assert "Predictors on" in place.read_text()


def test_what_an_unknown_format_is_told_to_do_can_be_done(capsys, tmp_path):
    trace = tmp_path / "trace.txt"
    trace.write_text("what is this\n")
    assert main(["predict", "evaluate", str(trace)]) == 2
    assert "Name it with --format-name" in capsys.readouterr().err
    assert main(["predict", "evaluate", str(trace), "--format-name", "azure"]) == 2
    assert "unknown flag" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--predictor", "survivle"), "Did you mean survival"),
        (("--predictor", "survival:window=0"), "window is 0"),
        (("--predictor", "oracle"), "one that does not know the answers"),
        (("--horizon", "0"), "horizon is 0"),
        (("--horizon", "x"), "--horizon"),
        (("--horizon", "99999999999999999999"), "horizon is 99999999999999999999; expected an integer from 1 to"),
        (("--train-share", "2"), "train-share is 2"),
        (("--predictor", "survival", "--predictor", "survival"), "expected each predictor once"),
        (("--seed", "-1"), "--seed is -1; expected a whole number >= 0"),
        (("--report", "/no/such/folder/x.html"), "folder"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(arguments, said, capsys):
    assert run(*arguments) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.strip().splitlines()) == 1
