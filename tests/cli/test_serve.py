"""``evenstep serve``: bad input is told in one line."""

from __future__ import annotations

import pytest

from evenstep.cli.main import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--port", "many"], "listen.port is 'many'"),
        (["--worker", "ftp://x"], "url is 'ftp://x'"),
        (["--policy", "jsk", "--worker", "http://127.0.0.1:1"], "Did you mean jsq"),
        (["--workers", "x"], "Did you mean --worker"),
        (["--worker", "http://127.0.0.1:1,engine=vlm", "--port", "0"], "Did you mean vllm"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(words, said, capsys):
    assert main(["serve", *words]) == 2
    text = capsys.readouterr().err
    assert said in text
    assert text.count("\n") == 1
