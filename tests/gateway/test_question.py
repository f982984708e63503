"""Small questions to engines."""

from __future__ import annotations

import asyncio

from tests.clock import turned
from tests.gateway.running import END, engine, framed, reset, until, whole

from evenstep.gateway.config.sections import Engines
from evenstep.gateway.config.worker import Worker
from evenstep.gateway.connections.engine import Endpoint
from evenstep.gateway.serve.backend import Backend


def test_a_kept_connection_that_is_reset_at_once_is_no_answer():
    async def story():
        async def answers(number, head, body, writer):
            if number == 1:
                reset(writer.transport)
                return False
            writer.write(whole(200, b"ab"))

        async with engine(answers) as one:
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
