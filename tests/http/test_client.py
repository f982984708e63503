"""The client's side: each answer is fed whole, byte by byte, and with a tail of the next one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import Message, examples, http_answers

from evenstep.http.client import ClientSide
from evenstep.http.framing import framed
from evenstep.http.head import CHUNKED
from evenstep.http.heads import response_heads

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab"


class Heard:
    """What one answer brought."""

    def __init__(self, machine: ClientSide, text: bytes, size: int = 0) -> None:
        self.heads, self.body, self.over, self.fault = [], b"", 0, ""
        for at in range(0, len(text), size or len(text)):
            piece = machine.receive(text[at : at + (size or len(text))])
            if piece is not None:
                self.add(piece)

    def add(self, piece):
        assert not self.over and not self.fault
        if piece.head is not None:
            assert not self.body
            self.heads.append(piece.head)
        self.body += piece.body
        self.over += piece.over
        self.fault = piece.fault


def asked(is_head=False):
    machine = ClientSide(response_heads())
    machine.ask(is_head)
    return machine


@pytest.mark.slow
@examples(300)
@given(st.lists(http_answers(), min_size=1, max_size=3), st.integers(1, 40))
def test_answers_are_the_same_in_whatever_pieces_they_come(messages: list[Message], size: int):
    for pieces in (0, 1, size):
        machine = ClientSide(response_heads())
        for one in messages:
            machine.ask(one.to_head)
            heard = Heard(machine, one.text, pieces)
            assert (len(heard.heads), heard.body, heard.over, heard.fault) == (1, one.body, 1, "")
            assert machine.head is heard.heads[0]
            assert machine.keeps is one.keep_alive


@examples(100)
@given(http_answers(), http_answers(), st.data())
def test_a_connection_with_more_than_its_answer_is_not_kept(first: Message, second: Message, data: st.DataObject):
    tail = second.text[: data.draw(st.integers(1, len(second.text)))]
    machine = asked(first.to_head)
    heard = Heard(machine, first.text + tail)
    assert (heard.body, heard.over, machine.keeps) == (first.body, 1, False)
    machine = asked(first.to_head)
    assert Heard(machine, first.text).over
    late = machine.receive(tail)
    assert late is not None and late.fault == "it sends what was not asked for"
    assert machine.receive(tail) is None and not machine.keeps


def test_an_answer_that_is_there_at_once_is_one_piece():
    piece = asked().receive(OK)
    assert piece is not None
    assert (piece.head is not None, piece.body, piece.over) == (True, b"ab", True)


@pytest.mark.parametrize("size", [0, 1, 30, len(OK) - 1])
def test_an_answer_with_the_head_of_the_last_one_is_read_as_that_was(size):
    machine = asked()
    machine.receive(OK)
    machine.ask()
    heard = Heard(machine, OK.replace(b": 2", b": 11")[:-2] + b"hello world", size)
    assert (len(heard.heads), heard.body, heard.over, machine.length, machine.keeps) == (1, b"hello world", 1, 11, True)
    machine.ask()
    assert Heard(machine, OK + b"more").body == b"ab" and machine.is_idle and not machine.keeps


def test_a_new_connection_expects_nothing():
    machine = ClientSide(response_heads())
    assert machine.is_idle
    piece = machine.receive(OK)
    assert piece is not None and piece.fault == "it sends what was not asked for"


@pytest.mark.parametrize("size", [0, 1, 3])
def test_an_answer_without_a_length_ends_with_its_connection(size):
    machine = asked()
    heard = Heard(machine, b"HTTP/1.1 200 OK\r\n\r\nabc", size)
    assert (heard.body, heard.over) == (b"abc", 0)
    end = machine.end()
    assert end is not None and end.over and not machine.keeps
    assert machine.end() is None


@pytest.mark.parametrize("kept", range(len(OK)))
def test_an_answer_that_ends_too_early_is_incomplete(kept):
    machine = asked()
    if kept:
        machine.receive(OK[:kept])
    end = machine.end()
    assert end is not None and end.fault == "it closed the connection before its answer was complete"


def test_a_connection_that_waits_for_work_may_end():
    machine = asked()
    assert machine.keeps is False
    machine.receive(OK)
    assert machine.keeps
    assert machine.end() is None and not machine.keeps


@pytest.mark.parametrize(
    ("text", "why", "heads"),
    [
        (b"SSH-2.0", "what it says is not HTTP", 0),
        (b"no http\r\n\r\n", "The head is not HTTP/1.1.", 0),
        (b"HTTP/1.1 200 OK\nA: b\r\n\r\n", "A line of the head does not end with CRLF.", 0),
        (b"HTTP/1.1 200 OK\nContent-Length: 1\n\n", "the lines of its head do not end with CRLF", 0),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000, "its head is too large", 0),
        (b"HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", "another protocol", 0),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 5000, "it says without an end that its answer will come", 0),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "not HTTP", 0),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "chunk", 1),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", "chunk", 1),
    ],
)
@pytest.mark.parametrize("is_whole", [True, False])
def test_what_is_no_answer_says_why_and_is_read_no_further(text, why, heads, is_whole):
    machine = asked()
    size = len(text) if is_whole else 1 + len(text) // 10_000  # byte by byte, a text without an end a few at a time
    faults, found = [], 0
    for at in range(0, len(text), size):
        piece = machine.receive(text[at : at + size])
        if piece is not None:
            found += piece.head is not None
            faults += [piece.fault] * bool(piece.fault)
    assert found == heads and len(faults) == 1
    if is_whole or faults != ["what it says is not HTTP"]:  # seen earlier, byte by byte
        assert why in faults[0]
    assert not machine.keeps and machine.receive(OK) is None


def test_a_host_may_read_whole_chunks_itself():
    machine = asked()
    piece = machine.receive(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert piece is not None and machine.length == CHUNKED
    assert machine.framing is not None and machine.framing.is_between
    machine.receive(b"2\r\na")
    assert not machine.framing.is_between
    machine.receive(b"b\r\n")
    assert machine.framing.is_between  # the host reads b"1\r\nx\r\n", and feeds what follows
    assert machine.receive(framed(b"", last=True)).over
    assert machine.framing is None and machine.keeps


@examples(200)
@given(st.binary(max_size=200), st.integers(1, 20))
def test_no_bytes_break_it(noise: bytes, size: int):
    for text in (
        noise,
        b"HTTP/1.1 " + noise,
        OK[:-6] + noise,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + noise,
    ):
        for pieces in (0, size):
            machine = asked()
            for at in range(0, len(text), pieces or max(1, len(text))):
                machine.receive(text[at : at + (pieces or len(text))])
            machine.end()
            assert machine.receive(OK) is None
