"""An engine's address: connections that have nothing to do are used again, or kept by whoever has use for them."""

from __future__ import annotations

import asyncio
import errno
import gc
import socket
import ssl
import sys
import time
import weakref

import pytest
from tests import clock
from tests.gateway.running import engine, request, serving, until, whole
from tests.gateway.test_engine import HEAD, Asked, ask, reaching

from evenstep.gateway.config.sections import Engines
from evenstep.gateway.connections.engine import KEPT_BY_THE_SYSTEM, Endpoint


def test_an_address_is_read_as_urls_are():
    async def story():
        endpoint = Endpoint("http://[::1]:81/v/", Engines(), asyncio.get_running_loop())
        assert (endpoint.authority, endpoint.base) == ("[::1]:81", "/v")
        assert Endpoint("https://h", Engines(), asyncio.get_running_loop()).authority == "h:443"

    asyncio.run(story())


def test_a_loop_that_was_held_up_while_a_connection_was_made_does_not_blame_the_engine():
    async def story():
        async def answers(number, head, body, writer):
            writer.write(whole(200, b"ab"))

        async with engine(answers) as one:
            loop = asyncio.get_running_loop()

            def is_held_up():
                loop._selector.now_s += 10.0

            endpoint, leg = Endpoint(one.url, Engines(connect_s=5.0), loop), Asked()
            endpoint.send(leg, (HEAD, b""), 50.0)
            loop.call_soon(is_held_up)  # right after it began to connect
            await leg.over.wait()
            assert leg.heard == [200, b"ab", "ended"]
            endpoint.close()

    clock.run(story())


def test_the_limit_of_a_wait_for_a_connection_ends_with_the_wait():
    async def story():
        async def answers(number, head, body, writer):
            writer.write(whole(200, b"ab"))

        async with reaching(answers) as (_, endpoint):
            assert await ask(endpoint) == [200, b"ab", "ended"]
            await asyncio.sleep(100)

    clock.run(story())


def test_an_engine_that_takes_no_connection_in_time_cannot_be_reached():
    async def story():
        with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
            port = full.getsockname()[1]
            taken = [socket.socket() for _ in range(4)]
            for one in taken:
                one.setblocking(False)
                one.connect_ex(("127.0.0.1", port))
            endpoint = Endpoint(f"http://127.0.0.1:{port}", Engines(connect_s=0.05), asyncio.get_running_loop())
            leg = Asked()
            endpoint.send(leg, (HEAD, b""), 5.0)
            await leg.over.wait()
            assert leg.heard == ["connect"]
            for one in taken:
                one.close()
            endpoint.close()

    asyncio.run(story())


class _Hasty:
    """The running loop, but that the engine has left when a connection is handed out."""

    def __init__(self):
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name):
        return getattr(self._loop, name)

    async def create_connection(self, *args, **options):
        transport, made = await self._loop.create_connection(*args, **options)
        made.connection_lost(None)
        return transport, made


@pytest.mark.parametrize("is_off", [False, True])
def test_an_engine_that_leaves_while_its_connection_is_handed_out_keeps_no_request_waiting(is_off):
    async def story():
        async with engine(None) as one:
            endpoint = Endpoint(one.url, Engines(), _Hasty())
            leg = Asked()
            endpoint.send(leg, (HEAD, b""), 5.0)
            leg.is_off = is_off  # its client left meanwhile
            await until(lambda: not endpoint._tasks)
            assert leg.heard == ([] if is_off else ["connect"])
            assert not endpoint._idle and not endpoint.connections
            endpoint.close()

    asyncio.run(story())


