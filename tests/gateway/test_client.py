"""A client's connection: limits, deadlines, pipelining, old clients, and clients that do not behave."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from dataclasses import replace

import pytest
from tests import clock
from tests.emulator.running import running, url
from tests.gateway.running import EVENTS, STALLS, chunk, engine, framed, raw, request, serving, until, whole

from evenstep.gateway.config.config import GatewayConfig
from evenstep.gateway.config.sections import Limits
from evenstep.gateway.connections.callers import Callers
from evenstep.gateway.connections.client import Client, Received
from evenstep.gateway.connections.request_context import context_of
from evenstep.http.head import read_request_head
from evenstep.http.server import ServerSide

CLOSE = "Connection: close\r\n"
BODY = {"model": "emulated", "prompt": "x", "max_tokens": 3, "stream": True, "ignore_eos": True}
QUICK = Limits(head_s=0.05, body_s=0.05, idle_s=0.05)


def error_of(answer):
    return json.loads(answer.partition(b"\r\n\r\n")[2])["error"]


async def refused(data, **limits):
    async with serving(is_ready=False, limits=replace(Limits(), **limits)) as server:
        return await raw(server, data)


@pytest.mark.parametrize(
    ("data", "status", "limits"),
    [
        (b"GET / HTTP/1.1\nHost: x\n\n", 400, {}),
        (b"GET /\x00", 400, {}),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\n", 400, {}),
        (b"GET / HTTP/1.1\r\n\r\n", 400, {}),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 2000 + b"\r\n\r\n", 431, {"head_bytes": 1000}),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 2000, 431, {"head_bytes": 1000}),
        (b"POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 2000\r\n\r\n", 413, {"body_bytes": 1000}),
        (
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" + b"y" * 2000,
            413,
            {"body_bytes": 1000},
        ),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\ny", 413, {"body_bytes": 1000}),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, {}),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n", 400, {}),
        (b"GET / HTTP/1.1\r\nHost: a\r\n", 408, {"head_s": 0.02}),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc", 408, {"body_s": 0.02}),
    ],
)
def test_what_is_too_large_too_late_or_ambiguous_is_refused_and_the_connection_closed(data, status, limits):
    answer = asyncio.run(refused(data, **limits))
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\nConnection: close\r\n" in answer
    assert error_of(answer)["type"] == "invalid_request_error"
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    ("data", "limits", "code", "message"),
    [
        (
            b"GET / HTTP/1.1\r\nX: " + b"y" * 2000,
            {"head_bytes": 1000},
            "headers_too_large",
            "The request's headers are larger than 1000 bytes.",
        ),
        (
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000\r\n\r\n",
            {"body_bytes": 1000},
            "request_too_large",
            "The request body is larger than 1000 bytes.",
        ),
        (b"GET / HTTP/1.1\r\n", {"head_s": 0.02}, "request_timeout", "The request did not arrive in time."),
    ],
)
def test_a_refusal_has_a_word_for_programs(data, limits, code, message):
    error = error_of(asyncio.run(refused(data, **limits)))
    assert (error["code"], error["message"]) == (code, message)


def test_a_refused_body_has_the_id_of_its_request():
    head = b"POST / HTTP/1.1\r\nHost: a\r\nX-Request-Id: mine\r\nContent-Length: %d\r\n\r\n"
    for data, limits in ((head % 2000, {"body_bytes": 1000}), (head % 9 + b"abc", {"body_s": 0.02})):
        assert b"\r\nX-Request-Id: mine\r\n" in asyncio.run(refused(data, **limits))


def test_a_connection_on_which_nothing_is_asked_is_closed_without_a_word():
    assert asyncio.run(refused(b"", idle_s=0.02)) == b""


def test_a_body_that_comes_too_slowly_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("evenstep.gateway.connections.client._GRACE_S", 0.02)
    data = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"
    assert asyncio.run(refused(data, body_bytes_per_s=100_000)).startswith(b"HTTP/1.1 408 ")


def test_a_client_that_waits_for_100_gets_it():
    async def story():
        async with serving(is_ready=False) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            data = request(BODY, headers="Expect: 100-continue\r\n" + CLOSE)
            head, _, body = data.partition(b"\r\n\r\n")
            writer.write(head + b"\r\n\r\n")
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(body)
            assert (await reader.read()).startswith(b"HTTP/1.1 503 ")
            writer.close()

    asyncio.run(story())


def test_requests_are_read_however_they_are_cut_and_answered_in_order():
    async def story():
        async with running() as emulator, serving(url(emulator)) as server:
            data = request(BODY) + request({**BODY, "stream": False}) + b"\r\n" + request(b"", "/healthz", "GET", CLOSE)
            whole = await raw(server, data)
            parts = whole.split(b"HTTP/1.1 200 OK\r\n")[1:]
            assert [b"[DONE]" in parts[0], b'"usage"' in parts[1], parts[2].endswith(b"ok")] == [True] * 3
            for cut in range(1, len(data), 7):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(data[:cut])
                await asyncio.sleep(0)
                writer.write(data[cut:])
                assert (await reader.read()).count(b"HTTP/1.1 200 OK") == 3
                writer.close()

    asyncio.run(story())


def test_a_chunked_request_is_served():
    async def story():
        async with running() as emulator, serving(url(emulator)) as server:
            head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
            body = json.dumps(BODY).encode()
            answer = await raw(server, head + b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (9, body[:9], len(body) - 9, body[9:]))
            assert b"[DONE]" in answer

    asyncio.run(story())


def test_http_1_0_gets_a_stream_without_chunks_that_ends_with_the_connection():
    async def story():
        async with running() as emulator, serving(url(emulator)) as server:
            answer = await raw(server, request(BODY).replace(b"HTTP/1.1", b"HTTP/1.0"))
            head, _, body = answer.partition(b"\r\n\r\n")
            assert b"chunked" not in head
            assert body.endswith(b"data: [DONE]\n\n")

    asyncio.run(story())


@pytest.mark.parametrize(("wish", "said"), [("Connection: Keep-Alive\r\n", b"keep-alive"), ("", b"close")])
def test_a_client_of_http_1_0_is_told_whether_its_connection_stays(wish, said):
    async def story():
        async with running() as emulator, serving(url(emulator)) as server:
            ask = request(BODY | {"stream": False}, headers=wish).replace(b"HTTP/1.1", b"HTTP/1.0")
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            for _ in range(2 if wish else 1):
                writer.write(ask)
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
                assert head.startswith(b"HTTP/1.1 200") and b"\r\nConnection: %b\r\n" % said in head
                await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))
            writer.write_eof()
            assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()

    asyncio.run(story())


def test_a_pile_of_later_requests_is_not_kept():
    async def story():
        async with running(overhead_s=0.5) as emulator, serving(url(emulator)) as server:
            answer = await raw(server, request(BODY) + request(b"", "/healthz", "GET") * 3000)
            assert answer.count(b"HTTP/1.1 200 OK") == 1

    asyncio.run(story())


def test_connections_beyond_the_limit_are_closed_at_once():
    async def story():
        async with serving(is_ready=False, limits=Limits(connections=1)) as server:
            _, first = await asyncio.open_connection("127.0.0.1", server.port)
            await until(lambda: len(server.gateway.front.clients) == 1)
            reader, second = await asyncio.open_connection("127.0.0.1", server.port)
            with pytest.raises(ConnectionError):
                second.write(request(b"", "/healthz", "GET"))
                assert await reader.read() == b""
                raise ConnectionError
            first.close()
            second.close()

    asyncio.run(story())


def test_a_client_that_does_not_read_stops_its_engine_and_gets_everything_when_it_does():
    async def story():
        limits = Limits(buffer_bytes=4096)
        async with running(overhead_s=0.01) as emulator, serving(url(emulator), limits=limits) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
            writer.write(request({**BODY, "max_tokens": 2000, "stream_options": {"include_usage": True}}, headers=CLOSE))
            await reader.readuntil(b"data: ")
            (client,) = server.gateway.front.clients
            client.pause_writing()
            (pool,) = server.gateway.pools.all
            await until(lambda: all(c._is_paused for a in pool.backends.values() for c in a.endpoint.connections))
            client.resume_writing()
            rest = await reader.read()
            while not reader.at_eof():
                rest += await reader.read()
            assert b'"completion_tokens":2000' in rest
            assert b"[DONE]" in rest

    asyncio.run(story())


def test_a_client_that_never_reads_is_given_up():
    async def story():
        limits = Limits(buffer_bytes=4096, stalled_s=0.03)
        async with running(overhead_s=0.01) as emulator, serving(url(emulator), limits=limits) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(request({**BODY, "max_tokens": 100_000}))
            await reader.readuntil(b"data: ")
            (client,) = server.gateway.front.clients
            client.pause_writing()
            await until(lambda: not server.gateway.front.clients)
            writer.close()

    asyncio.run(story())


class Slow:
    """A transport whose peer reads only what a test takes away from `unsent`."""

    def __init__(self):
        self.unsent, self.closed_s = 1000, 0.0

    def set_write_buffer_limits(self, high, low):
        self.limits = high, low

    def get_write_buffer_size(self):
        return self.unsent

    def abort(self):
        self.closed_s = time.monotonic()


class Serves:
    """The service of one client that asks nothing."""

    limits, is_draining = Limits(stalled_s=100.0, buffer_bytes=4096), False

    def __init__(self):
        self.clients = set()


def test_all_of_the_buffer_is_used_before_reading_stops():
    async def story():
        slow = Slow()
        Client(Serves()).connection_made(slow)
        assert slow.limits == (4096, 1024)

    clock.run(story())


@pytest.mark.parametrize("reads_s", [[], [1], [1, 30, 90, 91, 180]])
def test_a_slow_client_is_closed_soon_after_the_time_without_a_read(reads_s):
    async def story():
        slow = Slow()
        client = Client(Serves())
        client.connection_made(slow)
        client.pause_writing()
        slow.unsent += 50  # what was under way from the engine still comes
        start = time.monotonic()
        for at_s in reads_s:
            await asyncio.sleep(start + at_s - time.monotonic())
            slow.unsent -= 60
        read_s = time.monotonic()
        await asyncio.sleep(400.0)
        assert 100.0 <= slow.closed_s - read_s <= 126.0

    clock.run(story())


def test_a_client_that_asks_on_and_never_reads_is_closed_too():
    async def story():
        slow = Slow()
        client = Client(Serves())
        client.connection_made(slow)
        client.pause_writing()
        start = time.monotonic()
        for _ in range(400):
            await asyncio.sleep(1.0)
            slow.unsent += 50
            client._machine = ServerSide(client._service)
            client._answered()  # it has asked again, and its answer waits as well
        assert 100.0 <= slow.closed_s - start <= 126.0

    clock.run(story())


def test_a_request_like_an_earlier_one_is_answered_whole_whatever_came_between():
    post = request({**BODY, "stream": False})
    between = b"HEAD /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"

    async def scenario():
        bodies = []
        async with running() as emulator, serving(url(emulator)) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            for data in (post, between, post, between, post):
                writer.write(data)
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                bodies.append(b"" if data is between else await asyncio.wait_for(reader.readexactly(length), 20))
            writer.close()
        return bodies

    answers = asyncio.run(scenario())
    assert [b'"choices"' in answer for answer in answers] == [True, False, True, False, True]


def test_connections_that_are_closed_are_freed_at_once_and_not_by_the_collector():
    async def story():
        async with running(slots=4, speed=1000.0) as emulator, serving(url(emulator)) as server:
            await raw(server, request(BODY, headers=CLOSE))
            gc.collect()
            gc.disable()
            try:
                for _ in range(5):
                    assert b"data: [DONE]" in await raw(server, request(BODY, headers=CLOSE))
                await until(lambda: not server.gateway.front.clients)
                left = [one for one in gc.get_objects() if type(one) is Client]
            finally:
                gc.enable()
            assert left == []

    asyncio.run(story())


def test_a_failure_of_ours_within_an_answer_cuts_it_off_there(monkeypatch):
    """A second head in the middle of a body would be part of the client's text."""

    async def story():
        async with running(ranks=1) as emulator, serving(url(emulator, 0)) as server:
            whole = Client.send
            sent: list[bytes] = []

            def fails_later(self, data, last=False):
                sent.append(data)
                whole(self, data, last)
                if len(sent) == 1:
                    self.fail()

            monkeypatch.setattr(Client, "send", fails_later)
            answer = await raw(server, request(BODY, headers=CLOSE))
            assert sent and answer.count(b"HTTP/1.1") <= 1 and b"internal_error" not in answer
            assert not answer.endswith(b"0\r\n\r\n"), "a client sees that the answer has no end"

    asyncio.run(story())


