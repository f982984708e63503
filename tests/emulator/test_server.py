from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys

import pytest
from tests.emulator.running import FAST, raw, request, running

from evenstep import sockets
from evenstep.emulator import server
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
            first, *ports, faults = introduction(emulator)
            assert [line.split("  ")[1] for line in ports] == ["rank 0", "rank 1"]
            assert first.startswith("2 emulated vllm ranks in 1 barrier group of 2: ")
            assert faults == f"faults: POST http://127.0.0.1:{emulator.ports[0][0]}/emulator/fault; Ctrl-C ends"
        async with running() as emulator:
            assert introduction(emulator)[0].startswith("1 emulated vllm rank in 1 barrier group of 1: ")

    asyncio.run(story())


def test_it_serves_from_its_last_line_until_a_signal_and_then_no_more(monkeypatch):
    lines, done, ports = [], [], []
    monkeypatch.setattr(server, "allow_files", lambda: done.append("files"))
    monkeypatch.setattr(server, "collect_rarely", lambda: done.append("collect"))

    def end():
        done.append("signal")
        signal.raise_signal(signal.SIGINT)

    def say(line):
        lines.append(line)
        if line.startswith("faults: "):
            ports.append(int(line.split(":")[3].split("/")[0]))
            socket.create_connection(("127.0.0.1", ports[0])).close()
            asyncio.get_running_loop().call_later(0.02, end)

    server.serve(EmulatorSettings(**FAST), say)
    assert done == ["files", "collect", "signal"] and len(lines) == 3
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", ports[0]))


def test_ranks_have_ports_from_the_given_one_upwards(monkeypatch):
    asked = []

    def free(where, host, port):
        asked.append(port)
        return sockets.listening(where, host, 0)

    monkeypatch.setattr(server, "listening", free)

    async def story():
        async with running(ranks=3, port=8100, port_per_rank=True):
            assert asked == [8100, 8101, 8102]

    asyncio.run(story())


def test_nothing_is_left_of_a_closed_emulator_not_even_a_port_that_was_being_opened():
    async def story():
        emulator = Emulator(EmulatorSettings(**{**FAST, "speed": 1e-3}, ranks=2, groups=[1, 1], port_per_rank=True))
        await emulator.open()
        one, two = (port for port, _ in emulator.ports)
        reader, writer = await asyncio.open_connection("127.0.0.1", two)
        writer.write(request({"prompt": "x", "max_tokens": 9, "stream": True}))
        await reader.readuntil(b"\r\n\r\n")
        emulator.fleet.kill([0])
        emulator.fleet.revive([0])
        timers = list(emulator.fleet._wishes.values())
        await emulator.close()
        assert timers and all(timer.cancelled() for timer in timers)
        assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()
        for port in (one, two):
            with pytest.raises(ConnectionError):
                await asyncio.open_connection("127.0.0.1", port)

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
            for end in (fleet.heal, lambda: fleet.kill([0]), fleet.heal):
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


def test_a_port_for_all_ranks_is_open_while_all_of_them_are_dead_so_that_they_can_be_revived_there():
    async def story():
        async with running(ranks=2) as emulator:
            emulator.fleet.kill([0, 1])
            heal = request(b"", "/emulator/fault", "DELETE", "Connection: close\r\n")
            assert (await raw(emulator, heal)).startswith(b"HTTP/1.1 200")
            assert not any(emulator.fleet.rank(number).dead for number in range(2))

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
