"""Strict parsing of HTTP/1.1 heads: bytes to values, and nothing that two parsers could read in two ways.

Rules of this file. A head is everything up to and including its first empty line. Lines end with CRLF and nothing else; no
line is folded; no byte is a control character. llhttp parses the rest. The length of the body is given exactly once, as
plain digits or as ``chunked``. Any violation raises `HeadError`: the gateway answers a client with 400, and counts it as a
failure of an engine.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import httptools

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_FIELDS = rb"(?:" + _TOKEN + rb":[\t\x20-\x7e\x80-\xff]*+\r\n)*+\r\n"
_REQUEST = re.compile(_TOKEN + rb" /[\x21-\x7e]* HTTP/1\.[01]\r\n" + _FIELDS)
_RESPONSE = re.compile(rb"HTTP/1\.[01] [1-5][0-9][0-9](?: [\t\x20-\x7e\x80-\xff]*+)?\r\n" + _FIELDS)
_HOST = re.compile(rb"[A-Za-z0-9.\-_~%!$&'()*+,;=]*(?::\d{0,5})?|\[[0-9A-Fa-f:.]+\](?::\d{0,5})?")
_DIGITS = re.compile(rb"[0-9]{1,18}")
#: Lines of a head at most.
MAX_FIELDS = 128
CHUNKED = -1
UNTIL_CLOSED = -2


class HeadError(Exception):
    """An invalid head.

    Args:
        message: the reason, as a sentence.
        status: the HTTP status for the client.
    """

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.message, self.status = message, status


@dataclass(frozen=True, slots=True)
class RequestHead:
    """A client's head.

    Args:
        method, target: as they came.
        path: the target without its query.
        headers: by name in lower case; values of one name are joined by a comma.
        length: bytes of the body, or `CHUNKED`; of a head that is remembered (`heads`), of the first that came.
        keep_alive: whether the connection may be used again.
        chunks: whether the client knows chunked bodies (HTTP/1.1).
        expects: it waits for a 100 before it sends its body.
    """

    method: str
    target: str
    path: str
    headers: dict[str, str]
    length: int
    keep_alive: bool
    chunks: bool
    expects: bool


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """An engine's head.

    Args:
        status: 100 to 599.
        headers: as in `RequestHead`.
        length: bytes of the body, `CHUNKED` or `UNTIL_CLOSED`.
        keep_alive: whether the connection may be used again.
        kind: its content type without parameters, in lower case.
        is_plain: it is not compressed.
    """

    status: int
    headers: dict[str, str]
    length: int
    keep_alive: bool
    kind: str
    is_plain: bool

    @property
    def retry_after_s(self) -> float:
        """What Retry-After asks for in seconds; 0 where it is not there or is a date."""
        text = self.headers.get("retry-after", "")
        return float(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0.0


@lru_cache(maxsize=256)
def _key_of(name: bytes) -> str:
    return name.decode("latin-1").lower()


class _Fields:
    """What llhttp calls."""

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
        text = value.decode("latin-1")
        if key in self.found:
            self.doubled.add(key)
            self.found[key] += ", " + text
        else:
            self.found[key] = text


def end_of_head(data: bytes | bytearray, start: int = 0) -> int:
    """Where the body begins; -1 where the head is not whole.

    Args:
        data: from the first byte of the head on.
        start: no head ends before here.
    """
    found = data.find(b"\r\n\r\n", max(0, start - 3))
    return found + 4 if found >= 0 else -1


def read_request_head(head: bytes) -> RequestHead:
    """A client's head.

    Args:
        head: up to and including the empty line.

    Raises:
        HeadError: it breaks a rule.
    """
    if _REQUEST.fullmatch(head) is None:
        raise HeadError(_what_is_wrong(head))
    fields = _Fields()
    parser = httptools.HttpRequestParser(fields)
    try:
        with suppress(httptools.HttpParserUpgrade):  # upgrades are not served; it is an ordinary request
            parser.feed_data(head)
    except httptools.HttpParserError as error:
        raise HeadError(f"The request is not HTTP: {error}.") from None
    _bounded(fields)
    headers = fields.found
    version_1_1 = parser.get_http_version() == "1.1"
    if b"\\" in fields.url:  # no URL has one, and some engines read it as a slash
        raise HeadError("The request's path has a backslash in it.")
    if "host" in fields.doubled or ("host" not in headers and version_1_1):
        raise HeadError("The request has no Host header, or several.")
    if _HOST.fullmatch(headers.get("host", "").encode("latin-1")) is None:
        raise HeadError("The Host header is no host.")
    method = parser.get_method().decode("ascii")
    if method == "CONNECT":
        raise HeadError("CONNECT is not served.", 405)
    length = _length(fields, version_1_1)
    connection = headers.get("connection", "").lower()
    keep_alive = "close" not in connection if version_1_1 else "keep-alive" in connection
    expect = headers.get("expect", "").lower()
    if expect and expect != "100-continue":
        raise HeadError("Only 100-continue may be expected.", 417)
    return RequestHead(
        method=method,
        target=(target := fields.url.decode("ascii")),
        path=target.partition("?")[0],
        headers=headers,
        length=0 if length == UNTIL_CLOSED else length,
        keep_alive=keep_alive,
        chunks=version_1_1,
        expects=bool(expect) and version_1_1,
    )


def read_response_head(head: bytes, to_head: bool = False) -> ResponseHead:
    """An engine's head.

    Args:
        head: up to and including the empty line.
        to_head: it answers a HEAD request, so that no body follows.

    Raises:
        HeadError: it breaks a rule.
    """
    if _RESPONSE.fullmatch(head) is None:
        raise HeadError(_what_is_wrong(head))
    fields = _Fields()
    parser = httptools.HttpResponseParser(fields)
    try:
        with suppress(httptools.HttpParserUpgrade):
            parser.feed_data(head)
    except httptools.HttpParserError as error:
        raise HeadError(f"The answer is not HTTP: {error}.") from None
    _bounded(fields)
    status = parser.get_status_code()
    version_1_1 = parser.get_http_version() == "1.1"
    length = _length(fields, version_1_1)
    if to_head or status in {204, 304} or status < 200:
        length = 0
    connection = fields.found.get("connection", "").lower()
    keep_alive = "close" not in connection if version_1_1 else "keep-alive" in connection
    kind = fields.found.get("content-type", "").partition(";")[0].strip().lower()
    is_plain = fields.found.get("content-encoding", "identity") == "identity"
    return ResponseHead(status, fields.found, length, keep_alive and length != UNTIL_CLOSED, kind, is_plain)


def _bounded(fields: _Fields) -> None:
    if fields.fields > MAX_FIELDS:
        raise HeadError(f"There are more than {MAX_FIELDS} headers.", 431)


def _length(fields: _Fields, version_1_1: bool) -> int:
    """How long the body is; the two ways to say it exclude each other, and each is there once."""
    headers, doubled = fields.found, fields.doubled
    length, coding = headers.get("content-length"), headers.get("transfer-encoding")
    if coding is not None:
        if length is not None:
            raise HeadError("There are both Content-Length and Transfer-Encoding.")
        if not version_1_1 or "transfer-encoding" in doubled or coding.strip().lower() != "chunked":
            raise HeadError("The only Transfer-Encoding is chunked, once, in HTTP/1.1.")
        return CHUNKED
    if length is None:
        return UNTIL_CLOSED
    if "content-length" in doubled or _DIGITS.fullmatch(length.encode("latin-1")) is None:
        raise HeadError("Content-Length is not one number.")
    return int(length)


def _what_is_wrong(head: bytes) -> str:
    """The rule that bytes break, in words."""
    without = head.replace(b"\r\n", b"")
    if b"\x00" in head:
        return "There is a NUL in the head."
    if b"\r" in without or b"\n" in without:
        return "A line of the head does not end with CRLF."
    if b"\r\n " in head or b"\r\n\t" in head:
        return "A line of the head is folded."
    return "The head is not HTTP/1.1."