def test_the_system_keeps_little_of_a_stream_on_either_side():
    async def story():
        async def answers(number, head, body, writer):
            writer.write(whole(200, b"{}"))

        async with engine(answers) as one, serving(one.url) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(request({"model": "m", "input": "x"}, "/v1/embeddings"))
            await reader.readuntil(b"{}")
            (client,), (backend,) = (
                server.gateway.front.clients,
                server.gateway.pools.all[0].backends.values(),
            )
            (connection,) = backend.endpoint.connections
            sends = client.transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
            reads = connection._transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
            assert max(sends, reads) <= 2 * KEPT_BY_THE_SYSTEM  # Linux takes it twice
            writer.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "unable"),
        (OSError(errno.ENFILE, "Too many open files in system"), "unable"),
        (OSError(errno.EHOSTUNREACH, "No route to host"), "connect"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "connect"),
        (RuntimeError("AddrInfo.data is NULL"), "connect"),
        (OverflowError("an error that no loop is known to raise"), "connect"),
    ],
)
def test_an_engine_is_not_blamed_for_the_open_files_of_the_gateway(error, kind):
    assert kinds(error) == kinds(error, host="192.0.2.1") == [kind]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits")
@pytest.mark.parametrize(
    "error", [socket.gaierror(socket.EAI_NONAME, "unknown"), OSError(0, "Error"), RuntimeError("no data")]
)
def test_nor_where_its_name_cannot_be_looked_up_for_want_of_files(error):
    """As glibc and uvloop say it, by where the look-up fails."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        assert kinds(error, lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))) == ["unable"]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(("error", "is_logged"), [(OverflowError("unforeseen"), True), (OSError("foreseen"), False)])
@pytest.mark.parametrize("is_off", [False, True])
def test_an_unforeseen_error_is_logged_also_if_the_client_has_left(error, is_logged, is_off, caplog):
    async def connecting(host):
        raise error

    async def story():
        loop, leg = asyncio.get_running_loop(), Asked()
        addressed(loop, "192.0.2.1", connecting=connecting)
        endpoint = Endpoint("http://engine.example:80", Engines(), loop)
        endpoint.send(leg, (HEAD, b""), 5.0)
        leg.is_off = is_off
        await until(lambda: not endpoint._tasks)
        assert leg.heard == ([] if is_off else ["connect"])

    asyncio.run(story())
    gc.collect()
    assert ("unforeseen" in caplog.text) == is_logged


def kinds(error, before=lambda: None, host="engine.example"):
    """What a leg hears from an endpoint whose name, or connection, fails with this error."""

    class Crowded(asyncio.SelectorEventLoop):
        async def create_connection(self, *_args, **_options):
            before()
            raise error

        getaddrinfo = create_connection

    async def story():
        endpoint = Endpoint(f"http://{host}:80", Engines(), asyncio.get_running_loop())
        leg = Asked()
        endpoint.send(leg, (HEAD, b""), 5.0)
        async with asyncio.timeout(5):
            await leg.over.wait()
        return leg.heard

    with asyncio.Runner(loop_factory=Crowded) as runner:
        return runner.run(story())


def test_an_address_that_drops_what_is_sent_there_is_passed_over_and_comes_last_from_then_on():
    """As where a name has an IPv6 address that no router knows the way to."""
    tried = []

    async def getaddrinfo(host, port, **_):
        assert host == "engine.example"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in ("192.0.2.1", "192.0.2.2", "127.0.0.1")]

    async def answers(number, head, body, writer):
        writer.write(whole(200, b"ab", more="Connection: close\r\n"))

    async def story():
        loop = asyncio.get_running_loop()
        connect = loop.create_connection

        async def create_connection(protocol, host, port, **options):
            tried.append(host)
            if host == "192.0.2.1":
                await asyncio.Event().wait()
            if host == "192.0.2.2":
                raise ConnectionRefusedError
            return await connect(protocol, host, port, **options)

        loop.getaddrinfo, loop.create_connection = getaddrinfo, create_connection
        async with engine(answers) as one:
            endpoint = Endpoint(one.url.replace("127.0.0.1", "engine.example"), Engines(), loop)
            for expected in (["192.0.2.1", "192.0.2.2", "127.0.0.1"], ["192.0.2.2", "127.0.0.1"]):
                assert await ask(endpoint) == [200, b"ab", "ended"]
                assert tried == expected
                tried.clear()
            endpoint.close()

    clock.run(story())


def addressed(loop, *addresses, connecting):
    """Let the loop find these addresses for every name, and await `connecting` with each before it connects there."""
    connect, tried = loop.create_connection, []

    async def getaddrinfo(host, port, **_):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in addresses]

    async def create_connection(protocol, host, port, **options):
        tried.append(host)
        await connecting(host)
        return await connect(protocol, host, port, **options)

    loop.getaddrinfo, loop.create_connection = getaddrinfo, create_connection
    return tried


async def answers_ab(number, head, body, writer):
    writer.write(whole(200, b"ab"))


def test_an_address_that_the_name_lost_and_has_again_comes_first_again():
    async def connecting(host):
        if host == "192.0.2.1":
            await asyncio.Event().wait()

    async def story():
        loop, tried = asyncio.get_running_loop(), []
        async with engine(answers_ab) as one:
            endpoint = Endpoint(one.url.replace("127.0.0.1", "engine.example"), Engines(connections=0), loop)
            for there in (["192.0.2.1"], ["192.0.2.1"], [], ["192.0.2.1"]):
                tried.append(addressed(loop, *there, "127.0.0.1", connecting=connecting))
                assert await ask(endpoint) == [200, b"ab", "ended"]
            assert [first for first, *_ in tried] == ["192.0.2.1", "127.0.0.1", "127.0.0.1", "192.0.2.1"]
            endpoint.close()

    clock.run(story())


def test_the_first_of_many_addresses_has_time_for_a_handshake():
    """With equal parts for eight addresses, an engine that took 0.4 s was passed over seven times, and then cut off."""

    async def story():
        loop, others = asyncio.get_running_loop(), [f"192.0.2.{n}" for n in range(7)]
        tried = addressed(loop, "127.0.0.1", *others, connecting=lambda _: asyncio.sleep(0.4))
        async with engine(answers_ab) as one:
            endpoint = Endpoint(one.url.replace("127.0.0.1", "engine.example"), Engines(), loop)
            assert await ask(endpoint) == [200, b"ab", "ended"]
            assert tried == ["127.0.0.1"]
            endpoint.close()

    clock.run(story())


@pytest.mark.parametrize("other", ["refuses", "is silent"])
def test_a_certificate_that_is_not_trusted_is_told_though_the_name_has_another_address(other):
    """The log said that the second address refuses connections, or is silent, as if no engine were there."""

    untrusted = ssl.SSLCertVerificationError()
    untrusted.verify_message = "certificate is not valid for 'engine.example'."

    async def connecting(host):
        if host == "192.0.2.1":
            raise untrusted
        if other == "refuses":
            raise ConnectionRefusedError
        await asyncio.Event().wait()

    async def story():
        loop, leg = asyncio.get_running_loop(), Asked()
        tried = addressed(loop, "192.0.2.1", "192.0.2.2", connecting=connecting)
        Endpoint("https://engine.example:80", Engines(), loop).send(leg, (HEAD, b""), 5.0)
        await leg.over.wait()
        assert leg.why.endswith("SSLCertVerificationError, certificate is not valid for 'engine.example'")
        assert tried == ["192.0.2.1", "192.0.2.2"]

    clock.run(story())


def test_an_engine_that_is_not_trusted_at_one_address_does_not_hide_the_next_one():
    """Most requests ended with 502, though another address of the name had an engine with a good certificate."""

    async def connecting(host):
        if host == "192.0.2.1":
            raise ssl.SSLError

    async def answers(number, head, body, writer):
        writer.write(whole(200, b"ab", more="Connection: close\r\n"))

    async def story():
        loop = asyncio.get_running_loop()
        tried = addressed(loop, "192.0.2.1", "127.0.0.1", connecting=connecting)
        async with engine(answers) as one:
            endpoint = Endpoint(one.url.replace("127.0.0.1", "engine.example"), Engines(), loop)
            for expected in (["192.0.2.1", "127.0.0.1"], ["127.0.0.1"]):
                assert await ask(endpoint) == [200, b"ab", "ended"]
                assert tried == expected
                tried.clear()
            endpoint.close()

    asyncio.run(story())


def test_a_loop_that_was_held_up_does_not_blame_the_first_of_two_addresses():
    async def connecting(host):
        asyncio.get_running_loop().call_soon(time.sleep, 0.5)  # as it begins to connect
        if host != "127.0.0.1":
            await asyncio.Event().wait()

    async def story():
        loop = asyncio.get_running_loop()
        tried = addressed(loop, "127.0.0.1", "192.0.2.1", connecting=connecting)
        async with engine(answers_ab) as one:
            endpoint = Endpoint(one.url.replace("127.0.0.1", "engine.example"), Engines(connect_s=0.6), loop)
            assert await ask(endpoint) == [200, b"ab", "ended"]
            assert tried == ["127.0.0.1"]
            endpoint.close()

    asyncio.run(story())


def test_the_connections_of_a_burst_wait_for_one_look_up_of_the_name():
    """A slow one kept the loop's few threads busy: of 100 connections, 72 came too late, and the engine was to blame."""
    asked = []

    async def answers(number, head, body, writer):
        writer.write(whole(200, b"ab", more="Connection: close\r\n"))

    async def story():
        loop = asyncio.get_running_loop()
        answered = asyncio.Event()

        async def getaddrinfo(host, port, **_):
            asked.append(host)
            await answered.wait()
            if len(asked) == 1:
                raise socket.gaierror(socket.EAI_AGAIN, "try again")
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

        loop.getaddrinfo = getaddrinfo
        async with engine(answers) as one:
            endpoint = Endpoint(one.url.replace("127.0.0.1", "engine.example"), Engines(), loop)
            for expected in (["connect"], [200, b"ab", "ended"]):
                burst = [asyncio.create_task(ask(endpoint)) for _ in range(5)]
                await clock.turned()
                answered.set()
                assert await asyncio.gather(*burst) == [expected] * 5
                answered.clear()
            assert len(asked) == 2
            endpoint.close()

    clock.run(story())


