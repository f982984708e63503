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

import pytest

from evenstep import kernel_cache, names, sockets
from evenstep.gateway.operate.kept_kernels import is_compiled
from evenstep.gateway.starting import WaitingRoom


def asked(port, path, method="GET"):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_health_is_answered_and_requests_are_told_to_wait():
    bound = sockets.listening("x", "127.0.0.1", 0)
    port = bound.getsockname()[1]
    with WaitingRoom(bound):
        assert asked(port, "/healthz") == asked(port, "/health?x=1") == (200, b"ok")
        assert asked(port, "/readyz") == (503, b"compiling kernels")
        status, body = asked(port, "/v1/completions", "POST")
        assert status == 503 and b'"error"' in body
        assert asked(port, "/healthz", "HEAD")[1] == b""
    later = socket.create_connection(("127.0.0.1", port))  # who comes now waits for the gateway
    there, _ = bound.accept()
    for one in (later, there, bound):
        one.close()


class Kept:
    """A cache in which all kernels are, but for those of these sources."""

    is_kept = True

    def __init__(self, lacks=""):
        self.lacks = lacks

    def has(self, source):
        return source.stem != self.lacks

    def said(self):
        return ""


@pytest.mark.parametrize(("lacks", "is_there"), [("", True), ("best", False), ("relaying", False)])
def test_what_is_on_disk_is_seen(monkeypatch, lacks, is_there):
    names.build("routing", {"name": "best"})  # a first import may compile, and then asks the real place
    monkeypatch.setattr(kernel_cache, "place", lambda: Kept(lacks))
    assert is_compiled("best") is is_there
    assert is_compiled("jsq") is (lacks != "relaying")


def test_without_a_compiler_there_is_nothing_to_wait_for(monkeypatch):
    monkeypatch.setattr(kernel_cache, "place", lambda: Kept("relay_kernel"))
    monkeypatch.setenv("EVENSTEP_PLAIN", "1")
    assert is_compiled("best")


COLD = """
import sys
from evenstep.cli import main
from evenstep.gateway import starting
starting.COMPILE = "import sys, time; sys.stdin.read()"
starting.is_compiled = lambda policy: False
sys.argv = ["evenstep", "serve", "--port", "0", "--admin-port", "0"]
bound = starting.WaitingRoom.__init__
def told(self, listening):
    bound(self, listening)
    print(listening.getsockname()[1], flush=True)
starting.WaitingRoom.__init__ = told
sys.exit(main.main())
"""


def test_a_cold_start_says_so_first_answers_health_and_ends_at_a_signal():
    with subprocess.Popen(
        [sys.executable, "-c", COLD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stderr.readline().startswith("evenstep: compiling kernels")
        assert asked(int(process.stdout.readline()), "/healthz") == (200, b"ok")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr.read() == ""


def test_a_cold_start_becomes_the_gateway_on_the_same_port(tmp_path):
    code = COLD.replace("sys.stdin.read()", "pass")
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
    ) as process:  # fmt: skip
        try:
            port = int(process.stdout.readline())
            line = process.stdout.readline()
            assert re.match(rf"http://127.0.0.1:{port} ", line), line
            assert asked(port, "/healthz") == (200, b"ok")
        finally:
            process.terminate()
            process.wait(60)
