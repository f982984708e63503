"""``evenstep emulate`` as a person uses it; that it listens and ends is tested in ``tests/emulator/test_server.py``."""

from __future__ import annotations

import pytest

from evenstep.cli.main import main


def test_help_shows_examples(capsys):
    assert main(["emulate", "--help"]) == 0
    out = capsys.readouterr().out
    assert "evenstep emulate --ranks 8 --slots 72" in out
    assert "--fault KIND[:KEY=VALUE,...]" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--ranks", "0"], "--ranks is 0"),
        (["--ranks", "x"], "--ranks is 'x'"),
        (["--rank", "3"], "Did you mean --ranks"),
        (["--ranks", "4", "--groups", "3,2"], "add up to 4 ranks"),
        (["--dialect", "tgi"], "--dialect is 'tgi'"),
        (["--fault", "dye"], "Did you mean die"),
        (["--fault", "die:after=3"], "after_tokens"),
        (["--law", "table:path=/no/such/file"], "/no/such/file"),
        (["--host", "no such name"], "--host is 'no such name'"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(arguments, said, capsys):
    assert main(["emulate", "--port", "0", *arguments]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.strip().splitlines()) == 1
