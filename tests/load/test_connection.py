"""A connection fed with whatever a server may send: whole, byte by byte, and with a tail."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.load.test_answer import GOOD

from evenstep.http.heads import response_heads
from evenstep.load.answer import Answer, Meters
from evenstep.load.client import Call, Connection

BODY = b"".join(GOOD)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
SIZED = HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
UNTIL_CLOSED = HEAD + b"Connection: close\r\n\r\n" + BODY


class Wire:
    """A transport that writes into a list."""

    def __init__(self):
        self.written, self.closing = [], False

    def write(self, data):
        self.written.append(data)

    def is_closing(self):
        return self.closing

    def close(self):
        self.closing = True

    abort = close


class Owner:
    def __init__(self):
        self.heads = response_heads()
        self.back, self.lost = [], []

    def idle(self, connection):
        self.back.append(connection)

    def gone(self, connection):
        self.lost.append(connection)


class Told:
    """One request on one connection, and what became of it."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.owner, self.wire, self.ended = Owner(), Wire(), []
        self.connection = Connection(self.owner.heads, self.owner.idle, self.owner.gone)
        self.connection.connection_made(self.wire)
        self.call = self.ask()

    def ask(self):
        call = Call(b"GET", Answer(4, Meters(time.monotonic(), 1.0)), self.ended.append)
        call.start(self.loop, 5.0)
        self.connection.send(call)
        return call

    def feed(self, data, size=None):
        for place in range(0, len(data), size or len(data) or 1):
            if not self.wire.closing:
                self.connection.data_received(data[place : place + (size or len(data))])

    @property
    def error(self):
        return self.call.answer.error

    def close(self):
        self.loop.close()


@pytest.fixture
def told():
    found = Told()
    yield found
    found.close()


@pytest.mark.parametrize("size", [None, 1, 7])
@pytest.mark.parametrize("data", [CHUNKED, SIZED])
def test_a_whole_answer_leaves_the_connection_for_the_next(told, data, size):
    told.feed(data, size)
    assert told.ended == [told.call]
    assert (told.error, told.call.answer.tokens, told.call.status) == ("", 4, 200)
    assert told.owner.back == [told.connection]
    told.call = told.ask()
    told.feed(data, size)
    assert len(told.ended) == 2
    assert told.error == ""


def test_a_body_may_last_until_the_connection_closes(told):
    told.feed(UNTIL_CLOSED)
    assert told.ended == []
    told.connection.connection_lost(None)
    assert (told.error, len(told.ended), told.owner.back) == ("", 1, [])


def test_a_body_that_may_last_until_the_connection_closes_is_not_whole_where_it_breaks(told):
    told.feed(UNTIL_CLOSED)
    told.connection.connection_lost(ConnectionResetError())
    assert (told.error, len(told.ended)) == ("cut", 1)
    assert "in the middle of the answer" in told.call.answer.message


def test_a_connection_that_breaks_before_the_answer_says_so_and_its_time_out_is_off(told):
    told.connection.connection_lost(ConnectionResetError())
    assert told.error == "cut" and "before the answer" in told.call.answer.message
    assert told.call.connection is None and told.call._timer is None and told.ended == [told.call]


@pytest.mark.parametrize("kept", range(0, len(CHUNKED), 13))
def test_a_connection_that_closes_too_early_is_an_error(told, kept):
    told.feed(CHUNKED[:kept])
    told.connection.connection_lost(None)
    assert told.error == "cut"
    assert told.ended == [told.call]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"HTTP/1.1 503 No\r\nContent-Length: 4\r\n\r\nbusy", "status-503"),
        (b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", "status-302"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi", "not-a-stream"),
        (HEAD + b"Content-Length: 0\r\n\r\n", "no-finish"),
        (b"SSH-2.0-OpenSSH\r\n", "not-http"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "not-http"),
    ],
)
def test_what_is_no_stream_is_an_error_of_its_kind(told, data, kind):
    told.feed(data)
    assert told.error == kind
    assert told.ended == [told.call]


def test_what_a_server_says_about_an_error_is_kept(told):
    told.feed(b"HTTP/1.1 429 No\r\nContent-Length: 9\r\n\r\ntoo many!")
    assert told.call.answer.message == "too many!"


def test_an_interim_answer_is_not_the_answer(told):
    told.feed(b"HTTP/1.1 100 Continue\r\n\r\n" + SIZED)
    assert (told.error, told.call.status) == ("", 200)


def test_bytes_nobody_asked_for_close_the_connection(told):
    told.feed(SIZED)
    told.connection.data_received(b"more")
    assert told.wire.closing


def test_a_failure_in_an_answer_closes_its_connection_and_ends_it_once(told):
    told.feed(CHUNKED[:200])
    told.call._late(5.0)
    told.connection.connection_lost(None)
    assert told.error == "timeout"
    assert told.wire.closing and told.ended == [told.call]


def test_an_answer_that_takes_too_long_is_given_up(told):
    told.call._late(5.0)
    assert told.error == "timeout"
    assert told.wire.closing and told.ended == [told.call]


def test_an_answer_that_is_over_stays_as_it_was(told):
    told.feed(CHUNKED)
    assert told.ended == [told.call] and told.error == ""
    told.call.cancel()
    assert told.error == "" and told.ended == [told.call]


@pytest.mark.parametrize(
    ("status", "kind", "said"),
    [(503, "text/event-stream", "status-503"), (503, "text/plain", "status-503"), (200, "text/html", "not-a-stream")],
)
def test_only_an_event_stream_of_status_200_is_read_as_one(told, status, kind, said):
    body = b"data: busy\n\n"
    told.feed(
        b"HTTP/1.1 %d X\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (status, kind.encode(), len(body), body)
    )
    assert told.error == said and "data: busy" in told.call.answer.message


def test_a_connection_that_is_to_be_closed_is_not_used_again(told):
    told.feed(SIZED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
    assert (told.error, told.owner.back, told.wire.closing) == ("", [], True)
