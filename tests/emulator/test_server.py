from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys

import pytest
from tests.emulator.running import FAST, running

from evenstep import sockets
from evenstep.emulator.server import Emulator, introduction
from evenstep.emulator.settings import EmulatorSettings
from evenstep.errors import InputError


def test_it_says_what_listens_where():
    async def story():
        async with running(ranks=4, groups=[2, 2], slots=3, kv_tokens=1000) as emulator:
            lines = introduction(emulator)
            assert lines[0] == (
                "4 emulated vllm ranks in 2 barrier groups of 2, 2: 3 slots and 992 KV tokens each, "
                "model emulated, role both"
            )
            assert lines[1] == f"http://127.0.0.1:{emulator.ports[0][0]}  ranks 0-3, by header X-data-parallel-rank"
        async with running(ranks=2, port_per_rank=True) as emulator:
            assert [line.split("  ")[1] for line in introduction(emulator)[1:3]] == ["rank 0", "rank 1"]

    asyncio.run(story())


def test_a_port_that_is_taken_is_one_clear_error_and_leaves_no_port_open():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        async def story():
            settings = EmulatorSettings(**{**FAST, "port": port})
            with pytest.raises(InputError, match=rf"--port is '127.0.0.1:{port}'; expected a free port"):
                await Emulator(settings).open()

        asyncio.run(story())


@pytest.mark.skipif(sys.platform == "win32", reason="two sockets are not bound to one port there")
def test_an_emulator_that_another_forestalls_at_its_port_does_not_say_that_it_listens(monkeypatch):
    other = sockets.listening("other", "127.0.0.1", 0)
    port = other.getsockname()[1]

    def forestalled(where, host, port):
        bound = sockets.listening(where, host, port)
        other.listen()
        return bound

    async def story():
        monkeypatch.setattr("evenstep.emulator.server.listening", forestalled)
        with pytest.raises(InputError, match=rf"--port is '127.0.0.1:{port}'; expected a free port"):
            await Emulator(EmulatorSettings(**{**FAST, "port": port})).open()

    with other:
        asyncio.run(story())


def test_a_law_that_does_not_fit_the_groups_is_one_clear_error_and_leaves_no_port_open():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    async def story():
        emulator = Emulator(EmulatorSettings(**{**FAST, "port": port}, sync_s="2:0.1/4:0.2"))
        with pytest.raises(InputError, match=r"group size is 1; expected a group of 2 to 4 workers") as caught:
            await emulator.open()
        with socket.socket() as again:
            again.bind(("127.0.0.1", port))
        assert caught.value.field == "group size"

    asyncio.run(story())


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("evenstep.sockets.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'evenstep\[gateway\]'"):
        Emulator(EmulatorSettings())


def test_ranks_with_ports_of_their_own_may_die_and_come_back_again_and_again_at_once():
    async def story():
        async with running(ranks=2, groups=[1, 1], port_per_rank=True) as emulator:
            fleet, port = emulator.fleet, emulator.ports[0][0]
            for end in (fleet.heal, lambda: fleet.kill([0])):
                fleet.kill([0])
                fleet.heal()
                await asyncio.sleep(0)
                fleet.heal()  # while its port is being opened
                end()
                for _ in range(9):
                    await asyncio.sleep(0)
                with socket.socket() as client:
                    assert (client.connect_ex(("127.0.0.1", port)) == 0) == (end == fleet.heal)

    asyncio.run(story())


def test_an_address_of_another_machine_is_one_clear_error():
    async def story():
        with pytest.raises(InputError, match="expected an address of this machine"):
            await Emulator(EmulatorSettings(**{**FAST, "host": "192.0.2.1"})).open()
        with pytest.raises(InputError, match="--host is 'no such name'"):
            await Emulator(EmulatorSettings(**{**FAST, "host": "no such name"})).open()

    asyncio.run(story())


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly_with_a_stream_open(number):
    engine = subprocess.Popen(
        [sys.executable, "-m", "evenstep", "emulate", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        engine.stdout.readline()
        port = int(engine.stdout.readline().split(b":")[2].split()[0])
        assert b"/emulator/fault; Ctrl-C ends" in engine.stdout.readline()
        with socket.create_connection(("127.0.0.1", port)) as client:
            body = b'{"prompt": "x", "max_tokens": 1000, "stream": true}'
            client.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            assert client.recv(20)
            os.kill(engine.pid, number)
            said = engine.communicate(timeout=60)
        assert (engine.returncode, said) == (0, (b"", b""))
    finally:
        engine.kill()


def test_a_port_that_was_taken_meanwhile_does_not_keep_other_groups_from_ending():
    async def story():
        async with running(ranks=4, groups=[2, 2], port_per_rank=True) as emulator:
            fleet = emulator.fleet
            fleet.kill([2])
            await asyncio.sleep(0)
            with socket.socket() as taken:
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                taken.bind(("127.0.0.1", emulator.ports[2][0]))
                taken.listen()
                with pytest.raises(InputError, match="a free port"):
                    fleet.heal()
                fleet.kill([0, 1])
                assert all(fleet.rank(number).dead for number in (0, 1))
                assert sorted(emulator._servers) == [3]
            fleet.heal()
            for _ in range(9):
                await asyncio.sleep(0)
            assert sorted(emulator._servers) == [0, 1, 2, 3]

    asyncio.run(story())
