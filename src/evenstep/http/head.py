"""Strict parsing of HTTP/1.1 heads: bytes to values, and nothing that two parsers could read in two ways.

Rules of this file, with the sections they come from:

* A head is everything up to and including its first empty line (RFC 9112 section 2.1). A line ends with CRLF only; a bare
  CR or LF is refused, though a recipient may accept the LF (section 2.2).
* No line is folded (section 5.2), and no space stands before a colon (section 5.1). Names are tokens (RFC 9110 section
  5.6.2). Values have no control characters except tabs (RFC 9110 section 5.5).
* The length of the body is given at most once, as plain digits (RFC 9110 section 8.6) or as ``chunked`` (RFC 9112 section
  6.1), and never as both (section 6.3).
* A request names a path (section 3.2.1) without a backslash, and has one Host header; with HTTP/1.0 that may be absent
  (section 3.2). A URL in place of the path, as for a proxy, is read as its path, and its host replaces Host (section 3.2.2).

llhttp parses a head that keeps these rules. A violation raises `HttpError`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import httptools

from evenstep.http.errors import HttpError

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_FIELDS = rb"(?:" + _TOKEN + rb":[\t\x20-\x7e\x80-\xff]*+\r\n)*+\r\n"
_REQUEST = re.compile(_TOKEN + rb" /[\x21-\x7e]* HTTP/1\.[01]\r\n" + _FIELDS)
_CONNECT = re.compile(rb"CONNECT (?:[A-Za-z0-9.\-_~%!$&'()*+,;=]+|\[[0-9A-Fa-f:.]+\]):\d{1,5} HTTP/1\.[01]\r\n" + _FIELDS)
_OTHER_TARGET = re.compile(_TOKEN + rb" [\x21-\x2e\x30-\x7e][\x21-\x7e]* HTTP/1\.[01]\r\n" + _FIELDS)
_RESPONSE = re.compile(rb"HTTP/1\.[01] [1-5][0-9][0-9](?: [\t\x20-\x7e\x80-\xff]*+)?\r\n" + _FIELDS)
_HOST = re.compile(rb"[A-Za-z0-9.\-_~%!$&'()*+,;=]*(?::\d{0,5})?|\[[0-9A-Fa-f:.]+\](?::\d{0,5})?")
_URL = re.compile(rb"(" + _TOKEN + rb" )(?i:https?)://((?![:/? ])(?:" + _HOST.pattern + rb"))(?=[/? ])/?")
_DIGITS = re.compile(rb"[0-9]{1,18}")
#: Most headers of a head.
MAX_FIELDS = 128
CHUNKED = -1
UNTIL_CLOSED = -2

P = TypeVar("P", httptools.HttpRequestParser, httptools.HttpResponseParser)


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The head of a request."""

    method: str  # as it came
    target: str  # as it came: a path, with its query; of a URL only that part
    path: str  # the target without its query, not decoded
    headers: dict[str, str]  # by name in lower case; values of one name are joined by a comma and a blank
    #: bytes of the body, 0 without one, or `CHUNKED`; a cached head (`heads`) has the length of the first request
    length: int
    keep_alive: bool  # the client lets the connection be reused (RFC 9112 section 9.3)
    chunks: bool  # the client knows chunked bodies: it speaks HTTP/1.1 (RFC 9112 section 7.1)
    expects: bool  # the client waits for a 100 before it sends the body (RFC 9110 section 10.1.1)


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """The head of an answer."""

    status: int  # 100 to 599
    headers: dict[str, str]  # by name in lower case; values of one name are joined by a comma and a blank
    #: bytes of the body, `CHUNKED` or `UNTIL_CLOSED`; 0 where no body can follow, as after status 204 or a HEAD. A cached
    #: head (`heads`) has the length of the first answer.
    length: int
    keep_alive: bool  # the server lets the connection be reused (RFC 9112 section 9.3); False with `UNTIL_CLOSED`
    kind: str  # the content type without parameters, in lower case; empty without the header
    is_plain: bool  # the body is not compressed: Content-Encoding is absent or ``identity``

    @property
    def retry_after_s(self) -> float:
        """Seconds that Retry-After asks for; 0 unless it is a whole number of up to six digits (RFC 9110 section 10.2.3)."""
        text = self.headers.get("retry-after", "")
        return float(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0.0


@lru_cache(maxsize=256)
def _key_of(name: bytes) -> str:
    """A header's name in lower case."""
    return name.decode("latin-1").lower()


class _Fields:
    """Collects the URL, the headers (`found`) and their number (`fields`) from llhttp. `doubled`: names that came twice."""

    __slots__ = ("doubled", "fields", "found", "url")

    def __init__(self) -> None:
        self.url = b""
        self.fields = 0
        self.found: dict[str, str] = {}
        self.doubled: set[str] = set()

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields += 1
        key = _key_of(name)
        text = value.decode("latin-1").rstrip(" \t")  # RFC 9110 section 5.5; llhttp strips before the value only
        if key in self.found:
            self.doubled.add(key)
            self.found[key] += ", " + text
        else:
            self.found[key] = text


class PartialHead:
    """The first bytes of a head, until the head is whole. At most the last three bytes are searched again.

    Attributes:
        data: the bytes so far.
        searched: number of bytes, from the first, in which no end of a head was found.
    """

    __slots__ = ("data", "searched")

    def __init__(self) -> None:
        self.data = bytearray()
        self.searched = 0

    def add(self, more: bytes) -> int:
        """Add bytes to `data`; returns the offset after the head's empty line, -1 = the head is not whole yet."""
        data = self.data
        data += more
        found = data.find(b"\r\n\r\n", max(0, self.searched - 3))
        if found < 0:
            self.searched = len(data)
            return -1
        return found + 4

    def take(self, end: int) -> tuple[bytes, bytes]:
        """Empty `data`; returns its first `end` bytes (as `add` returned it), and the bytes after them."""
        data = self.data
        head, more = bytes(data[:end]), bytes(data[end:])
        data.clear()
        self.searched = 0
        return head, more


def read_request_head(head: bytes) -> RequestHead:
    """Parse the head of a request, up to and including its empty line, by the rules of this file.

    Raises HttpError if it breaks one: 501 for CONNECT, 417 for an unknown Expect, 431 for over 128 headers, else 400.
    """
    url = _URL.match(head)
    if url is not None:
        head = b"%b/%b" % (url[1], head[url.end() :])
    fields, parser = _parsed(head, _REQUEST, httptools.HttpRequestParser, "request")
    headers = fields.found
    version_1_1 = parser.get_http_version() == "1.1"
    if b"\\" in fields.url:  # no valid URL has a backslash, and some engines read it as a slash
        raise HttpError("The request's path has a backslash in it.")
    # RFC 9112 section 3.2: none or several is a 400
    if "host" in fields.doubled or ("host" not in headers and version_1_1):
        raise HttpError("The request has no Host header, or several.")
    if _HOST.fullmatch(headers.get("host", "").encode("latin-1")) is None:
        raise HttpError("The Host header is no host.")
    if url is not None:
        headers["host"] = url[2].decode("ascii")
    method = parser.get_method().decode("ascii")
    if method == "CONNECT":
        raise _not_served()
    length = _length(fields, version_1_1)
    expect = headers.get("expect", "").lower()
    if expect and expect != "100-continue":  # RFC 9110 section 10.1.1
        raise HttpError("Only 100-continue may be expected.", 417)
    return RequestHead(
        method=method,
        target=(target := fields.url.decode("ascii")),
        path=target.partition("?")[0],
        headers=headers,
        length=0 if length == UNTIL_CLOSED else length,
        keep_alive=_keeps_alive(fields, version_1_1),
        chunks=version_1_1,
        expects=bool(expect) and version_1_1,
    )


def read_response_head(head: bytes, to_head: bool = False) -> ResponseHead:
    """Parse the head of an answer, up to and including its empty line, by the rules of this file.

    Raises HttpError if it breaks one. The `length` of an answer to a HEAD request (`to_head`) is 0: no body follows.
    """
    fields, parser = _parsed(head, _RESPONSE, httptools.HttpResponseParser, "answer")
    status = parser.get_status_code()
    version_1_1 = parser.get_http_version() == "1.1"
    length = _length(fields, version_1_1)
    if to_head or status in {204, 304} or status < 200:  # RFC 9112 section 6.3, rule 1
        length = 0
    keep_alive = _keeps_alive(fields, version_1_1) and length != UNTIL_CLOSED
    kind = fields.found.get("content-type", "").partition(";")[0].strip().lower()
    is_plain = fields.found.get("content-encoding", "identity") == "identity"
    return ResponseHead(status, fields.found, length, keep_alive, kind, is_plain)


def _parsed(head: bytes, rule: re.Pattern[bytes], parser_of: Callable[[_Fields], P], what: str) -> tuple[_Fields, P]:
    """The fields of a head that keeps the rules, and the llhttp parser that read it. May raise HttpError."""
    if rule.fullmatch(head) is None:
        raise _not_served() if rule is _REQUEST and _CONNECT.fullmatch(head) else HttpError(_what_is_wrong(head))
    fields = _Fields()
    parser = parser_of(fields)
    try:
        with suppress(httptools.HttpParserUpgrade):  # a server may ignore the offer (RFC 9110 section 7.8)
            parser.feed_data(head)
    except httptools.HttpParserError as error:
        raise HttpError(f"The {what} is not HTTP: {error}.") from None
    if fields.fields > MAX_FIELDS:
        raise HttpError(f"There are more than {MAX_FIELDS} headers.", 431)
    return fields, parser


def _keeps_alive(fields: _Fields, version_1_1: bool) -> bool:
    """Whether the connection may be used again (RFC 9112 section 9.3)."""
    connection = fields.found.get("connection", "").lower()
    return "close" not in connection if version_1_1 else "keep-alive" in connection


def _length(fields: _Fields, version_1_1: bool) -> int:
    """The body's length: bytes, `CHUNKED`, or `UNTIL_CLOSED` if not given (RFC 9112 section 6.3). May raise HttpError."""
    headers, doubled = fields.found, fields.doubled
    length, coding = headers.get("content-length"), headers.get("transfer-encoding")
    if coding is not None:
        if length is not None:
            raise HttpError("There are both Content-Length and Transfer-Encoding.")
        if not version_1_1 or "transfer-encoding" in doubled or coding.lower() != "chunked":
            raise HttpError("The only Transfer-Encoding is chunked, once, in HTTP/1.1.")
        return CHUNKED
    if length is None:
        return UNTIL_CLOSED
    if "content-length" in doubled or _DIGITS.fullmatch(length.encode("latin-1")) is None:
        raise HttpError("Content-Length is not one number.")
    return int(length)


def _not_served() -> HttpError:
    """The error for CONNECT, a method that is not implemented (RFC 9110 section 9.1)."""
    return HttpError("CONNECT is not served.", 501)


def _what_is_wrong(head: bytes) -> str:
    """Describe the rule that a head breaks, as a sentence."""
    without = head.replace(b"\r\n", b"")
    if b"\x00" in head:
        return "There is a NUL in the head."
    if b"\r" in without or b"\n" in without:
        return "A line of the head does not end with CRLF."
    if b"\r\n " in head or b"\r\n\t" in head:
        return "A line of the head is folded."
    if _OTHER_TARGET.fullmatch(head):
        return "The request's target is not a path."
    return "The head is not HTTP/1.1."
