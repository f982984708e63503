"""Heads are read strictly: what two readers could understand in two ways is no head."""

from __future__ import annotations

import pytest

from evenstep.http.errors import HttpError
from evenstep.http.head import (
    CHUNKED,
    MAX_FIELDS,
    UNTIL_CLOSED,
    PartialHead,
    read_request_head,
    read_response_head,
)


def head(*lines, first=b"POST /v1/x?y=1 HTTP/1.1"):
    return b"\r\n".join([first, *lines, b"", b""])


def test_an_ordinary_head_is_read():
    found = read_request_head(head(b"Host: a:80", b"X-A: 1", b"x-a: 2", b"Content-Length: 12", b"Expect: 100-continue"))
    assert (found.method, found.target, found.path) == ("POST", "/v1/x?y=1", "/v1/x")
    assert found.headers == {"host": "a:80", "x-a": "1, 2", "content-length": "12", "expect": "100-continue"}
    assert (found.length, found.keep_alive, found.chunks, found.expects) == (12, True, True, True)


def test_length_and_keeping_alive():
    assert read_request_head(head(b"Host: a", b"Transfer-Encoding: Chunked")).length == CHUNKED
    assert read_request_head(head(b"Host: a")).length == 0
    assert not read_request_head(head(b"Host: a", b"Connection: close")).keep_alive
    old = read_request_head(head(first=b"GET / HTTP/1.0"))
    assert not old.keep_alive
    assert not old.chunks
    assert read_request_head(head(b"Connection: Keep-Alive", first=b"GET / HTTP/1.0")).keep_alive


@pytest.mark.parametrize("space", [b" ", b"\t", b" \t "])
def test_white_space_around_a_value_is_no_part_of_it(space):
    lines = (
        (b"Host:%b%b%b", b"a"),
        (b"Content-Length:%b%b%b", b"3"),
        (b"Expect:%b%b%b", b"100-continue"),
        (b"X:%b%b%b", b"b c"),
    )
    found = read_request_head(head(*(line % (space, value, space) for line, value in lines)))
    assert found.headers == {"host": "a", "content-length": "3", "expect": "100-continue", "x": "b c"}
    assert (found.length, found.expects) == (3, True)
    answer = head(b"Content-Length: 3" + space, b"Retry-After: 7" + space, first=b"HTTP/1.1 503 Busy")
    assert (read_response_head(answer).length, read_response_head(answer).retry_after_s) == (3, 7.0)


def test_a_wish_to_upgrade_is_an_ordinary_request():
    found = read_request_head(head(b"Host: a", b"Connection: Upgrade", b"Upgrade: h2c"))
    assert found.headers["upgrade"] == "h2c"


