"""Listening and ending."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.emulator.running import running, url
from tests.gateway.running import (
    DONE,
    END,
    EVENTS,
    chunk,
    config_of,
    engine,
    framed,
    raw,
    request,
    serving,
    until,
)

from evenstep import sockets
from evenstep.errors import InputError
from evenstep.gateway import server as server_module
from evenstep.gateway.config.sections import Listen, Tls
from evenstep.gateway.config.worker import Worker
from evenstep.gateway.server import Server, _few_files, _say_when_ready, _until_signal, introduction

BODY = {"model": "emulated", "prompt": "x", "max_tokens": 40, "stream": True, "ignore_eos": True}


def test_a_port_that_is_taken_and_an_address_that_is_not_ours_are_told():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for listen, word in (
            (Listen(port=taken.getsockname()[1]), "--port"),
            (Listen(host="no.such.host.invalid"), "--host"),
        ):
            with pytest.raises(InputError, match=word):
                asyncio.run(Server(config_of(listen=listen)).open())


def test_a_worker_that_cannot_be_is_told_before_anything_listens():
    with pytest.raises(InputError, match="vlm"):
        asyncio.run(Server(config_of(Worker(url="http://h:1", engine="vlm"))).open())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"workers": [Worker("http://h:1", api_key="env:NO_SUCH_KEY")]}, "api_key is 'env:NO_SUCH_KEY'"),
        ({"tokenizers": {"m": "/no/such.json"}}, "tokenizers.m"),
        ({"listen": Listen(tls=Tls("/no/such.pem"))}, "listen.tls: certificate is '/no/such.pem'"),
    ],
)
def test_what_cannot_be_read_is_told_before_anything_listens(settings, said):
    bound = sockets.listening("test", "127.0.0.1", 0)
    with pytest.raises(InputError, match=said):
        asyncio.run(Server(config_of(**settings), bound=bound).open())
    assert bound.fileno() == -1


def test_a_port_that_another_process_listens_at_by_now_is_told():
    bound = sockets.listening("test", "127.0.0.1", 0)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(bound.getsockname())
        other.listen()
        with pytest.raises(InputError, match="--port"):
            asyncio.run(Server(config_of(), bound=bound).open())


@pytest.mark.parametrize("begins_plain", [True, False])
def test_it_is_ready_when_kernels_are_there_and_has_workers_before_that_only_if_plain_python_decides(
    begins_plain, monkeypatch
):
    compiled = asyncio.Event()

    async def waits(_rules) -> None:
        await compiled.wait()

    async def story() -> None:
        monkeypatch.setattr(server_module, "compile_and_warm", waits)
        server = Server(config_of("http://127.0.0.1:1"))
        server.begins_plain = begins_plain
        await server.open()
        gives_up, ready = (asyncio.create_task(server.ready()) for _ in range(2))
        await asyncio.sleep(0.02)
        gives_up.cancel()
        if begins_plain:
            await until(lambda: server.gateway.pools.workers)
        assert not ready.done() and bool(server.gateway.pools.workers) == begins_plain
        compiled.set()
        await ready
        assert gives_up.cancelled() and len(server.gateway.workers()) == 1
        await server.close()

    asyncio.run(asyncio.wait_for(story(), 60))


def test_what_compiles_ends_with_the_server(monkeypatch):
    ended = list[bool]()

    async def waits(_rules) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def story() -> None:
        monkeypatch.setattr(server_module, "compile_and_warm", waits)
        server = Server(config_of())
        server.begins_plain = False
        await server.open()
        await asyncio.sleep(0)
        await server.close()
        assert ended == [True]

    asyncio.run(asyncio.wait_for(story(), 60))


@pytest.mark.parametrize("end", ["drain", "close"])
def test_after_its_end_no_client_is_connected_or_can_connect(end):
    async def story() -> None:
        bound = sockets.listening("test", "127.0.0.1", 0)
        server = Server(config_of(), bound=bound)
        await server.open()
        assert server.port == bound.getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        await until(lambda: server.gateway.front.clients)
        await (server.drain(0.0) if end == "drain" else server.close())
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", server.port)
        await server.close()

    asyncio.run(asyncio.wait_for(story(), 60))


def test_what_was_assumed_is_said():
    one, two = Worker(url="http://a:1"), Worker(url="http://b:1")
    said = "\n".join(introduction(Server(config_of(one, two))))
    assert "slots: 256" in said
    assert "2 barrier groups" in said
    assert "--group" in said
    groups = [Worker(url=f"http://{h}:1", group="g", slots=4) for h in "ab"]
    said = "\n".join(introduction(Server(config_of(*groups, Worker(url="http://p:1", role="prefill", slots=4)))))
    assert "slots:" not in said
    assert "1 barrier group\n" in said + "\n"
    assert "1 of them prefill" in said


@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits")
def test_too_few_open_files_for_all_clients_are_told_with_what_to_raise(monkeypatch):
    import resource

    limits = [(256, 1000)]
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _kind, new: limits.append(new))
    (line,) = _few_files(20_000)
    assert limits[-1] == (1000, 1000)
    assert all(said in line for said in ("open files: 1000,", "to 40100,", "limits.connections to 450"))
    assert _few_files(450) == []
    limits.append((256, 1 << 20))
    assert _few_files(100_000) == []
    assert limits[-1] == (200_100, 1 << 20)


@pytest.mark.slow
def test_the_process_lets_a_stream_end_after_sigterm_and_exits_with_0(tmp_path):
    """The real process, its real signals, an engine in this one."""

    async def story():
        async with running(overhead_s=0.5) as emulator:
            flags = ["--port", "0", "--worker", url(emulator), "--policy", "jsq", "--admin-port", "0"]
            command = [sys.executable, "-m", "evenstep", "serve", *flags]
            env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
            watchdog = threading.Timer(60, process.kill)
            watchdog.start()
            try:
                line = await asyncio.to_thread(process.stdout.readline)
                assert line.startswith("http://127.0.0.1:"), (
                    line,
                    process.stderr.read() if process.poll() else "",
                )

                class There:
                    port = int(line.split()[0].rpartition(":")[2])

                while b"200 OK" not in await raw(There, request(b"", "/readyz", "GET", "Connection: close\r\n")):
                    await asyncio.sleep(0.05)
                reader, writer = await asyncio.open_connection("127.0.0.1", There.port)
                writer.write(request(BODY))
                begun = await reader.readuntil(b"data: ")
                process.send_signal(signal.SIGTERM)
                rest = await reader.read()
                assert (begun + rest).count(b"data: ") == 41
                assert await asyncio.to_thread(process.wait) == 0
                writer.close()
            finally:
                watchdog.cancel()
                process.kill()
                process.stdout.close()
                process.stderr.close()

    asyncio.run(story())


HUNG_UP = """
import os, signal
from evenstep.cli.main import main
from evenstep.gateway.config.layers import Sources
settled = Sources.settled
def hung_up(*given):
    Sources.settled = settled
    os.kill(os.getpid(), signal.SIGHUP)
    return settled(*given)
