"""What every host of sockets needs before its first one."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from evenstep import sockets
from evenstep.errors import InputError


def test_an_address_is_ours_once_bound_and_what_is_wrong_with_another_is_told():
    with sockets.listening("x", "127.0.0.1", 0) as found:
        found.listen()
        port = found.getsockname()[1]
        assert port > 0
        with pytest.raises(InputError, match=rf"x: --port is '127.0.0.1:{port}'; expected a free port"):
            sockets.listening("x", "127.0.0.1", port)
    for host in ("192.0.2.1", "no.such.host.invalid", "no..host"):
        for port in (0, 8100):
            with pytest.raises(InputError, match=f"--host is '{host}'; expected an address of this machine"):
                sockets.listening("x", host, port)


@pytest.mark.skipif(sys.platform == "win32", reason="two sockets are not bound to one port there")
def test_of_two_processes_that_start_at_once_one_is_told_that_the_port_is_taken():
    with sockets.listening("x", "127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        second = sockets.listening("x", "127.0.0.1", port)
        sockets.listen("x", first, 10)
        with pytest.raises(InputError, match=rf"x: --port is '127.0.0.1:{port}'; expected a free port"):
            sockets.listen("x", second, 10)
        assert second.fileno() == -1


def test_an_ipv6_address_stands_in_brackets():
    assert [sockets.in_url(host) for host in ("::1", "127.0.0.1", "localhost")] == ["[::1]", "127.0.0.1", "localhost"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals end the process there")
def test_a_signal_ends_what_waits_for_it():
    async def story():
        ended = asyncio.Event()
        sockets.on_end(ended.set)
        os.kill(os.getpid(), signal.SIGTERM)
        await ended.wait()

    asyncio.run(story())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no such device")
def test_a_line_for_a_stdout_that_takes_none_ends_nothing(monkeypatch):
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        sockets.said("draining")
        sockets.said("drained")
    with Path("/dev/null").open("w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
    sockets.said("draining")


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    sockets.need_package("x", "httptools")
    monkeypatch.setattr(sockets, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'evenstep\[gateway\]'"):
        sockets.need_package("x", "httptools")
    assert sockets.loop_factory() is asyncio.new_event_loop


@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits")
def test_files_are_raised_and_never_lowered():
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        sockets.allow_files()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert soft > 256
        assert hard == before[1]
        sockets.allow_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits")
@pytest.mark.parametrize(("most", "limit"), [(1 << 20, 200_000), (100_000, 65_536), (10_000, 256)])
def test_as_many_files_are_allowed_as_the_system_grants(most, limit, monkeypatch):
    """macOS names no hard limit, and refuses more than its own."""
    import resource

    limits = [(256, resource.RLIM_INFINITY)]

    def grants(_kind, new):
        if new[0] > most:
            raise ValueError("current limit exceeds maximum limit")
        limits.append(new)

    monkeypatch.setattr(resource, "getrlimit", lambda _kind: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", grants)
    assert sockets.allow_files(200_000) == limit
    assert limits[-1] == (limit, resource.RLIM_INFINITY)


def test_the_loop_is_one_that_runs():
    with asyncio.Runner(loop_factory=sockets.loop_factory()) as runner:
        assert runner.run(asyncio.sleep(0, "done")) == "done"
    assert socket.getdefaulttimeout() is None


def test_new_connections_that_wait_are_accepted_together():
    """uvloop takes one a turn and server."""
    pytest.importorskip("uvloop")
    accepted: list[int] = []

    class Counting(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted[-1] += 1
            transport.close()

    async def turns() -> None:
        bound = sockets.listening("serve", "127.0.0.1", 0)
        sockets.listen("serve", bound, 64)
        waiting = [socket.create_connection(bound.getsockname()) for _ in range(32)]
        loop = asyncio.get_running_loop()
        servers = [await loop.create_server(Counting, sock=handle) for handle in sockets.handles(bound, loop)]
        while sum(accepted) < len(waiting):
            accepted.append(0)
            await asyncio.sleep(0)
        for end in (*servers, *waiting):
            end.close()

    with asyncio.Runner(loop_factory=sockets.loop_factory()) as runner:
        runner.run(turns())
    assert max(accepted) >= 4


def test_a_socket_has_as_many_copies_as_the_open_files_allow():
    class Bound:
        left = 2

        def dup(self):
            self.left -= 1
            if self.left < 0:
                raise OSError(errno.EMFILE, "Too many open files")
            return "copy"

    loop = type("Loop", (), {"__module__": "uvloop"})()
    bound = Bound()
    assert sockets.handles(bound, loop) == [bound, "copy", "copy"]
