"""Connections to engines: kept where that is safe, closed where it is not, and never waited on for ever."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from contextlib import asynccontextmanager

import pytest
from tests import clock
from tests.clock import turned
from tests.gateway.running import END, STALLS, engine, framed, until, whole

from evenstep.gateway.config.sections import Engines
from evenstep.gateway.connections.engine import Endpoint, cancel

HEAD = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"


class Asked:
    """A leg that notes what it hears."""

    def __init__(self):
        self.connection, self.is_off, self.is_head, self.at_once = None, False, False, None
        self.heard, self.why, self.over = [], "", asyncio.Event()

    def head(self, head, length):
        self.heard.append(head.status)

    def chunks(self, data):
        taken, rest = (b"", data) if not data.startswith(b"5\r\n") else (data[:10], data[10:])
        if taken:
            self.heard.append(("chunk", taken))
        return rest

    def body(self, data):
        self.heard.append(data)

    def ended(self):
        self.heard.append("ended" if self.connection is None else "not released")
        self.over.set()

    def broke(self, kind, why):
        self.heard.append(kind)
        self.why = why
        self.over.set()


@asynccontextmanager
async def reaching(script, **settings):
    """A scripted engine and its address; no callback of the loop may fail."""
    loop, failed = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: failed.append(context))
    async with engine(script) as one:
        endpoint = Endpoint(one.url, Engines(**settings), loop)
        yield one, endpoint
        endpoint.close()
    assert not failed


async def ask(endpoint, patience_s=5.0):
    leg = Asked()
    endpoint.send(leg, (HEAD, b""), patience_s)
    await leg.over.wait()
    return leg.heard


def test_a_connection_is_used_again_after_an_answer_that_ended_where_it_said():
    async def story():
        async def answers(number, head, body, writer):
            if number % 2:
                writer.write(
                    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                    + framed(b"ab")
                    + END
                )
            else:
                writer.write(whole(200, b"ab"))

        async with reaching(answers) as (_, endpoint):
            for _ in range(4):
                assert await ask(endpoint) == [200, b"ab", "ended"]
            assert len(endpoint.connections) == 1

    asyncio.run(story())


def test_chunks_that_a_leg_does_not_take_come_as_body():
    async def story():
        async def answers(number, head, body, writer):
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for part in (
                framed(b"ab"),
                framed(b"12345") + framed(b"cd")[:4],
                framed(b"cd")[4:],
                framed(b"12345"),
                END,
            ):
                await turned()  # each is one read
                writer.write(part)

        async with reaching(answers) as (_, endpoint):
            chunk = ("chunk", framed(b"12345"))
            heard = await ask(endpoint)
            assert heard == [200, b"ab", chunk, b"c", b"d", chunk, "ended"]

    asyncio.run(story())


def test_a_connection_with_more_than_its_answer_is_closed():
    async def story():
        async def answers(number, head, body, writer):
            await {
                0: lambda: send(writer, whole(200, b"ab") + b"HTTP/1.1 200 OK\r\n"),
                1: lambda: send(writer, whole(200, b"ab", more="Connection: close\r\n")),
                2: lambda: send(writer, b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab"),
            }[number]()

        async def send(writer, data):
            writer.write(data)

        async with reaching(answers) as (_, endpoint):
            for _ in range(3):
                assert await ask(endpoint) == [200, b"ab", "ended"]
                assert not endpoint.connections

    asyncio.run(story())


def test_bytes_that_nobody_asked_for_close_a_connection():
    async def story():
        async with reaching(lambda n, h, b, w: send(w)) as (one, endpoint):

            async def later():
                (writer,) = one.open
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

            await ask(endpoint)
            assert endpoint.connections
            await later()
            await until(lambda: not endpoint.connections)

    async def send(writer):
        writer.write(whole(200, b"ab"))

    asyncio.run(story())


def test_a_body_without_a_length_ends_with_the_connection():
    async def story():
        async def answers(number, head, body, writer):
            writer.write(b"HTTP/1.1 200 OK\r\n\r\nabc")
            return False

        async with reaching(answers) as (_, endpoint):
            assert await ask(endpoint) == [200, b"abc", "ended"]

    asyncio.run(story())


def test_what_breaks_is_told_with_its_kind():
    async def story():
        async def answers(number, head, body, writer):
            if number == 0:
                return False
            if number == 1:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")
                return False
            if number == 2:
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
            if number == 3:
                writer.write(b"no http\r\n\r\n")
            if number == 4:
                writer.write(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000)
            if number == 5:
                writer.write(b"HTTP/1.1 101 Switching\r\n\r\n")
            if number == 6:
                writer.write(b"SSH-2.0")
            if number == 7:
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 5_000)
            await asyncio.sleep(0)

        async with reaching(answers) as (one, endpoint):
            for expected in (
                ["stream"],
                [200, b"ab", "stream"],
                [200, "stream"],
                ["status"],
                ["status"],
                ["status"],
                ["status"],
                ["status"],
            ):
                assert await ask(endpoint) == expected
            assert await ask(endpoint, patience_s=0.02) == ["stall"]
            assert not endpoint.connections
            one.server.close()
            assert await ask(endpoint) == ["connect"]

    asyncio.run(story())


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux has it")
def test_a_host_that_acknowledges_nothing_for_ten_seconds_is_gone():
    async def story():
        async def answers(number, head, body, writer):
            await asyncio.Event().wait()

        async with reaching(answers) as (_, endpoint):
            leg = Asked()
            endpoint.send(leg, (HEAD, b""), 5.0)
            await until(lambda: leg.connection is not None)
            connection = leg.connection
            sock = connection._transport.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 10_000
            connection.acknowledge_late()
            assert not sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
            connection.connection_lost(OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)))  # so the loop tells it
            assert leg.heard == ["stream"]
            assert leg.why == "its host is gone"

    asyncio.run(story())


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux has it")
def test_an_engine_may_leave_a_large_body_unread_but_not_the_bodies_after_it():
    """The system ends a connection whose receiver reads nothing for the limit, though it acknowledges what it keeps."""

    async def story():
        looked = asyncio.Event()

        async def answers(number, head, body, writer):
            await looked.wait()
            writer.write(whole(200, b"ab"))

        async with reaching(answers) as (one, endpoint):
            for size, limit_ms in ((65_535, 10_000), (65_536, 0), (1, 10_000)):
                leg = Asked()
                looked.clear()
                endpoint.send(leg, (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size, b"x" * size), 5.0)
                await until(lambda leg=leg: leg.connection is not None)
                sock = leg.connection._transport.get_extra_info("socket")
                assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == limit_ms
                looked.set()
                await leg.over.wait()
            assert len(one.open) == 1

    asyncio.run(story())


def test_a_kept_connection_that_was_closed_meanwhile_costs_nothing(monkeypatch):
    async def story():
        async def answers(number, head, body, writer):
            if number == 1:
                return False  # as if it had been closed before it was asked
            writer.write(whole(200, b"ab"))

        async with reaching(answers) as (one, endpoint):
            await ask(endpoint)
            (connection,) = endpoint.connections
            connection.idle_s -= 5.0
            assert await ask(endpoint) == [200, b"ab", "ended"]
            assert len(one.asked) == 3

    asyncio.run(story())


def test_a_leg_that_is_off_before_it_is_connected_sends_nothing():
    async def story():
        async def answers(number, head, body, writer):
            writer.write(whole(200, b"ab"))

        async with reaching(answers) as (one, endpoint):
            leg = Asked()
            endpoint.send(leg, (HEAD, b""), 5.0)
            cancel(leg)
            await until(lambda: endpoint.connections)
            assert await ask(endpoint) == [200, b"ab", "ended"]
            assert (len(one.asked), leg.heard) == (1, [])

    asyncio.run(story())


def test_a_connection_of_a_leg_that_was_off_is_a_kept_one_for_the_next_leg():
    async def story():
        async def answers(number, head, body, writer):
            if number < 1:
                return False  # as if it had been closed before it was asked
            writer.write(whole(200, b"ab"))

        async with reaching(answers) as (_, endpoint):
            leg = Asked()
            endpoint.send(leg, (HEAD, b""), 5.0)
            cancel(leg)
            await until(lambda: endpoint._idle)
            assert await ask(endpoint) == ["stale"]
            assert await ask(endpoint) == [200, b"ab", "ended"]

    asyncio.run(story())


def test_a_leg_that_is_cancelled_hears_nothing_more():
    async def story():
        async def answers(number, head, body, writer):
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            return STALLS

        async with reaching(answers) as (one, endpoint):
            leg = Asked()
            endpoint.send(leg, (HEAD, b""), 5.0)
            await until(lambda: leg.heard)
            connection = leg.connection
            cancel(leg)
            connection.data_received(framed(b"12345"))  # as a loop may have read it before
            connection.connection_lost(None)
            await one.left.wait()
            assert (leg.heard, leg.connection, endpoint.connections) == ([200], None, set())

    asyncio.run(story())


@pytest.mark.parametrize(("rest", "is_kept"), [(END, True), (framed(b"more") + END, False), (b"", False)])
def test_a_connection_that_was_let_go_is_kept_if_its_answer_ends_within_a_second(rest, is_kept):
    class LetsGo(Asked):
        def body(self, data):
            super().body(data)
            self.connection.let_go()
            self.over.set()

    async def story():
        async def answers(number, head, body, writer):
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + framed(b"ab"))
            await sent.wait()
            writer.write(rest)

        sent, loop, leg = asyncio.Event(), asyncio.get_running_loop(), LetsGo()
        async with reaching(answers) as (_, endpoint):
            endpoint.send(leg, (HEAD, b""), 9.0)
            await leg.over.wait()
            begun_s = loop.time()
            sent.set()
            await until(lambda: endpoint._idle if is_kept else not endpoint.connections)
            assert (loop.time() - begun_s < 0.1) == bool(rest)
            assert (leg.heard, leg.connection) == ([200, b"ab"], None)

    clock.run(story())


def test_a_retired_address_answers_what_was_asked_and_a_closed_one_is_not_connected_to():
    async def story():
        async def answers(number, head, body, writer):
            if number:
                await gate.wait()
            writer.write(whole(200, b"ab"))

        gate, legs = asyncio.Event(), [Asked() for _ in range(3)]
        async with reaching(answers) as (one, endpoint):
            for leg in legs[:2]:
                endpoint.send(leg, (HEAD, b""), 5.0)
            await legs[0].over.wait()
            assert endpoint.retire() and len(endpoint.connections) == 1  # the idle one is closed
            gate.set()
            await legs[1].over.wait()
            assert legs[1].heard == [200, b"ab", "ended"]
            assert not endpoint.connections and not endpoint.retire()
            endpoint.send(legs[2], (HEAD, b""), 5.0)
            assert endpoint.retire()
            endpoint.close()
            await until(lambda: not endpoint._tasks)
            assert (len(one.asked), legs[2].heard) == (2, [])

    asyncio.run(story())


def test_no_more_connections_are_kept_than_asked_and_none_for_ever():
    async def story():
        async def answers(number, head, body, writer):
            writer.write(whole(200, b"ab"))

        async with reaching(answers, connections=2, idle_s=0.02) as (_, endpoint):
            await asyncio.gather(*(ask(endpoint) for _ in range(5)))
            assert len(endpoint.connections) <= 2
            await until(lambda: not endpoint.connections)

    asyncio.run(story())