Sources.settled = hung_up
raise SystemExit(main())
"""


TOLD = """
import os, signal
from evenstep.cli.main import main
from evenstep.gateway.server import Server
opened = Server.open
def told(self):
    os.kill(os.getpid(), signal.{name})
    return opened(self)
Server.open = told
raise SystemExit(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_while_the_port_is_opened_ends_it_cleanly(name, tmp_path):
    command = [sys.executable, "-c", TOLD.format(name=name), "serve", "--port", "0", "--policy", "jsq", "--admin-port", "0"]
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=60)
    assert (ended.returncode, ended.stdout.splitlines()[-1]) == (
        0,
        "draining: nothing new is accepted; once more ends at once",
    )
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
def test_a_reload_that_is_asked_for_during_the_start_follows_it(tmp_path):
    command = [sys.executable, "-c", HUNG_UP, "serve", "--port", "0", "--policy", "jsq", "--admin-port", "0"]
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    try:
        said = next((line for line in process.stdout if "config reloaded" in line), "")
        assert said, process.wait()
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait() == 0
    finally:
        watchdog.cancel()
        process.kill()
        process.stdout.close()


BROKEN = """
from evenstep.cli.main import main
from evenstep.errors import PolicyError
from evenstep.gateway.serve import gateway
from evenstep.gateway.operate import compiling
def broken(*_):
    raise {error}
{where} = broken
raise SystemExit(main())
"""


