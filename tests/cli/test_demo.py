"""``evenstep demo`` as a person uses it."""

from __future__ import annotations

import json

import pytest

from evenstep.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--policy", "jsk"], "jsk"),
        (["--policy", "best@soon"], "gather is 'soon'"),
        (["--requests", "0"], "--requests is 0"),
        (["--report", "/no/such/folder/x.html"], "/no/such/folder"),
        (["--source", "sample:azure-con"], "azure-conv"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(arguments, said, capsys):
    assert main(["demo", *arguments]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.slow
def test_the_demonstration_shows_each_policy_and_leaves_a_report(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    fleet = ["--ranks", "2", "--slots", "4", "--overhead-s", "0.002", "--requests", "32"]
    words = [*fleet, "--policy", "jsq", "--policy", "br-0@0"]
    assert main(["demo", *words]) == 0
    out = capsys.readouterr().out
    assert [text.split()[0] for text in out.splitlines()[2:4]] == ["jsq", "br-0@0"]
    assert "tokens/s" in out
    assert "tokens a second" in (tmp_path / "evenstep-demo.html").read_text()
    assert main(["demo", *words[:-2], "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["policies"]
    assert found["client"]["completed"] == 32
    assert 0 <= found["idle_engines"] < 1
    assert 0 <= found["idle_gateway"] < 1
    assert found["oldest_wait_s"] >= 0
