"""The server's side: each message is fed whole, byte by byte, and with a tail of the next one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import Message, examples, http_requests

from evenstep.http.errors import HttpError
from evenstep.http.head import RequestHead, read_request_head
from evenstep.http.heads import Heads
from evenstep.http.server import CONTINUE, Request, ServerSide, State

GET = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b"
JSON = b"application/json"


@dataclass(frozen=True)
class Parsed:
    head: RequestHead
    wants_body: bool = True


@dataclass
class Limits:
    head_bytes: int = 4096
    body_bytes: int = 1000


class Rules:
    """What a service shares with its connections."""

    def __init__(self, **limits):
        self.limits = Limits(**limits)
        self.read = Heads(self._read).read

    @staticmethod
    def _read(head):
        found = read_request_head(head)
        return Parsed(found), found.length, True


def machine(**limits):
    return ServerSide(Rules(**limits))


def fed(server, text, size=0):
    """Everything that happens while each request is answered at once: what came, and what was written."""
    heard, written = [], b""
    for at in range(0, len(text), size or len(text) or 1):
        event = server.receive(text[at : at + (size or len(text))])
        while event is not None:
            heard.append(event)
            if isinstance(event, bytes):
                break
            status = event.status if isinstance(event, HttpError) else 200
            written += server.whole(status, JSON, b"ok")
            event = server.receive(b"") if server.waiting else None
    return heard, written


def told(heard):
    return [
        (one.parsed.head.method, one.parsed.head.target, one.body) if isinstance(one, Request) else str(one)
        for one in heard
        if not isinstance(one, bytes)
    ]


@examples(300)
@given(st.lists(http_requests(), min_size=1, max_size=4), st.integers(1, 40))
def test_requests_are_the_same_in_whatever_pieces_they_come(messages: list[Message], size: int):
    text = b"".join(one.text for one in messages)
    last = next((i for i, one in enumerate(messages) if not one.keep_alive), len(messages) - 1)
    whole, written = fed(machine(), text)
    assert [body for _, _, body in told(whole)] == [one.body for one in messages[: last + 1]]
    for pieces in (1, size):
        again, said = fed(machine(), text, pieces)
        assert told(again) == told(whole)
        assert said == written
    assert written.count(b"HTTP/1.1 200 OK") == last + 1


@examples(100)
@given(http_requests(), http_requests(), st.data())
def test_the_tail_of_the_next_request_waits_for_the_answer(first: Message, second: Message, data: st.DataObject):
    tail = second.text[: data.draw(st.integers(0, len(second.text)))]
    server = machine()
    event = server.receive(first.text + tail)
    assert isinstance(event, Request) and event.body == first.body
    assert (server.state, server.waiting) == (State.ANSWERING, len(tail) if first.keep_alive else 0)
    server.whole(200, JSON, b"")
    if not first.keep_alive:
        assert server.state is State.OVER and server.receive(GET) is None
        return
    event = server.receive(b"")
    if event is None or isinstance(event, bytes):
        event = server.receive(second.text[len(tail) :])
    assert isinstance(event, Request) and event.body == second.body


HOSTILE = {
    "bare LF": b"GET / HTTP/1.1\nHost: x\n\n",
    "NUL": b"GET /\x00",
    "another protocol": b"\x16\x03\x01\x02\x00\x01\x00\x01\n",
    "no Host": b"GET / HTTP/1.1\r\n\r\n",
    "two empty lines": b"\r\n\r\n" + GET,
    "two lengths": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
    "length and coding": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "coding in 1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "other coding": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "space before a colon": b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
    "folded line": b"GET / HTTP/1.1\r\nHost: a\r\n b: c\r\n\r\n",
    "a user in the target": b"GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "bad chunk": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "long chunk": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
    "LF in a chunk's line": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n",
    "CONNECT": b"CONNECT /a HTTP/1.1\r\nHost: a\r\n\r\n",
    "other expectation": b"GET / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("before", [b"", POST % (2, b"ab")])
def test_what_is_hostile_is_one_fault_and_the_end_however_it_is_cut(name, before):
    text = before + HOSTILE[name] + GET
    for size in (0, 1, 7):
        server = machine()
        heard, written = fed(server, text, size)
        assert isinstance(heard[-1], HttpError)
        assert len(heard) == 1 + bool(before)
        assert written.endswith(b"Connection: close\r\n\r\nok")
        assert server.state is State.OVER
        assert server.receive(GET) is None


@pytest.mark.parametrize("text", [b"GET / HTTP/1.1\nHost: x\n\n", b"GET /\x00", b"GET / HTTP/1.1\r\nX: 1\n"])
def test_a_head_that_cannot_become_one_is_refused_at_once(text):
    server = machine()
    heard = [event for n in range(len(text)) if (event := server.receive(text[n : n + 1])) is not None]
    assert [error.status for error in heard] == [400]
    assert isinstance(machine().receive(text), HttpError)


@pytest.mark.parametrize("size", [0, 1, 7])
def test_what_is_as_large_as_it_may_be_is_read(size):
    chunked = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n"
    for text in (POST % (10, b"0123456789"), chunked):
        server = machine(head_bytes=text.index(b"\r\n\r\n") + 4, body_bytes=10)
        (event,) = fed(server, text, size)[0]
        assert isinstance(event, Request) and event.body == b"0123456789"


@pytest.mark.parametrize(
    ("text", "status", "code"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 5000 + b"\r\n\r\n", 431, "headers_too_large"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 5000, 431, "headers_too_large"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: 1\r\n" * 200 + b"\r\n", 431, ""),
        (POST % (1001, b""), 413, "request_too_large"),
        (POST % (99999999999, b""), 413, "request_too_large"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" + b"y" * 2000, 413, "request_too_large"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\ny", 413, "request_too_large"),
        (
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1;x\r\na\r\n" * 1001,
            413,
            "request_too_large",
        ),
    ],
)
@pytest.mark.parametrize("size", [0, 1, 100])
def test_what_is_too_large_is_refused_before_it_is_kept(text, status, code, size):
    server = machine()
    heard, _ = fed(server, text, size)
    (error,) = heard
    assert (error.status, error.code) == (status, code)


def test_the_limits_of_a_service_may_change_under_its_connections():
    rules = Rules()
    server = ServerSide(rules)
    assert len(fed(server, POST % (600, b"y" * 600))[0]) == 1
    rules.limits = Limits(body_bytes=500)
    (error,) = fed(server, POST % (600, b"y" * 600))[0]
    assert error.status == 413


def test_states_follow_each_other_as_the_rule_says():
    server = machine()
    assert (server.keep_alive, server.waiting, server.got, server.has_begun) == (True, 0, 0, False)
    seen = [server.state]
    for data in (b"POST /x HTTP/1.1\r\nHost: a\r\n", b"Content-Length: 3\r\n\r\n", b"a", b"bc"):
        server.receive(data)
        seen.append(server.state)
    assert seen == [State.IDLE, State.HEAD, State.BODY, State.BODY, State.ANSWERING]
    assert server.parsed is not None
    server.whole(200, JSON, b"")
    assert (server.state, server.parsed) == (State.IDLE, None)


def test_a_client_that_waits_for_100_is_heard_only_if_it_waits():
    head = b"POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    server = machine()
    assert isinstance(server.receive(head), bytes)
    assert isinstance(server.receive(b"abc"), Request)
    assert isinstance(machine().receive(head + b"abc"), Request)
    assert machine().receive(head + b"a") is None
    old = machine().receive(head.replace(b"1.1", b"1.0"))
    assert old is None  # RFC 9110 section 10.1.1: HTTP/1.0 does not know it
    assert CONTINUE.endswith(b"\r\n\r\n")


def test_a_pile_of_later_requests_is_not_kept():
    server = ServerSide(Rules(), most_waiting=100)
    assert isinstance(server.receive(GET + GET), Request)
    assert server.receive(b"x" * (100 - len(GET))) is None
    assert server.waiting == 100
    assert server.receive(b"x") is None
    assert server.waiting == 0
    assert b"Connection: close" in server.whole(200, JSON, b"")
    assert server.state is State.OVER


def test_bytes_that_come_before_the_waiting_ones_are_asked_for_keep_their_place():
    server = machine()
    second = POST % (4, b"next")
    assert isinstance(server.receive(GET + second[:9]), Request)
    server.whole(200, JSON, b"")
    event = server.receive(second[9:])
    assert isinstance(event, Request) and event.body == b"next"
    assert server.receive(b"") is None


# --- answers -------------------------------------------------------------------------------------------------


def asked(text=GET):
    server = machine()
    assert isinstance(server.receive(text), Request)
    return server


OLD = b"GET /x HTTP/1.0\r\n\r\n"
OLD_KEPT = b"GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"


@pytest.mark.parametrize(
    ("text", "stays", "line"),
    [
        (GET, True, b""),
        (GET.replace(b"Host", b"Connection: close\r\nHost"), False, b"Connection: close\r\n"),
        (OLD, False, b"Connection: close\r\n"),
        (OLD_KEPT, True, b"Connection: keep-alive\r\n"),
    ],
)
def test_a_whole_answer_says_its_length_and_whether_the_connection_stays(text, stays, line):
    server = asked(text)
    found = server.whole(404, b"text/plain", b"gone", b"X-A: 1\r\n")
    assert found == (
        b"HTTP/1.1 404 Not Found\r\nX-A: 1\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n%b\r\ngone" % line
    )
    assert server.state is (State.IDLE if stays else State.OVER)


def test_a_status_without_a_name_and_the_answer_to_head():
    assert asked().whole(299, JSON, b"").startswith(b"HTTP/1.1 299 Unknown\r\n")
    found = asked(GET.replace(b"GET", b"HEAD")).whole(200, JSON, b"four")
    assert found.endswith(b"Content-Length: 4\r\n\r\n")
    server = asked(GET.replace(b"GET", b"HEAD"))
    server.start(200, JSON)
    assert server.piece(b"", last=True).endswith(b"application/json\r\n\r\n") and server.state is State.IDLE
    server = asked(GET.replace(b"GET", b"HEAD"))
    server.whole(200, JSON, b"four")
    server.receive(b"nonsense\r\n\r\n")
    assert server.whole(400, JSON, b"why").endswith(b"\r\n\r\nwhy")  # the fault is no answer to HEAD


@pytest.mark.parametrize(
    ("text", "length", "stays", "carried"),
    [
        (GET, -1, True, b"2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n"),
        (GET, 5, True, b"abcde"),
        (OLD_KEPT, 5, True, b"abcde"),
        (OLD_KEPT, -1, False, b"abcde"),
        (OLD, -1, False, b"abcde"),
    ],
)
def test_an_answer_in_pieces_is_framed_as_its_client_can_read(text, length, stays, carried):
    server = asked(text)
    server.start(200, b"text/event-stream", b"Cache-Control: no-cache\r\n", length)
    assert server.state is State.ANSWERING
    first = server.piece(b"ab")
    rest = server.piece(b"cde") + server.piece(b"", last=True)
    head, _, body = (first + rest).partition(b"\r\n\r\n")
    assert body == carried
    assert (b"chunked" in head, b"Content-Length: 5" in head) == (carried[:1] == b"2", length == 5)
    assert (b"Connection: close" in head) is not stays
    assert server.state is (State.IDLE if stays else State.OVER)


def test_pieces_that_are_framed_elsewhere_go_out_as_they_are():
    server = asked()
    server.start(200, JSON)
    assert re.fullmatch(rb"HTTP/1.1 200 OK.*\r\n\r\n1\r\na\r\n", server.forward(b"1\r\na\r\n"), re.DOTALL)
    assert server.forward(b"1\r\nb\r\n") == b"1\r\nb\r\n"
    assert server.piece(b"c", last=True) == b"1\r\nc\r\n0\r\n\r\n"


@pytest.mark.parametrize("text", [b"GET / HT", POST % (9, b"abc")])
def test_an_answer_to_a_part_of_a_request_is_the_last(text):
    server = machine()
    assert server.receive(text) is None
    assert b"Connection: close" in server.whole(408, JSON, b"late")
    assert server.state is State.OVER


def test_nothing_is_read_after_a_close():
    server = machine()
    server.receive(POST % (9, b"abc"))
    server.close()
    assert (server.state, server.receive(b"defghi"), server.waiting) == (State.OVER, None, 0)


@examples(200)
@given(st.binary(max_size=200), st.integers(1, 20))
def test_no_bytes_break_it(noise: bytes, size: int):
    for text in (noise, GET + noise, (POST % (50, b""))[:-4] + noise, b"GET " + noise + b"\r\n\r\n"):
        server = machine(head_bytes=100, body_bytes=60)
        whole = told(fed(server, text)[0])
        one = partial(fed, machine(head_bytes=100, body_bytes=60), text)
        assert len(told(one(size)[0])) == len(whole)


@pytest.mark.parametrize("length", [-1, 0])
@pytest.mark.parametrize("text", [GET, OLD_KEPT])
@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_without_content_has_no_length_and_no_coding(text, length, status):
    server = asked(text)
    server.start(status, JSON, length=length)
    head = server.piece(b"", last=True)
    assert head.endswith(b"\r\n\r\n") and b"Content-Length" not in head and b"chunked" not in head
    assert server.state is State.IDLE


@pytest.mark.parametrize("status", [204, 304])
def test_a_whole_answer_without_content_has_none(status):
    found = asked().whole(status, JSON, b"four")
    assert found.endswith(b"\r\n\r\n") and b"Content-Length" not in found