@pytest.mark.parametrize(
    "lines",
    [
        (),
        (b"Host: a", b"Host: b"),
        (b"Host: a, b",),
        (b"Host: a b",),
        (b"Host: a/b",),
        (b"Host: a", b"Content-Length: 3", b"Transfer-Encoding: chunked"),
        (b"Host: a", b"Content-Length: 3", b"Content-Length: 3"),
        (b"Host: a", b"Content-Length: 3, 3"),
        (b"Host: a", b"Content-Length: +3"),
        (b"Host: a", b"Content-Length: -3"),
        (b"Host: a", b"Content-Length: 0x3"),
        (b"Host: a", b"Content-Length: 3 4"),
        (b"Host: a", b"Content-Length: "),
        (b"Host: a", b"Content-Length: 99999999999999999999"),
        (b"Host: a", b"Transfer-Encoding: gzip, chunked"),
        (b"Host: a", b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"),
        (b"Host: a", b"Transfer-Encoding: xchunked"),
        (b"Host: a", b"Transfer-Encoding : chunked"),
        (b"Host: a", b"X: 1", b" folded"),
        (b"Host: a", b"X: 1", b"\tfolded"),
        (b"Host: a", b"X: a\x00b"),
        (b"Host: a", b"X: a\rb"),
        (b"Host: a", b"X: a\nb"),
        (b"Host: a", b"X: a\x7fb"),
        (b"Host: a", b"X y: 1"),
        (b"Host: a", b": 1"),
        (b"Host: a", b"X"),
    ],
)
def test_what_is_ambiguous_is_refused(lines):
    with pytest.raises(HttpError) as error:
        read_request_head(head(*lines))
    assert error.value.status == 400
    assert error.value.message.endswith(".")


@pytest.mark.parametrize(
    "first",
    [
        b"POST  /x HTTP/1.1",
        b"POST /x HTTP/2.0",
        b"POST /x HTTP/1.1 ",
        b"POST x HTTP/1.1",
        b"POST /x y HTTP/1.1",
        b"POST /\xff HTTP/1.1",
        b"POST http://u@a/ HTTP/1.1",
        b"GET",
        b"P\x01ST /x HTTP/1.1",
        b" GET / HTTP/1.1",
        b"BREW / HTTP/1.1",
        b"POST /v1\\completions HTTP/1.1",
        b"POST /v1/x\\..\\y HTTP/1.1",
        b"POST /v1/x?y=\\ HTTP/1.1",
    ],
)
def test_a_first_line_that_is_none_is_refused(first):
    with pytest.raises(HttpError):
        read_request_head(head(b"Host: a", first=first))


def test_other_refusals_have_their_own_status():
    for status, text in (
        (417, head(b"Host: a", b"Expect: something")),
        (501, head(b"Host: a:443", first=b"CONNECT a:443 HTTP/1.1")),
        (501, head(b"Host: a:80", first=b"CONNECT [::1]:80 HTTP/1.1")),
        (501, head(b"Host: a", first=b"CONNECT /a HTTP/1.1")),
        (400, head(b"Host: a:443", b"X : 1", first=b"CONNECT a:443 HTTP/1.1")),
        (431, head(b"Host: a", *[b"X: 1"] * MAX_FIELDS)),
        (400, head(b"Host: a", b"Transfer-Encoding: chunked", first=b"POST / HTTP/1.0")),
    ):
        with pytest.raises(HttpError) as error:
            read_request_head(text)
        assert error.value.status == status


@pytest.mark.parametrize(
    "target", [b"*", b"a:80", b"http:///x", b"http://:80/x", b"http://u@a/x", b"ftp://a/x", b"http://a#x"]
)
def test_a_target_that_is_no_path_is_named(target):
    with pytest.raises(HttpError) as error:
        read_request_head(head(b"Host: a", first=b"GET %b HTTP/1.1" % target))
    assert (error.value.status, error.value.message) == (400, "The request's target is not a path.")


@pytest.mark.parametrize(
    ("target", "path", "host"),
    [
        (b"http://a/x?y=http://c/", "/x?y=http://c/", "a"),
        (b"HTTPS://a:443/x", "/x", "a:443"),
        (b"http://[::1]:80", "/", "[::1]:80"),
        (b"http://a?y", "/?y", "a"),
    ],
)
def test_a_url_as_target_is_read_as_its_path_and_its_host_counts(target, path, host):
    found = read_request_head(head(b"Host: b", first=b"GET %b HTTP/1.1" % target))
    assert (found.target, found.headers["host"]) == (path, host)
    with pytest.raises(HttpError, match="no Host header, or several"):
        read_request_head(head(first=b"GET %b HTTP/1.1" % target))


def test_an_answers_head_is_read():
    found = read_response_head(head(b"Content-Length: 2", b"Retry-After: 7", first=b"HTTP/1.1 503 Busy"))
    assert (found.status, found.length, found.keep_alive, found.retry_after_s) == (503, 2, True, 7.0)
    assert read_response_head(head(first=b"HTTP/1.1 200 OK")).length == UNTIL_CLOSED
    assert not read_response_head(head(first=b"HTTP/1.1 200 OK")).keep_alive
    assert read_response_head(head(first=b"HTTP/1.1 204")).length == 0
    assert read_response_head(head(b"Content-Length: 5", first=b"HTTP/1.1 200 OK"), to_head=True).length == 0
    date = read_response_head(head(b"Retry-After: Fri, 1 Jan 2027 00:00:00 GMT", first=b"HTTP/1.1 503 X"))
    assert date.retry_after_s == 0.0


@pytest.mark.parametrize(
    ("text", "waits_s"),
    [(b"999999", 999999.0), *((text, 0.0) for text in (b"1000000", b"inf", b"nan", b"-5", b"1.5", b"1e5", b"\xb2"))],
)
def test_only_a_whole_number_of_up_to_six_digits_is_waited_for(text, waits_s):
    assert read_response_head(head(b"Retry-After: " + text, first=b"HTTP/1.1 503 X")).retry_after_s == waits_s


@pytest.mark.parametrize("fold", [b" b", b"\tb"])
def test_a_folded_line_is_named(fold):
    with pytest.raises(HttpError, match="folded"):
        read_request_head(head(b"Host: a", b"X: a", fold))


@pytest.mark.parametrize(
    "text",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\x85\r\n\r\n",
        b"HTTP/1.1 099 X\r\n\r\n",
        b"HTTP/3 200 OK\r\n\r\n",
        b"200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\nA: b\r\n\r\n",
    ],
)
def test_an_answers_head_that_is_none_is_refused(text):
    with pytest.raises(HttpError):
        read_response_head(text)


def test_the_end_of_a_head_is_found_wherever_it_is_cut():
    whole, tail = head(b"Host: a"), b"body"
    for size in (1, 2, 3, 5, len(whole) + 4):
        begun, text, at = PartialHead(), whole + tail, 0
        while (end := begun.add(text[at : at + size])) < 0:
            at += size
        assert end == len(whole)
        found, more = begun.take(end)
        assert (found, tail.startswith(more)) == (whole, True)
        assert not begun.data
