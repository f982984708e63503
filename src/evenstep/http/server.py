"""The server's side of one HTTP connection: bytes to requests, answers to bytes. No socket, no loop, no clock.

The rule of this file is one line of states. `Server.receive` moves a connection along it, up to ``ANSWERING``; the answer
brings it back to the beginning or ends it:

    IDLE --first byte--> HEAD --empty line--> BODY --last byte--> ANSWERING --end of the answer--> IDLE or OVER

* Requests are answered one after the other, in order (RFC 9112 section 9.3.2). Later bytes wait, up to a limit.
* A request is handed over whole, unless its body is not wanted (`Parsed.wants_body`).
* A head or a body over its limit is refused. No more than one read of the socket goes beyond a limit.
* A fault makes the next answer the last one: it is unknown where the next request would begin (RFC 9112 section 9.6). An
  answer to an unfinished request is the last one, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from http import HTTPStatus
from typing import Generic, Protocol, TypeVar

import msgspec

from evenstep.http.errors import HttpError, body_too_large, head_too_large
from evenstep.http.framing import Framing, framed, framing_of
from evenstep.http.head import PartialHead, RequestHead

#: An event of `ServerSide.receive`: write it to the client, which may hold its body back until then (RFC 9110, 10.1.1).
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_EMPTY = frozenset({204, 304})  # no content, so neither length nor coding (RFC 9110 section 8.6, RFC 9112 section 6.1)
_FIRST_LINES = {status: b"HTTP/1.1 %d Unknown\r\n" % status for status in range(100, 1000)} | {
    one.value: b"HTTP/1.1 %d %b\r\n" % (one, one.phrase.encode()) for one in HTTPStatus
}
_BARE_LF = re.compile(rb"(?<!\r)\n")


class State(Enum):
    """The phase of a connection."""

    IDLE = "no byte of the next request has come"
    HEAD = "a part of a head has come"
    BODY = "a head has come, and a part of its body"
    ANSWERING = "a request or a fault waits for its answer"
    OVER = "nothing more is read"


_IDLE, _HEAD, _BODY, _ANSWERING, _OVER = State


class Parsed(Protocol):
    """A parsed head, as `Rules.read` returns it. The server reads only these fields; a service may keep more.

    Attributes:
        wants_body: if False, a body is read only if the head came with all of it, unchunked, and nothing after it. Else
            `body` is empty, and the answer is the last.
    """

    @property
    def head(self) -> RequestHead: ...
    @property
    def wants_body(self) -> bool: ...


P = TypeVar("P", bound=Parsed)
P_co = TypeVar("P_co", bound=Parsed, covariant=True)


class Bounds(Protocol):
    """The most a client may send: bytes of a head and of a body, both inclusive."""

    @property
    def head_bytes(self) -> int: ...
    @property
    def body_bytes(self) -> int: ...


class Rules(Protocol[P_co]):
    """The parser and the limits that all connections of a service share; a service may replace them at any time.

    `ServerSide` looks `read` up anew for each head, and `limits` for each piece of a head or body.

    Attributes:
        read: parses a whole head; returns its value, and the body's length: bytes or `CHUNKED`. May raise HttpError.
    """

    @property
    def read(self) -> Callable[[bytes], tuple[P_co, int]]: ...
    @property
    def limits(self) -> Bounds: ...


class Request(msgspec.Struct, Generic[P], frozen=True, eq=False, gc=False):
    """A parsed head, and its body, whole and unframed, or empty (`Parsed.wants_body`). Answer it before the next is read."""

    parsed: P
    body: bytes


#: The events that bytes can bring; bytes are a `CONTINUE`.
Event = Request[P] | HttpError | bytes


class ServerSide(Generic[P]):
    """The server's side of one HTTP/1.1 connection, without I/O.

    Feed it with `receive`. Each `Request` or `HttpError` gets one answer: `whole`, or `start` and then pieces up to the
    `last`. Their results are bytes for the host to write. A `CONTINUE` is written at once, and is no answer. After each
    answer, close the connection if `state` is `OVER`; else call ``receive(b"")`` if bytes are `waiting`.

    Args:
        rules: of the service.
        most_waiting: bytes of later requests that may wait; a client that sends more gets the present answer, and no other.

    Attributes:
        state: phase of the connection; `State.OVER` = nothing more is read; close it once all is written.
        keep_alive: the connection may be used again after this answer. Set it to False to make an answer the last one; an
            answer to a part of a request always is.
        parsed: what `Rules.read` returned for the current request; None before its head and after an answer but the last.
        got: bytes of the current body so far, for a body that did not come with its head.
        is_framed: the body of the last answer that `start` began goes out in chunks.
        has_begun: the head of the current answer has gone out, and its end has not.
    """

    __slots__ = (
        *("_begun", "_framing", "_had_empty_line", "_most_waiting", "_pieces", "_rules", "_waiting", "got", "has_begun"),
        *("_chunks", "_is_head", "_prefix", "is_framed", "keep_alive", "parsed", "state"),
    )

    def __init__(self, rules: Rules[P], most_waiting: int = 64 * 1024) -> None:
        self._rules, self._most_waiting = rules, most_waiting
        self.state = _IDLE
        self.parsed: P | None = None
        self.keep_alive = self._chunks = True
        self.is_framed = self._is_head = self._had_empty_line = self.has_begun = False
        self.got = 0
        self._begun = PartialHead()
        self._framing: Framing | None = None
        self._pieces: list[bytes] = []
        self._waiting = bytearray()
        self._prefix = b""

    # --- reading -------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> Event[P] | None:
        """Take bytes from the client; returns the event they bring, None = nothing yet.

        An `HttpError` is returned, not raised, and needs an answer too. Bytes that come before the answer has ended are kept
        for the next call after it, or dropped if the answer is the last one. Nothing is read in the state `OVER`.
        """
        state = self.state
        if state is _IDLE:
            if self._waiting:
                data = bytes(self._waiting) + data
                self._waiting.clear()
            if data[:1] != b"\r":  # the common case: a whole head, and no empty line before it
                end = data.find(b"\r\n\r\n") + 4
                if 4 <= end <= self._rules.limits.head_bytes:
                    return self._take_head(data[:end], data[end:])
            return self._gather(data)
        if state is _HEAD:
            return self._gather(data)
        if state is _BODY:
            return self._read_body(data)
        if state is _ANSWERING:
            self._wait(data)
        return None

    @property
    def waiting(self) -> int:
        """Number of bytes of later requests, kept until the present answer has ended and `receive` is called."""
        return len(self._waiting)

    def _gather(self, data: bytes) -> Event[P] | None:
        """Add bytes to a head that is not whole yet; returns the event they bring, None = nothing yet."""
        begun, limit = self._begun, self._rules.limits.head_bytes
        before = begun.searched
        end = begun.add(data)
        gathered = begun.data
        if before <= 1 and not self._had_empty_line and gathered.startswith(b"\r\n"):
            self._had_empty_line = True  # one empty line before a request is ignored (RFC 9112 section 2.2)
            _, rest = begun.take(2)
            self.state = _IDLE
            return self._gather(rest) if rest else None
        if (len(gathered) if end < 0 else end) > limit:
            return self._fault(head_too_large(limit))
        if end < 0:
            if b"\x00" in data or _BARE_LF.search(gathered, before):
                return self._fault(HttpError("A line of the head does not end with CRLF, or there is a NUL in it."))
            self.state = _HEAD if gathered else _IDLE
            return None
        return self._take_head(*begun.take(end))

    def _take_head(self, head: bytes, more: bytes) -> Event[P] | None:
        """Parse a whole head; `more` are the bytes after it. Returns the event they bring, None = nothing yet."""
        rules = self._rules
        try:
            parsed, length = rules.read(head)
        except HttpError as error:
            return self._fault(error)
        found, limit = parsed.head, rules.limits.body_bytes
        self.parsed = parsed
        self.keep_alive, self._chunks, self._is_head = found.keep_alive, found.chunks, found.method == "HEAD"
        if length > limit:
            return self._fault(body_too_large(limit))
        if length == len(more):
            self.state = _ANSWERING
            return Request(parsed, more)
        if length == 0:
            self.state = _ANSWERING
            self._wait(more)
            return Request(parsed, b"")
        if length and not parsed.wants_body:
            self.state, self.keep_alive = _ANSWERING, False
            return Request(parsed, b"")
        self.state, self.got, self._framing = _BODY, 0, framing_of(length)
        if more:
            return self._read_body(more)
        return CONTINUE if found.expects else None

    def _read_body(self, data: bytes) -> Event[P] | None:
        """Feed bytes to the body's framing; returns the whole request or a fault, None = the body is not whole yet."""
        framing, limit = self._framing, self._rules.limits.body_bytes
        assert framing is not None and self.parsed is not None
        try:
            data = framing.feed(data)
        except HttpError as error:
            return self._fault(error)
        self.got += len(data)
        if self.got + framing.announced > limit:
            return self._fault(body_too_large(limit))
        if data:
            self._pieces.append(data)
        if not framing.over:
            return None
        self.state, self._framing = _ANSWERING, None
        self._wait(framing.rest)
        pieces, self._pieces = self._pieces, []
        return Request(self.parsed, pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def _wait(self, data: bytes) -> None:
        """Keep bytes of later requests, unless this answer is the last one. Too many are dropped and make it the last."""
        if self.keep_alive and data:
            self._waiting += data
            if len(self._waiting) > self._most_waiting:
                self._waiting.clear()
                self.keep_alive = False

    def _fault(self, error: HttpError) -> HttpError:
        """Make the answer to this fault the last one: the state is `ANSWERING`, without keep-alive. Returns `error`."""
        self.state, self.keep_alive = _ANSWERING, False
        if self.parsed is None:  # the method and the version are unknown
            self._chunks, self._is_head = True, False
        return error

    # --- answering -----------------------------------------------------------------------------------------------

    def whole(self, status: int, kind: bytes, body: bytes, fields: bytes = b"") -> bytes:
        """The bytes of a whole answer, head and body; the answer has ended then.

        `Connection: close` is added if it is the last one. The answer to a HEAD request has the length of `body`, but no
        body. `kind` is its content type; `fields` are further lines of the head, each with its CRLF.
        """
        pieces = (
            _FIRST_LINES[status],
            fields,
            b"Content-Type: ",
            kind,
            b"\r\n" if status in _EMPTY else b"\r\nContent-Length: %d\r\n" % len(body),
            self._stays(),
            b"\r\n",
            b"" if self._is_head or status in _EMPTY else body,
        )
        self._end()
        return b"".join(pieces)

    def start(self, status: int, kind: bytes, fields: bytes = b"", length: int = -1) -> None:
        """Begin an answer that comes in pieces; its head is part of the first piece's bytes.

        `length` is the bytes of all pieces. If it is unknown (-1), a client of HTTP/1.1 gets chunks; for an older one, the
        end of the connection ends the body. `kind` is its content type; `fields` are further lines of the head, each with
        its CRLF. To answer a HEAD request, give the length that a GET would have, and one `piece`, which is empty.
        """
        is_bare = status in _EMPTY
        self.is_framed = length < 0 and self._chunks and not self._is_head and not is_bare
        if length < 0 and not self._chunks and not is_bare:
            self.keep_alive = False  # the end of the connection ends the body
        framing = b"Transfer-Encoding: chunked\r\n" if self.is_framed else b""
        if length >= 0 and not is_bare:
            framing = b"Content-Length: %d\r\n" % length
        self._prefix = b"%b%bContent-Type: %b\r\n%b%b\r\n" % (_FIRST_LINES[status], fields, kind, framing, self._stays())

    def piece(self, data: bytes, last: bool = False) -> bytes:
        """The bytes to write for an unframed piece of the body, made a chunk if `is_framed`. `last` ends body and answer."""
        if self.is_framed:  # RFC 9112 section 7.1
            data = framed(data, last)
        data = self.forward(data)
        if last:
            self._end()
        return data

    def forward(self, data: bytes) -> bytes:
        """The bytes to write for whole chunks if `is_framed`, else for body bytes. It cannot end the answer: use `piece`."""
        if self._prefix:
            data, self._prefix, self.has_begun = self._prefix + data, b"", True
        return data

    def close(self) -> None:
        """Stop reading for good, and drop all bytes that were read; the state is `State.OVER`."""
        self.state, self.keep_alive = _OVER, False
        self._framing = None
        self._pieces.clear()
        self._waiting.clear()

    def _stays(self) -> bytes:
        """The Connection line of an answer's head, maybe empty. An answer to a part of a request ends keep-alive."""
        if self.state is not _ANSWERING:  # an answer to a part of a request
            self.keep_alive = False
        if not self.keep_alive:
            return b"Connection: close\r\n"
        return b"" if self._chunks else b"Connection: keep-alive\r\n"

    def _end(self) -> None:
        """End the answer: the next request may come, or if it was the last one the state is `OVER`."""
        self.has_begun = False
        if not self.keep_alive:
            self.close()
            return
        self.state, self.parsed, self._had_empty_line = _IDLE, None, False
