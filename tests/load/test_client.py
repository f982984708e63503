"""The pool of connections: what is stale is not used, and what is open is closed at the end."""

from __future__ import annotations

import asyncio
import ssl
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

from tests.gateway.running import until
from tests.load.running import server
from tests.load.test_connection import SIZED

from evenstep.load import client as module
from evenstep.load.answer import Answer, Meters
from evenstep.load.client import Call, Client
from evenstep.load.settings import target_of


async def ask(client):
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    call = Call(client.request(b"{}"), Answer(4, Meters(time.monotonic(), 1.0)), ended.set_result)
    client.start(call)
    await ended
    return call


def test_a_connection_that_was_idle_for_long_is_not_used_again(monkeypatch):
    async def go(keep_s):
        monkeypatch.setattr(module, "_KEEP_S", keep_s)
        async with server(lambda body: SIZED) as url:
            client = Client(target_of(url), "/v1/completions", {}, 5.0)
            await client.resolve()
            errors = [(await ask(client)).answer.error for _ in range(3)]
            opened = set(client._open)
            await client.close()
            assert len(opened) == 1 and not client._open and all(one.is_closing for one in opened)
            return errors, client.connections

    assert asyncio.run(go(60.0)) == ([""] * 3, 1)
    assert asyncio.run(go(-1.0)) == ([""] * 3, 3)


def test_of_several_addresses_the_first_that_accepts_a_connection_is_kept(monkeypatch):
    async def go():
        async with server(lambda body: SIZED) as url:
            target = target_of(url)

            async def both(host, port, **_):  # nothing listens at the first, as at ::1 for many a localhost
                return [(0, 0, 0, "", (host, port)) for host in ("127.0.0.2", "127.0.0.1", "localhost")]

            client = Client(target, "/v1/completions", {}, 5.0)
            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", both)
            await client.resolve()
            assert client._address == ("127.0.0.1", target.port)
            error = (await ask(client)).answer.error
            await client.close()
            return error

    assert asyncio.run(go()) == ""


def test_the_connection_that_tried_an_address_is_closed(monkeypatch):
    left = asyncio.Event()

    async def serve(reader, writer):
        with suppress(ConnectionError):
            assert not await reader.read()
        writer.close()
        left.set()

    async def go():
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
            port = listening.sockets[0].getsockname()[1]

            async def both(host, port, **_):
                return [(0, 0, 0, "", (host, port)) for host in ("127.0.0.1", "127.0.0.2")]

            client = Client(target_of(f"http://127.0.0.1:{port}"), "/v1/completions", {}, 5.0)
            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", both)
            await client.resolve()
            await asyncio.wait_for(left.wait(), 10.0)

    asyncio.run(go())


def test_a_connection_that_is_closing_is_not_used_again():
    async def go():
        async with server(lambda body: SIZED) as url:
            client = Client(target_of(url), "/v1/completions", {}, 5.0)
            await client.resolve()
            await ask(client)
            client._idle[0]._transport.close()
            error = (await ask(client)).answer.error
            await client.close()
            return error, client.connections

    assert asyncio.run(go()) == ("", 2)


def test_closing_ends_what_is_being_opened():
    async def go():
        async with server(lambda body: SIZED) as url:
            client = Client(target_of(url), "/v1/completions", {}, 5.0)
            await client.resolve()
            asked = asyncio.ensure_future(ask(client))
            await asyncio.sleep(0)
            await client.close()
            await asyncio.sleep(0.05)
            asked.cancel()
            return client.connections

    assert asyncio.run(go()) == 0


def test_a_server_with_a_certificate_is_asked_by_its_name_not_by_its_address(monkeypatch):
    certificates, names = Path(__file__).parents[1] / "gateway" / "certificates", list[str | None]()
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates / "ca.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    context.sni_callback = lambda _object, name, _context: names.append(name)

    async def go():
        async with server(lambda body: SIZED, context) as url:
            client = Client(target_of(url.replace("127.0.0.1", "localhost")), "/v1/completions", {}, 5.0)
            await client.resolve()
            error = (await ask(client)).answer.error
            await client.close()
            return error

    assert asyncio.run(go()) == "" and names == ["localhost"]


def test_the_head_names_host_path_and_headers():
    async def go():
        client = Client(target_of("http://llm:81/deep"), "/v1/completions", {"Authorization": "Bearer k"}, 5.0)
        return client.request(b"{}")

    head, _, body = asyncio.run(go()).partition(b"\r\n\r\n")
    assert head.startswith(b"POST /deep/v1/completions HTTP/1.1\r\nHost: llm:81\r\n")
    assert b"\r\nAuthorization: Bearer k\r\n" in head
    assert head.endswith(b"Content-Length: 2") and body == b"{}"


def test_closing_ends_what_is_on_its_way():
    async def go():
        async with server(lambda body: b"") as url:
            client = Client(target_of(url), "/v1/completions", {}, 5.0)
            await client.resolve()
            asked = asyncio.ensure_future(ask(client))
            await until(lambda: client.connections)
            await client.close()
            asked.cancel()
            return len(client._open)

    assert asyncio.run(go()) == 0


def test_a_connection_that_closes_before_it_is_used_ends_the_call_at_once():
    async def go():
        async with server(lambda body: SIZED) as url:
            client = Client(target_of(url), "/v1/completions", {}, 5.0)
            connect = client._loop.create_connection

            async def closed(*args, **options):  # as uvloop may: the task learns of the connection after its end
                transport, connection = await connect(*args, **options)
                transport.abort()
                await asyncio.sleep(0.01)
                return transport, connection

            client._loop = SimpleNamespace(
                create_connection=closed, create_task=client._loop.create_task, call_later=client._loop.call_later
            )
            error = (await asyncio.wait_for(ask(client), 2.0)).answer.error
            await asyncio.wait_for(client.close(), 2.0)
            return error, client.connections, len(client._open)

    assert asyncio.run(go()) == ("connect", 0, 0)


def test_a_connection_whose_call_is_over_when_it_is_made_is_closed():
    async def go():
        async with server(lambda body: SIZED) as url:
            client = Client(target_of(url), "/v1/completions", {}, 5.0)
            await client.resolve()
            call = Call(client.request(b"{}"), Answer(4, Meters(time.monotonic(), 1.0)), lambda _: None)
            client.start(call)
            call.cancel()
            await until(lambda: client.connections)
            await until(lambda: not client._open)
            return call.answer.error

    assert asyncio.run(go()) == "cancelled"


def test_the_base_of_a_target_has_no_slash_at_its_end():
    bases = [target_of(url).base for url in ("http://h//v1", "http://h/a//v1/", "http://h/a/")]
    assert bases == ["", "/a", "/a"]
