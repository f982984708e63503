"""``evenstep serve``: bad input is told in one line."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from evenstep.cli.main import main
from evenstep.gateway import starting


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--port", "many"], "listen.port is 'many'"),
        (["--worker", "ftp://x"], "command line --worker, worker ftp://x: url is 'ftp://x'"),
        (["--admin-host", "0.0.0.0", "--port", "0"], "command line --admin-host: admin.host is '0.0.0.0'"),
        (["--log-decisions", "/no/folder/log", "--port", "0"], "line --log-decisions: decisions.path is '/no/folder/log'"),
        (["--policy", "jsk", "--worker", "http://127.0.0.1:1"], "Did you mean jsq"),
        (["--workers", "x"], "Did you mean --worker"),
        (["--worker", "http://127.0.0.1:1,engine=vlm", "--port", "0"], "Did you mean vllm"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(words, said, capsys, monkeypatch):
    monkeypatch.setattr(starting, "is_compiled", lambda policy, predictor: True)  # else another line says what it waits for
    assert main(["serve", *words]) == 2
    text = capsys.readouterr().err
    assert said in text
    assert text.count("\n") == 1


#: A start that is told to end while a module is imported, which takes the exception of a signal for a fault of its own.
TOLD = """
import signal
from evenstep.cli.main import main
from evenstep.{module} import {name}
def told(*given):
    try:
        signal.raise_signal({number})
    except BaseException:
        pass
{name}.{function} = told
raise SystemExit(main([{command!r}, "--port", "0"]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals end the process there")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "start",
    [
        {"command": "serve", "module": "gateway.config.layers", "name": "Sources", "function": "settled"},
        {"command": "emulate", "module": "emulator", "name": "settings", "function": "checked"},
    ],
    ids=["serve", "emulate"],
)
def test_a_signal_before_it_serves_ends_it_cleanly(number, start):
    code = TOLD.format(number=int(number), **start)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


#: What a start without the packages of the extra looks like: no finder knows them.
WITHOUT = """
import importlib.machinery, sys
find = importlib.machinery.PathFinder.find_spec
def without(name, path=None, target=None):
    return None if name.partition(".")[0] in {gone!r} else find(name, path, target)
importlib.machinery.PathFinder.find_spec = without
from evenstep.cli.main import main
raise SystemExit(main({words!r}))
"""


@pytest.mark.parametrize("gone", [("httptools", "aiohttp", "uvloop"), ("aiohttp",)])
@pytest.mark.parametrize(
    "words",
    [
        ["serve", "--port", "0"],
        ["demo", "--help"],
        *(pytest.param(one, marks=pytest.mark.slow) for one in (["config", "print"], ["demo"], ["load", "--help"])),
    ],
)
def test_without_the_gateway_extra_it_says_what_to_install(gone, words):
    code = WITHOUT.format(gone=gone, words=words)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "bug of evenstep" not in ended.stderr
    if ended.returncode:
        assert ended.returncode == 2
        assert ended.stderr.count("\n") == 1 and "pip install 'evenstep[gateway]'" in ended.stderr
    assert ended.returncode == 2 or words[0] != "serve"


@pytest.mark.parametrize(
    "words", [["load", "nobody.csv", "--url", "http://nobody"], ["network", "run", "nobody.yaml", "--live"]]
)
def test_clients_of_the_gateway_say_what_to_install_before_they_read_a_file(words):
    code = WITHOUT.format(gone=("httptools",), words=words)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "pip install 'evenstep[gateway]'" in ended.stderr