@pytest.mark.parametrize(
    ("where", "error", "said", "code"),
    [
        ("compiling.warm", "ValueError('no such kernel')", "evenstep: ValueError: no such kernel.", 70),
        pytest.param(
            *("compiling.warm", "SystemExit(3)", "a policy, or a module it imports, exits Python with 3", 2),
            marks=pytest.mark.slow,
        ),
        ("gateway.Gateway.start", "OSError(12, 'Cannot allocate memory')", "Cannot allocate memory", 2),
        pytest.param(
            *("gateway.Gateway.start", "PolicyError('jsq is not what it was')", "jsq is not what it was", 2),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_start_that_fails_in_the_background_ends_the_process_with_one_error(where, error, said, code, tmp_path):
    process = subprocess.run(
        [
            sys.executable,
            "-c",
            BROKEN.format(where=where, error=error),
            "serve",
            "--port",
            "0",
            "--policy",
            "jsq",
            "--worker",
            "http://127.0.0.1:1",
            "--admin-port",
            "0",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
    )
    assert process.returncode == code
    errors = [line for line in process.stderr.splitlines() if said in line]
    assert len(errors) == 1 and "Traceback" not in process.stderr
    assert "never retrieved" not in process.stderr and "ready:" not in process.stdout


@pytest.mark.parametrize("begins_plain", [True, False])
@pytest.mark.parametrize(("workers", "counted"), [(["a"], "1 worker"), (["a", "b"], "2 workers")])
def test_it_says_once_that_it_is_ready_and_after_a_plain_start_when_compiled_code_decides(
    begins_plain, workers, counted, monkeypatch
):
    monkeypatch.setattr(server_module, "_LOOK_S", 0.0)
    whys, said = ["starting", "no worker", ""], list[str]()

    async def ready() -> None:
        said.append("compiled")

    pools = [SimpleNamespace(name="m", backends=workers), SimpleNamespace(name="left", backends=[])]
    front, all_ = SimpleNamespace(not_ready=lambda: whys.pop(0)), SimpleNamespace(all=pools)
    gateway = SimpleNamespace(front=front, pools=all_, workers=lambda: workers)
    asyncio.run(_say_when_ready(SimpleNamespace(begins_plain=begins_plain, gateway=gateway, ready=ready), said.append))
    more = ["compiled", "kernels are compiled: from now on compiled code decides"] if begins_plain else []
    assert said == [f"ready: m on {counted}", *more]


def ending(monkeypatch, drain_s: float, told) -> list[str]:
    """Run ``told(client's reader, end, end at once, go on)`` while a stream runs, until the server has ended; what it said."""
    said, go_on = list[str](), asyncio.Event()

    async def slow(number, head, body, writer):
        writer.write(EVENTS + framed(chunk(" a", 1)))
        await go_on.wait()
        writer.write(framed(chunk(" b", 2, "length")) + framed(DONE) + END)

    async def story() -> None:
        async with engine(slow) as one, serving(one.url) as server:
            gateway, ends, at_once = server.gateway, asyncio.Event(), asyncio.Event()
            task = asyncio.create_task(_until_signal(server, said.append, ends, at_once))
            gateway.reload(replace(gateway.config, limits=replace(gateway.config.limits, drain_s=drain_s)))
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(request({"model": "m", "prompt": "x", "max_tokens": 2, "stream": True}))
            await reader.readuntil(b" a")
            assert not task.done() and not said
            await told(reader, ends, at_once, go_on)
            writer.close()
            await task
            go_on.set()

    monkeypatch.setattr(sys, "setswitchinterval", lambda _: None)
    monkeypatch.setattr(sockets, "collect_rarely", lambda: None)
    asyncio.run(asyncio.wait_for(story(), 60))
    return said


DRAINS = "draining: nothing new is accepted; once more ends at once"


def test_a_signal_lets_a_stream_end(monkeypatch, caplog):
    async def told(reader, ends, at_once, go_on):
        ends.set()
        await asyncio.sleep(0.02)
        go_on.set()
        assert b"[DONE]" in await reader.read()

    assert ending(monkeypatch, 60.0, told) == [DRAINS]
    assert not [record for record in caplog.records if "still running" in record.message]


@pytest.mark.parametrize(("drain_s", "signals"), [(0.02, 1), (3600.0, 2)])
def test_a_stream_ends_with_an_error_when_its_time_is_up_or_a_second_signal_comes(drain_s, signals, monkeypatch, caplog):
    async def told(reader, ends, at_once, go_on):
        ends.set()
        if signals > 1:
            await asyncio.sleep(0.02)
            at_once.set()
        rest = await reader.read()
        assert b'data: {"error":' in rest and rest.endswith(END)

    assert ending(monkeypatch, drain_s, told) == [DRAINS]
    assert [record for record in caplog.records if "still running" in record.message]


def test_a_failure_to_compile_is_told_by_the_task_that_serves_alone():
    async def fails():
        raise RuntimeError

    gateway = SimpleNamespace(front=SimpleNamespace(not_ready=str), pools=SimpleNamespace(all=[]), workers=list)
    said: list[str] = []
    asyncio.run(_say_when_ready(SimpleNamespace(begins_plain=True, gateway=gateway, ready=fails), said.append))
    assert said == ["ready:  on 0 workers"]
