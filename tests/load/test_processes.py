"""Commands beside this one: ready when the block begins, gone when it ends, and heard when they cannot start."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evenstep.errors import EngineError
from evenstep.load import processes
from evenstep.load.models import first_model
from evenstep.load.processes import beside, cpu_s, emulator, free_ports, gateway, resident_mb
from evenstep.load.settings import target_of


def test_ports_that_are_free_differ():
    assert len({*free_ports(5), *free_ports(5)}) == 10


def test_no_connection_takes_a_port_before_its_server_listens_there():
    """An engine takes seconds to start. A connection had got its port meanwhile: Linux gives those from 32768 on."""
    assert all(20_000 <= port < 32_768 for port in free_ports(20))


def test_a_port_that_is_taken_is_left_out():
    (port,) = free_ports(1)
    with socket.socket() as server, contextlib.suppress(OSError):  # OSError: it is taken already
        server.bind(("127.0.0.1", port + 1))
        assert port + 1 not in free_ports(3)


def test_a_machine_without_free_ports_says_so(monkeypatch):
    monkeypatch.setattr(processes, "_PORTS", range(20_000, 20_003))
    with pytest.raises(EngineError, match=r"no 4 free ports between 20000 and 20002"):
        free_ports(4)


def test_a_command_runs_while_the_block_does():
    (port,) = free_ports(1)
    with beside(["emulate", "--port", str(port)], port, "/health", 30.0) as pid:
        assert first_model(target_of(f"http://127.0.0.1:{port}"), None) == "emulated"
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_command_that_ends_by_itself_is_an_error_with_its_last_words():
    asked = beside(["emulate", "--ranks", "0"], 1, "/health", 30.0)
    with pytest.raises(EngineError, match=r"emulate ended with 2: .*--ranks is 0"), asked:
        pass


def test_a_command_that_is_never_ready_is_ended():
    (port,) = free_ports(1)
    asked = beside(["emulate", "--port", str(port)], port, "/no-such-path", 0.0)
    with pytest.raises(EngineError, match=r"was not ready within 0"), asked:
        pass


@pytest.fixture
def play(tmp_path, monkeypatch):
    """Let a shell script play Python; it is ready once it has made the file `ready`. Returns the folder that is `$here`."""

    def plays(script):
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\nhere={tmp_path}\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))
        monkeypatch.setattr(processes, "get", lambda target, path: (200 if (tmp_path / "ready").exists() else 503, b""))
        return tmp_path

    return plays


STUBBORN = "trap '' TERM; touch $here/ready; exec sleep 100"


def test_a_command_that_does_not_end_when_told_is_killed(play, monkeypatch):
    play(STUBBORN)
    monkeypatch.setattr(processes, "_END_S", 0.01)
    with beside(["emulate"], 1, "/health", 30.0) as pid:
        pass
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_command_that_ends_when_told_is_not_killed(play, monkeypatch):
    play("touch $here/ready; exec sleep 100")
    monkeypatch.setattr(subprocess.Popen, "kill", lambda process: pytest.fail("it was killed"))
    with beside(["emulate"], 1, "/health", 30.0):
        pass


def test_a_command_that_ends_without_a_word_is_an_error_that_says_so(play):
    play("exit 3")
    with pytest.raises(EngineError, match=r"evenstep emulate ended with 3: nothing was said$"):
        beside(["emulate"], 1, "/health", 30.0).__enter__()


def test_a_gateway_gets_its_config_after_its_policy_was_compiled_even_if_that_fails(play, monkeypatch):
    folder = play(f'if [ "$1" = -c ]; then echo "$3" > $here/compiled; exit 3; fi; cp "$5" $here/config; {STUBBORN}')
    monkeypatch.setattr(processes, "_END_S", 0.01)
    with gateway({"policy": "br-0", "slots": 4}, 81, 82, 30.0):
        assert (folder / "compiled").read_text() == "br-0\n"
        assert json.loads((folder / "config").read_text()) == {
            "version": 1,
            "listen": {"host": "127.0.0.1", "port": 81},
            "admin": {"host": "127.0.0.1", "port": 82},
            "policy": "br-0",
            "slots": 4,
        }


def test_the_words_that_start_engines():
    words = emulator(81, {"ranks": 2, "overhead-s": 0.5})
    assert words == ["emulate", "--host", "127.0.0.1", "--port", "81", "--ranks", "2", "--overhead-s", "0.5"]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="Linux only")
def test_cpu_and_memory_are_in_seconds_and_megabytes():
    before, now_s, after = time.process_time(), cpu_s(os.getpid()), time.process_time()
    assert before - 0.05 <= now_s <= after + 0.05
    lines = Path("/proc/self/status").read_text().splitlines()
    kib = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
    assert resident_mb(os.getpid()) == pytest.approx(1024 * kib / 1e6, rel=0.1)


def test_cpu_and_memory_of_a_process_are_known_while_it_lives():
    before = cpu_s(os.getpid())
    while cpu_s(os.getpid()) == before:
        pass
    assert resident_mb(os.getpid()) > 1
    assert cpu_s(2**22 + 1) != cpu_s(2**22 + 1)  # nan: there is no such process
    assert resident_mb(2**22 + 1) != resident_mb(2**22 + 1)
