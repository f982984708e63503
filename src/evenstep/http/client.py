"""The client's side of one HTTP connection, which parses answers from bytes. No socket, no loop, no clock.

Rules of this file. A connection carries one request at a time. It may carry another one only if the answer ended exactly
where its framing said, nothing followed, and the server announced no close (RFC 9112 sections 9.3 and 9.6). Interim answers
are skipped (RFC 9110 section 15.2), up to a limit. A switch of protocols was never asked for and is a fault (section
15.2.2). An `UNTIL_CLOSED` answer ends with its connection. Any other answer that ends so is incomplete (RFC 9112 section
8).
"""

from __future__ import annotations

from enum import Enum

import msgspec

from evenstep.http.errors import HttpError
from evenstep.http.framing import Framing, framing_of
from evenstep.http.head import PartialHead, ResponseHead, read_response_head
from evenstep.http.heads import Heads

_MOST_HEAD = 64 * 1024  # bytes of a head that is not whole yet, and of all interim answers before it
_HTTP = b"HTTP/1."


class _State(Enum):
    """The phase of a connection."""

    IDLE = "no answer is expected"
    WAITING = "an answer is expected"
    BODY = "its head has come"
    BROKEN = "nothing more is read"


_IDLE, _WAITING, _BODY, _BROKEN = _State


class Piece(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The part of an answer that some bytes brought."""

    #: of the answer, if these bytes completed it; else None. It may come together with a fault.
    head: ResponseHead | None = None
    body: bytes = b""  # the next bytes of the body, without chunk framing; may be empty
    over: bool = False  # the answer has ended in order
    fault: str = ""  # the reason why the connection is of no further use and nothing more is read; empty = no fault


class ClientSide:
    """The client's side of one HTTP/1.1 connection, without I/O.

    For each request call `ask`, then `receive` for the bytes that come, and `end` if the server closes its side.

    Args:
        heads: the cache of parsed heads, shared by all connections to a server.

    Attributes:
        head: of the current or last answer; None before it has come.
        length: of that answer's body: bytes, `CHUNKED` or `UNTIL_CLOSED`.
        keeps: once an answer has ended: another request may follow on this connection.
        framing: of the body that is being received; None = there is no such body. While it `is_between` chunks, a host may
            read whole chunks itself, and feed the rest.
    """

    __slots__ = ("_begun", "_heads", "_interim", "_is_head", "_state", "framing", "head", "keeps", "length")

    def __init__(self, heads: Heads[ResponseHead]) -> None:
        self._heads = heads
        self._state = _IDLE
        self._begun = PartialHead()
        self.framing: Framing | None = None
        self._interim = self.length = 0
        self._is_head = self.keeps = False
        self.head: ResponseHead | None = None

    def ask(self, is_head: bool = False) -> None:
        """Expect the answer to a request that is sent now; sets `head` to None. Call it once a request.

        Not checked: the connection must be idle (`is_idle`) and, after an answer, reusable (`keeps`). If the request's
        method is HEAD (`is_head`), the answer has no body, even if it states a length.
        """
        self._state, self._is_head, self.head = _WAITING, is_head, None

    @property
    def is_idle(self) -> bool:
        """Whether no answer is expected: nothing asked yet, or the last answer complete. False after a fault or `end`."""
        return self._state is _IDLE

    def receive(self, data: bytes) -> Piece | None:
        """Take bytes from the server; returns the part of an answer they bring.

        None = nothing yet, or nothing is read after a fault or `end`. Interim answers (status 1xx) are skipped. It never
        raises: a broken rule, or bytes that were not asked for, give a `Piece` with a fault.
        """
        if self.framing is not None:
            return self._read_body(data, self.framing)
        if self._state is _WAITING:
            # The common case: a head like the last one, and all of its body.
            found = None if self._is_head or self._begun.data else self._heads.split(data)
            if found is not None:
                head, length, end = found
                if end + length != len(data):
                    return self._take_head(head, length, data[end:])
                self._state, self.head, self.length, self.keeps = _IDLE, head, length, head.keep_alive
                return Piece(head, data[end:], True)
            return self._read_head(data)
        return self._broken("it sends what was not asked for") if self._state is _IDLE else None

    def end(self) -> Piece | None:
        """Handle the end of the server's side, after which nothing is read.

        Returns a `Piece` that is `over` if the end completes the body, or has a fault if an answer is incomplete; None if no
        answer was expected, or after a fault.
        """
        state, framing = self._state, self.framing
        self._state, self.framing, self.keeps = _BROKEN, None, False
        if state is _BODY and framing is not None and framing.ends_with_connection:
            return Piece(over=True)
        if state in (_WAITING, _BODY):
            return Piece(fault="it closed the connection before its answer was complete")
        return None

    def _read_head(self, data: bytes) -> Piece | None:
        """Read bytes of a head, and of the body after it; skips interim answers. Returns a `Piece`, None = nothing yet."""
        begun = self._begun
        while True:
            end = data.find(b"\r\n\r\n") + 4
            if end >= 4 and not begun.data:  # the common case: the whole head at once
                text, data = data[:end], data[end:]
            else:
                end = begun.add(data)
                if end < 0:
                    return self._wait()
                text, data = begun.take(end)
            try:
                if self._is_head:
                    head, length = read_response_head(text, to_head=True), 0
                else:
                    head, length = self._heads.read(text)
            except HttpError as error:
                return self._broken(error.message)
            if head.status >= 200:
                self._interim = 0
                return self._take_head(head, length, data)
            self._interim += end
            if head.status == 101:
                return self._broken("it wants another protocol")
            if self._interim > _MOST_HEAD:
                return self._broken("it says without an end that its answer will come")

    def _wait(self) -> Piece | None:
        """Check a head that is not whole yet: a `Piece` with a fault if it is not HTTP or too large, else None."""
        text = self._begun.data
        if not text.startswith(_HTTP[: len(text)]):
            return self._broken("what it says is not HTTP")
        if b"\n\n" in text:  # its empty line, so no CRLF would ever come
            return self._broken("the lines of its head do not end with CRLF")
        return self._broken("its head is too large") if len(text) > _MOST_HEAD else None

    def _take_head(self, head: ResponseHead, length: int, rest: bytes) -> Piece:
        """Set `head`, `length` and `keeps`, and read the body from `rest`, the bytes after the head; returns the `Piece`."""
        self.head, self.length, self.keeps = head, length, head.keep_alive
        if length == len(rest):  # the whole body is here, as with most answers that do not stream
            self._state = _IDLE
            return Piece(head, rest, True)
        self._state, self.framing = _BODY, framing_of(length)
        return self._read_body(rest, self.framing, head)

    def _read_body(self, data: bytes, framing: Framing, head: ResponseHead | None = None) -> Piece:
        """Feed bytes to the body's framing; returns a `Piece` with `head`. Bytes after the body make `keeps` False."""
        try:
            body = framing.feed(data)
        except HttpError as error:
            return self._broken(error.message, head)
        if framing.over:
            self._state, self.framing = _IDLE, None
            if framing.rest:
                self.keeps = False
        return Piece(head, body, framing.over)

    def _broken(self, fault: str, head: ResponseHead | None = None) -> Piece:
        """Read nothing more on this connection (`keeps` is False); returns a `Piece` with this fault."""
        self._state, self.framing, self.keeps = _BROKEN, None, False
        return Piece(head, fault=fault)
