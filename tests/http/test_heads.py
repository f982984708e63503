"""Heads that were read before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstep.http.errors import HttpError
from evenstep.http.head import RequestHead, read_request_head
from evenstep.http.heads import Heads, response_heads

LINES = (
    b"Host: a",
    b"Host: b",
    b"Content-Length: 5",
    b"content-length: 7",
    b"Content-Length: 12",
    b"Content-Length: 5 ",
    b"CONTENT-LENGTH: 3",
    b"Content-Length:4",
    b"Content-Length: +1",
    b"Content-Length: ",
    b"Transfer-Encoding: chunked",
    b"Connection: close",
    b"X: Content-Length: 5",
    b"X: 1",
)


def made(head: bytes) -> tuple[RequestHead, int, bool]:
    found = read_request_head(head)
    return found, found.length, True


def said(found: RequestHead, length: int) -> tuple:
    headers = {name: value for name, value in found.headers.items() if name != "content-length"}
    return found.method, found.path, found.keep_alive, found.chunks, headers, length


@given(st.lists(st.lists(st.sampled_from(LINES), max_size=4), min_size=1, max_size=30))
def test_what_is_remembered_is_what_reading_it_would_find(heads):
    known = Heads(made)
    for lines in heads:
        head = b"\r\n".join((b"POST /v1/completions HTTP/1.1", b"Host: h", *lines, b"", b""))
        try:
            expected = read_request_head(head)
        except HttpError as error:
            with pytest.raises(HttpError, match=error.message[:20]):
                known.read(head)
        else:
            assert said(*known.read(head)) == said(expected, expected.length)


def test_only_the_digits_of_the_length_may_differ():
    calls: list[bytes] = []

    def counted(head: bytes) -> tuple[RequestHead, int, bool]:
        calls.append(head)
        return made(head)

    known = Heads(counted)
    text = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\nX: 1\r\n\r\n"
    assert [known.read(text % n)[1] for n in (5, 77, 0)] == [5, 77, 0] and len(calls) == 1
    assert known.read(text.replace(b"X: 1", b"X: 2") % 5)[1] == 5 and len(calls) == 2
    without = b"POST / HTTP/1.1\r\nHost: a\r\nX: 1\r\n\r\n"
    assert [known.read(without)[1] for _ in range(2)] == [0, 0] and len(calls) == 3


def test_a_head_without_the_digits_is_not_found_as_one_that_had_them():
    """Else a request with an empty length would have the body of another: a second request could hide in it."""
    heads, good = Heads(made), b"POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"
    for _ in range(2):
        assert heads.read(good)[1] == 5
    for _ in range(2):
        with pytest.raises(HttpError, match="Empty Content-Length"):
            heads.read(good.replace(b": 5", b": "))


def test_what_is_not_to_be_kept_is_read_again():
    calls: list[bytes] = []

    def never(head: bytes) -> tuple[int, int, bool]:
        calls.append(head)
        return len(calls), 0, False

    known = Heads(never)
    assert [known.read(b"x\r\nContent-Length: 3\r\n\r\n")[0] for _ in range(3)] == [1, 2, 3]


def test_many_heads_are_not_all_remembered():
    known = Heads(lambda head: (head, 0, True))
    for number in range(2000):
        assert known.read(b"%d" % number) == (b"%d" % number, 0)
    assert len(known._whole) <= 512


def test_a_cached_head_of_a_request_has_its_own_length():
    heads = Heads(lambda head: ((found := read_request_head(head)), found.length, True))
    text = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
    first, second = heads.read(text % 5), heads.read(text % 70)
    assert first[0] is second[0]
    assert (first[1], second[1]) == (5, 70)


def test_the_head_like_the_last_one_is_found_at_the_start_of_an_answer():
    heads, text = response_heads(), b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nA: b\r\n\r\n"
    assert heads.split(text % 3 + b"abc") is None
    kept, _ = heads.read(text % 3)
    assert heads.split(text % 12 + b"abc") == (kept, 12, len(text % 12))
    assert heads.split((text % 12)[:-1]) is None
    assert all(heads.split((text % 12)[:size]) is None for size in range(len(text % 12)))
    assert heads.split(text.replace(b"%d", b"") + b"abc") is None
    assert heads.split(text.replace(b"%d", b"1" * 19) + b"abc") is None
    assert heads.split(text.replace(b"A", b"B") % 3) is None


def test_heads_of_errors_are_parsed_each_time():
    heads, text = response_heads(), b"HTTP/1.1 503 Busy\r\nContent-Length: 1\r\nRetry-After: 3\r\n\r\n"
    assert heads.read(text)[0] is not heads.read(text)[0]
