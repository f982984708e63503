"""Commands beside this one: ready when the block begins, gone when it ends, and heard when they cannot start."""

from __future__ import annotations

import contextlib
import os
import socket

import pytest

from evenstep.errors import EngineError
from evenstep.load import processes
from evenstep.load.models import first_model
from evenstep.load.processes import beside, cpu_s, free_ports, resident_mb
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


def test_cpu_and_memory_of_a_process_are_known_while_it_lives():
    before = cpu_s(os.getpid())
    while cpu_s(os.getpid()) == before:
        pass
    assert resident_mb(os.getpid()) > 1
    assert cpu_s(2**22 + 1) != cpu_s(2**22 + 1)  # nan: there is no such process
    assert resident_mb(2**22 + 1) != resident_mb(2**22 + 1)
