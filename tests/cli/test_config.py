"""``evenstep config print`` as a person uses it."""

from __future__ import annotations

import json

import pytest

from evenstep.cli.main import main


def test_it_shows_each_value_with_its_origin(capsys, monkeypatch):
    monkeypatch.setenv("EVENSTEP_SLOTS", "7")
    assert main(["config", "print", "--port", "1", "--format", "json"]) == 0
    rows = {row["setting"]: (row["value"], row["origin"]) for row in json.loads(capsys.readouterr().out)}
    assert rows["listen.port"] == (1, "command line --port")
    assert rows["slots"] == (7, "environment EVENSTEP_SLOTS")
    assert rows["policy"] == ("best", "default")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["print", "--config", "/no/such/file.yaml"], "/no/such/file.yaml"),
        (["print", "--port", "x"], "command line --port: listen.port is 'x'; expected an integer."),
        (["print", "--worker", "a"], "worker a: url is 'a'"),
        (["show"], "word is 'show'; expected print first"),
        ([], "print is 'missing'"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(words, said, capsys):
    assert main(["config", *words]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.strip().splitlines()) == 1
