"""A gateway's first moments, while kernels are compiled."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

from evenstep import kernel_cache, sockets
from evenstep.gateway.operate.kept_kernels import is_compiled, note_compiled
from evenstep.gateway.starting import MEANWHILE, UNTIL_CHECKED, waiting_room


def asked(port, path, method="GET", body=None):
    kind = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=body, headers=kind, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_health_is_answered_and_requests_are_told_to_wait():
    bound = sockets.listening("x", "127.0.0.1", 0)
    port = bound.getsockname()[1]
    with waiting_room(bound):
        assert asked(port, "/healthz") == asked(port, "/health?x=1") == (200, b"ok")
        assert asked(port, "/readyz") == (503, b"starting")
        status, body = asked(port, "/v1/completions", "POST")
        assert status == 503 and b'"error"' in body
        assert asked(port, "/healthz", "HEAD")[1] == b""
    later = socket.create_connection(("127.0.0.1", port))  # who comes now waits for the gateway
    there, _ = bound.accept()
    for one in (later, there, bound):
        one.close()


def test_what_was_compiled_is_noted_for_the_next_start(monkeypatch, tmp_path):
    monkeypatch.setattr(kernel_cache, "place", lambda: kernel_cache.Place(False, tmp_path))
    mine = tmp_path / "mine.py"
    mine.write_text("")
    for policy in ("best", str(mine), f"{mine}:Mine", "mine.py", "jsq:ties"):  # the last is refused later
        assert not is_compiled(policy, "bounded")
        note_compiled(policy, "bounded")
        assert is_compiled(policy, "bounded")
    assert not is_compiled("best", "")
    os.utime(mine, (1, 1))  # another text
    assert not is_compiled(str(mine), "bounded")


def test_without_a_compiler_there_is_nothing_to_compile(monkeypatch, tmp_path):
    monkeypatch.setattr(kernel_cache, "place", lambda: kernel_cache.Place(False, tmp_path))
    assert not is_compiled("best", "")
    monkeypatch.setenv("EVENSTEP_PLAIN", "1")
    assert is_compiled("best", "")


def test_the_compiler_is_not_imported_to_know_what_is_compiled():
    ask = "import sys; from evenstep.gateway.starting import is_compiled; is_compiled('best', ''); print('numba' in sys.modules)"
    command = [sys.executable, "-c", ask]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stdout == "False\n"


def test_a_config_is_read_without_what_its_policy_imports():
    ask = "import sys; from evenstep.gateway.config import layers; print({'numpy', 'numba'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=False).stdout == "set()\n"


COLD = """
import sys
from contextlib import contextmanager
from evenstep.cli import main
from evenstep import kernel_cache
from evenstep.gateway import starting
sys.argv = ["evenstep", "serve", "--port", "0", "--admin-port", "0"]
starting.is_compiled = lambda policy, predictor: False
opened = starting.waiting_room
@contextmanager
def told(bound):
    with opened(bound):
        print(bound.getsockname()[1], flush=True)
        from evenstep.gateway.operate import compiling
        compiling.COMPILE = "import sys; print(sys.stdin.read())"
        yield
starting.waiting_room = told
sys.exit(main.main())
"""


@contextmanager
def cold_start(tmp_path, **more):
    """A gateway on a machine without kernels, whose compiler does not end until its stdin is closed."""
    places = dict.fromkeys(("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "XDG_STATE_HOME"), str(tmp_path / "kept"))
    env = {**os.environ, **places, **more}
    with subprocess.Popen(
        [sys.executable, "-c", COLD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    ) as process:
        yield process
        process.kill()


@pytest.fixture
def cold(tmp_path):
    with cold_start(tmp_path) as process:
        yield process


def test_the_checked_build_never_says_that_plain_python_decides(tmp_path):
    with cold_start(tmp_path, EVENSTEP_CHECKED="1") as process:
        assert process.stderr.readline().startswith("evenstep: compiling kernels")
        assert process.stderr.readline() == f"evenstep: {UNTIL_CHECKED}\n"
        port = int(process.stdout.readline())
        assert asked(port, "/v1/completions", "POST")[0] == 503


@pytest.mark.slow
def test_a_cold_start_says_so_and_answers_in_plain_python_on_the_same_port(cold):
    assert cold.stderr.readline().startswith("evenstep: compiling kernels")
    assert cold.stderr.readline() == f"evenstep: {MEANWHILE}\n"
    port = int(cold.stdout.readline())
    assert asked(port, "/healthz") == (200, b"ok")
    line = cold.stdout.readline()
    assert re.match(rf"http://127.0.0.1:{port} .*kernels: plain Python \(slow\) until they are compiled", line)
    assert asked(port, "/healthz") == (200, b"ok")
    status, body = asked(port, "/v1/models")
    assert status == 503 or b"data" in body
    admin = next(found for line in cold.stdout if (found := re.match(r"http://127.0.0.1:(\d+)/metrics", line)))[1]
    assert asked(admin, "/reload", "POST") == (
        200,
        b'{"changed": [], "joined": [], "left": [], "needs_restart": []}',
    )
    assert asked(admin, "/policy", "PUT", b'{"policy": "jsq"}') == (200, b'{"policy": "jsq", "predictor": ""}')
    assert asked(admin, "/policy", "PUT", b'{"policy": "jsk"}')[0] == 400
    cold.send_signal(signal.SIGTERM)
    assert cold.wait(60) == 0


@pytest.mark.slow
def test_an_address_is_taken_before_the_policy_is_looked_at_and_given_back_when_that_is_refused():
    with subprocess.Popen(
        [sys.executable, "-c", COLD.replace('"--port"', '"--policy", "jsk", "--port"')],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 2 and "jsk" in said
