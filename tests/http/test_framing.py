"""Chunked bodies: whole, byte by byte, cut at every place, and what is none."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenstep.http.errors import HttpError
from evenstep.http.framing import Chunked, framed, framing_of
from evenstep.http.head import UNTIL_CLOSED

BODY = b"5\r\nhello\r\n1;name=value\r\n \r\n5\r\nwo\r\nd\r\n0\r\nTrailer: x\r\n\r\n"
CARRIED = b"hello wo\r\nd"


def fed(*pieces):
    found = Chunked()
    out = b"".join(found.feed(piece) for piece in pieces)
    return out, found


def test_a_body_comes_out_however_it_is_cut():
    tail = b"GET / next"
    text = BODY + tail
    assert fed(text)[0] == CARRIED
    for cut in range(1, len(text)):
        out, found = fed(text[:cut], text[cut:] if cut < len(BODY) else b"")
        assert out == CARRIED
        assert found.over
        assert found.rest == (tail if cut < len(BODY) else text[len(BODY) : cut])
    out, found = fed(*(BODY[n : n + 1] for n in range(len(BODY))))
    assert (out, found.over, found.rest) == (CARRIED, True, b"")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.data())
def test_what_is_framed_comes_out_again(pieces, data):
    text = b"".join(framed(piece) for piece in pieces) + framed(b"", last=True)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text)), max_size=5)) | {0, len(text)})
    out, found = fed(*(text[a:b] for a, b in pairwise(cuts)))
    assert out == b"".join(pieces)
    assert found.over


def test_the_last_piece_ends_the_body():
    out, found = fed(framed(b"ab", last=True))
    assert (out, found.over) == (b"ab", True)
    assert framed(b"") == b""


@pytest.mark.parametrize(
    "text",
    [
        b"\r\n",
        b"g\r\n",
        b"-1\r\n",
        b"+1\r\n",
        b"0x1\r\n",
        b" 1\r\nx\r\n",
        b"1 \r\nx\r\n",
        b"1\nx\r\n",
        b"123456789\r\n",
        b"1\r\nxx\r\n",
        b"1\r\nxyz",
        b"1\r\nx\n0\r\n\r\n",
        b"1;a\nb\r\nx\r\n",
        b"1;a\x00\r\nx\r\n",
        b"0\r\nno trailer\r\n\r\n",
        b"0\r\n: x\r\n\r\n",
        b"0\r\n" + b"A: b\r\n" * 65 + b"\r\n",
        b"1;" + b"a" * 5000 + b"\r\nx\r\n",
        b"1;" + b"a" * 5000,
    ],
)
def test_what_is_no_chunk_is_refused_however_it_is_cut(text):
    for pieces in ([text], [text[n : n + 1] for n in range(len(text))]):
        with pytest.raises(HttpError):
            fed(*pieces)


@pytest.mark.parametrize("text", [b"zz", b"1\r\nxy", b"0\r\na\nb"])
def test_what_can_be_no_chunk_any_more_is_refused_before_its_line_is_whole(text):
    with pytest.raises(HttpError):
        fed(text)


def test_as_many_trailers_as_may_follow_are_dropped():
    assert fed(b"1\r\nx\r\n0\r\n" + b"A: b\r\n" * 64 + b"\r\n")[1].over


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_sized_body_ends_where_it_said(size):
    text, framing, out = b"hello world", framing_of(5), b""
    assert (framing.announced, framing.over) == (5, False)
    at = 0
    while not framing.over:
        out += framing.feed(text[at : at + size])
        at += size
    assert out + framing.rest == text[:at]
    assert (out, framing.announced, framing_of(0).over) == (b"hello", 0, True)


def test_a_body_without_a_length_ends_with_its_connection_alone():
    framing = framing_of(UNTIL_CLOSED)
    assert framing.feed(b"0\r\n\r\n") == b"0\r\n\r\n"
    assert (framing.over, framing.ends_with_connection, framing.is_between) == (False, True, False)


def test_the_bytes_that_a_chunk_promises_are_known_before_they_come():
    framing = framing_of(-1)
    framing.feed(b"ffffffff\r\nabc")
    assert (framing.announced, framing.is_between) == (0xFFFFFFFF - 3, False)