def test_a_request_is_served_from_what_was_received():
    async def story():
        async def answers(number, head, body, writer):
            writer.write(whole(404, b"{}"))

        async with engine(answers) as one, serving(one.url) as server:
            front = server.gateway.front
            head = request({}, path="/healthz", method="GET").partition(b"{")[0]
            context = context_of(read_request_head(head), Callers(GatewayConfig()), ())
            heard = []

            class Asks:
                def reply(self, status, body, kind):
                    heard.append((status, body, kind))

            front.serve(Received(context, b"", "name"), Asks())
            assert heard == [(200, b"ok", b"text/plain; charset=utf-8")]

    asyncio.run(story())


LARGE = b'{"choices":[{"index":0,"text":"%b","finish_reason":"stop"}],"usage":{"prompt_tokens":2,"completion_tokens":9}}'


def test_a_client_that_asks_again_and_reads_nothing_is_left_after_a_while():
    async def story():
        async def answers(number, head, body, writer):
            if number:
                writer.write(EVENTS + framed(chunk(" a", 1)))
                return STALLS
            writer.write(whole(200, LARGE % (b"x" * (8 << 20))))

        async with engine(answers) as one, serving(one.url, limits=Limits(idle_s=0.1, stalled_s=0.1)) as server:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
            body = {"model": "m", "prompt": "x", "max_tokens": 9}
            writer.write(request(body) + request({**body, "stream": True}))
            await until(lambda: len(one.asked) == 2)
            await until(lambda: not server.gateway.front.clients)
            writer.transport.abort()

    asyncio.run(story())


def test_a_connection_whose_last_answer_is_read_late_ends_as_soon_as_any_other(monkeypatch):
    monkeypatch.setattr("evenstep.gateway.connections.client._LINGER_S", 0.05)

    async def story():
        async def answers(number, head, body, writer):
            writer.write(whole(200, LARGE % (b"x" * (8 << 20))))

        async with engine(answers) as one, serving(one.url) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
            writer.write(request({"model": "m", "prompt": "x", "max_tokens": 9}, headers=CLOSE))
            await until(lambda: any(client.paused for client in server.gateway.front.clients))
            await asyncio.sleep(0.1)  # later than it would end without unread bytes
            assert (await reader.read()).endswith(b"}")
            await until(lambda: not server.gateway.front.clients)
            writer.close()

    clock.run(story())