def test_a_look_up_that_failed_keeps_no_request_in_memory():
    async def story():
        loop = asyncio.get_running_loop()

        async def getaddrinfo(host, port, **_):
            raise socket.gaierror(socket.EAI_AGAIN, "try again")

        loop.getaddrinfo = getaddrinfo
        endpoint, leg = Endpoint("http://engine.example:80", Engines(), loop), Asked()
        endpoint.send(leg, (HEAD, b""), 5.0)
        await leg.over.wait()
        kept, leg = weakref.ref(leg), None
        await clock.turned()
        gc.collect()
        assert kept() is None

    asyncio.run(story())


def test_a_look_up_that_fails_after_its_connections_were_given_up_is_not_logged_as_a_bug():
    """Of a name server that is down, the system hears nothing for longer than engines.connect_s."""
    bugs = []

    async def story():
        loop, fails = asyncio.get_running_loop(), asyncio.Event()

        async def getaddrinfo(host, port, **_):
            await fails.wait()
            raise socket.gaierror(socket.EAI_AGAIN, "try again")

        loop.getaddrinfo = getaddrinfo
        loop.set_exception_handler(lambda _, context: bugs.append(context))
        endpoint = Endpoint("http://engine.example:80", Engines(), loop)
        assert await ask(endpoint) == ["connect"]
        fails.set()
        await clock.turned()
        gc.collect()

    clock.run(story())
    assert not bugs


def test_an_address_of_one_link_is_connected_to_on_that_link():
    async def story():
        loop, tried = asyncio.get_running_loop(), []

        async def getaddrinfo(host, port, **_):
            found = ("fe80::1", port, 0, 3), ("::1", port, 0, 0)
            return [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", one) for one in found]

        async def create_connection(protocol, host, port, **options):
            tried.append(host)
            raise ConnectionRefusedError

        loop.getaddrinfo, loop.create_connection = getaddrinfo, create_connection
        assert await ask(Endpoint("http://engine.example:80", Engines(), loop)) == ["connect"]
        assert tried == ["fe80::1%3", "::1"]

    asyncio.run(story())


@pytest.mark.parametrize("url", ["http://no..host:80", "https://.host:80"])
def test_an_address_that_names_no_host_cannot_be_reached(url):
    async def story():
        endpoint = Endpoint(url, Engines(), asyncio.get_running_loop())
        leg = Asked()
        endpoint.send(leg, (HEAD, b""), 5.0)
        async with asyncio.timeout(5):
            await leg.over.wait()
        assert leg.heard[0] == "connect"

    asyncio.run(story())
