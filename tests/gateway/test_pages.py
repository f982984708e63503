"""Pages over kept connections, from servers that behave and from others."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest
from tests.clock import turned
from tests.gateway.running import END, engine, framed, resets_the_second, until, whole

from evenstep.errors import EngineError
from evenstep.gateway.config.sections import Engines
from evenstep.gateway.config.worker import Worker
from evenstep.gateway.connections.engine import Endpoint
from evenstep.gateway.connections.pages import NoPageError, Pages
from evenstep.gateway.serve.backend import Backend

OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b"


def page(text: bytes) -> bytes:
    return OK % (len(text), text)


def told(connections: list[list[bytes]], story):
    """Run ``story(pages, url, heads)`` with a server that answers so on each connection, and then closes it.

    Args:
        connections: of each connection the answer to each question, empty = none, but the connection is closed.
    """

    async def run() -> None:
        heads: list[bytes] = []
        left = iter(connections)

        async def serve(reader, writer):
            for answer in next(left):
                try:
                    heads.append(await reader.readuntil(b"\r\n\r\n"))
                except asyncio.IncompleteReadError:
                    break
                writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics"
        pages = Pages(Engines())
        try:
            await story(pages, url, heads)
        finally:
            pages.close()
            server.close()

    asyncio.run(asyncio.wait_for(run(), 30))


def test_a_page_is_read_again_over_the_same_connection():
    async def story(pages, url, heads):
        assert [await pages.read(url, "sk-1") for _ in range(3)] == [b"a", b"", b"c"]
        assert heads[0].startswith(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:")
        assert all(b"\r\nAuthorization: Bearer sk-1\r\n" in head for head in heads)

    told([[page(b"a"), page(b""), page(b"c")]], story)


def test_a_kept_connection_that_was_closed_is_made_anew():
    async def story(pages, url, heads):
        assert [await pages.read(url) for _ in range(2)] == [b"a", b"b"]
        await asyncio.sleep(0)

    told([[page(b"a"), b""], [page(b"b")]], story)


def test_a_fresh_connection_that_is_closed_is_a_failed_reading():
    async def story(pages, url, heads):
        with pytest.raises(EngineError, match="closed the connection before its answer was complete"):
            await pages.read(url)
        assert len(heads) == 1

    told([[b""], [page(b"b")]], story)


@pytest.mark.parametrize(
    ("second", "why", "questions"),
    [
        (b"", "closed the connection before its answer was complete", 3),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "closed the connection before its answer was complete", 2),
        (b"SSH-2.0-OpenSSH\r\n", "what it says is not HTTP", 2),
    ],
)
def test_a_question_is_sent_again_only_once_and_only_if_a_kept_connection_closed_before_any_answer(second, why, questions):
    async def story(pages, url, heads):
        assert await pages.read(url) == b"a"
        with pytest.raises(EngineError, match=why):
            await pages.read(url)
        assert len(heads) == questions

    told([[page(b"a"), second], [b""], [page(b"b")]], story)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.0 200 OK\r\n\r\nabc",
    ],
)
def test_a_page_may_be_in_chunks_end_its_connection_or_end_with_it(answer):
    async def story(pages, url, heads):
        assert await pages.read(url) == b"abc"
        assert await pages.read(url) == b"again"

    more = [answer, page(b"again")] if b"chunked" in answer else [answer]
    told([more, [page(b"again")]], story)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n",
            "status is 302; expected 200",
        ),
        (b"SSH-2.0-OpenSSH\r\n", "what it says is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "closed the connection before its answer was complete"),
    ],
)
def test_what_is_no_page_says_so_and_its_connection_is_not_kept(answer, why):
    async def story(pages, url, heads):
        with pytest.raises(EngineError, match=why):
            await pages.read(url)
        assert await pages.read(url) == b"good"

    told([[answer], [page(b"good")]], story)


def test_a_page_that_is_too_large_is_not_read_to_its_end(monkeypatch):
    monkeypatch.setattr("evenstep.gateway.connections.pages._LARGEST", 10)

    async def story(pages, url, heads):
        with pytest.raises(EngineError, match="its answer has over 10 bytes"):
            await pages.read(url)
        assert await pages.read(url) == b"good"

    for much in (page(b"x" * 11), b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 11):
        told([[much], [page(b"good")]], story)


def test_a_page_of_just_the_largest_size_is_read(monkeypatch):
    monkeypatch.setattr("evenstep.gateway.connections.pages._LARGEST", 10)

    async def story(pages, url, heads):
        assert await pages.read(url) == b"x" * 10

    told([[page(b"x" * 10)]], story)


def test_what_a_server_without_the_page_says_is_told_from_what_it_says_when_it_cannot_answer():
    found = list[type]()

    async def story(pages, url, heads):
        for _ in range(4):
            with pytest.raises(EngineError) as error:
                await pages.read(url)
            found.append(error.type)

    codes = (404, 405, 501, 503)
    told([[b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n" % code for code in codes]], story)
    assert found == [NoPageError] * 3 + [EngineError]


def test_a_target_is_path_and_query_and_without_a_key_no_key_is_sent():
    async def story(pages, url, heads):
        origin = url.removesuffix("/metrics")
        for target in ("", "/a/b", "?x=1", "/a?x=1&y=2"):
            await pages.read(f"{origin}{target}")
        assert [head.split()[1] for head in heads] == [b"/", b"/a/b", b"/?x=1", b"/a?x=1&y=2"]
        assert not any(b"uthorization" in head for head in heads)

    told([[page(b"")]] * 4, story)


@pytest.mark.parametrize("end", ["forget", "close"])
def test_the_connection_of_a_page_is_closed_when_it_is_read_no_more(end):
    left = asyncio.Event()

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(page(b"a"))
        assert not await reader.read()
        left.set()
        writer.close()

    async def story():
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics"
            pages = Pages(Engines())
            assert await pages.read(url) == b"a"
            pages.forget(f"{url}/another")
            assert not left.is_set()
            pages.forget(url) if end == "forget" else pages.close()
            await left.wait()

    asyncio.run(asyncio.wait_for(story(), 30))


def test_who_gives_up_waiting_gets_no_answer_of_the_question_before():
    async def story(pages, url, heads):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await pages.read(url)
        assert await pages.read(url) == b"b"

    told([[b"HTTP/1.1 200 OK\r\n", page(b"a")], [page(b"b")]], story)


def test_a_kept_connection_that_is_reset_at_once_is_no_answer():
    async def story():
        async with engine(resets_the_second) as one:
            worker = Worker(url=one.url, name="w")
            backend = Backend(worker, Endpoint(one.url, Engines(), asyncio.get_running_loop()))
            assert [await backend.fetch("/x", 5.0) for _ in range(2)] == [(200, b"ab")] * 2
            assert len(one.asked) == 3

    asyncio.run(story())


def test_an_answer_in_chunks_that_come_one_by_one_is_read():
    async def story():
        async def answers(number, head, body, writer):
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for part in (framed(b"ab"), framed(b"cd"), END):
                await turned()  # each is one read
                writer.write(part)

        async with engine(answers) as one:
            backend = Backend(Worker(url=one.url, name="w"), Endpoint(one.url, Engines(), asyncio.get_running_loop()))
            assert await backend.fetch("/x", 5.0) == (200, b"abcd")

    asyncio.run(story())


def test_an_answer_that_came_while_the_process_was_stopped_counts():
    async def story():
        with socket.create_server(("127.0.0.1", 0)) as server:
            url = f"http://127.0.0.1:{server.getsockname()[1]}"
            backend = Backend(Worker(url=url, name="w"), Endpoint(url, Engines(), asyncio.get_running_loop()))
            asked = asyncio.create_task(backend.fetch("/health", 0.05))
            await until(lambda: any(one._leg for one in backend.endpoint.connections))
            accepted, _ = server.accept()
            with accepted:
                accepted.sendall(page(b"ok"))
                time.sleep(0.1)
                assert await asked == (200, b"ok")
            backend.endpoint.close()

    asyncio.run(story())


def test_an_answer_no_answer_and_one_that_is_too_large(monkeypatch):
    monkeypatch.setattr("evenstep.gateway.serve.backend._MOST_FETCHED", 100)

    async def story():
        async def answers(number, head, body, writer):
            if number == 0:
                writer.write(whole(203, b"ab"))
            elif number == 1:
                writer.write(whole(200, b"x" * 200))

        async with engine(answers) as one:
            worker = Worker(url=one.url, name="w")
            backend = Backend(worker, Endpoint(one.url, Engines(), asyncio.get_running_loop()))
            assert await backend.fetch("/x", 1.0) == (203, b"ab")
            assert (await backend.fetch("/x", 1.0))[0] == 0
            assert await backend.fetch("/x", 0.02) == (0, b"")
            await until(lambda: not backend.endpoint.connections)
            one.server.close()
            assert await backend.fetch("/x", 1.0) == (0, b"")

    asyncio.run(story())
