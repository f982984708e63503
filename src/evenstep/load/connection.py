"""One HTTP/1.1 connection to the server, on a raw protocol and llhttp: a chunk costs one read, no task and no future."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol, cast

import httptools

from evenstep.load.answer import Answer

_MAX_ERROR = 64 * 1024


class Call:
    """One request on its way, and what comes back.

    Args:
        request: head and body.
        answer: takes the body of a stream.
        ended: called once, when it is over; `answer.error` says how.
    """

    __slots__ = ("_ended", "_timer", "answer", "connection", "is_over", "request", "started_s", "status")

    def __init__(self, request: bytes, answer: Answer, ended: Callable[[Call], None]) -> None:
        self.request, self.answer = request, answer
        self._ended = ended
        self._timer: asyncio.TimerHandle | None = None
        self.connection: Connection | None = None
        self.started_s = 0.0
        self.status = 0
        self.is_over = False

    def start(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        """It counts from now on."""
        self.started_s = time.monotonic()
        self._timer = loop.call_later(timeout_s, self._late, timeout_s)

    def cancel(self) -> None:
        """Leave: the connection is closed in any state of the answer."""
        self.fail("cancelled", "the client left")

    def fail(self, kind: str, message: str) -> None:
        """It went wrong."""
        self.answer.fail(kind, message)
        connection = self.connection
        self.over()
        if connection is not None:
            connection.drop()

    def over(self) -> None:
        """Nothing more comes."""
        if self.is_over:
            return
        self.is_over = True
        self.connection = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._ended(self)

    def _late(self, timeout_s: float) -> None:
        self._timer = None
        self.fail("timeout", f"no end within {timeout_s:g} s")


class Owner(Protocol):
    """Keeps connections for reuse."""

    def idle(self, connection: Connection) -> None:
        """It can take another request."""
        ...

    def gone(self, connection: Connection) -> None:
        """It is closed."""
        ...


class Connection(asyncio.Protocol):
    """One connection.

    Args:
        owner: gets it back after each answer.
    """

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._transport = cast(asyncio.Transport, None)
        self._parser: Any = None
        self._call: Call | None = None
        self._now_s = 0.0
        self._length: bool = False  # whether the head says where the body ends
        self._kind = b""
        self._error = bytearray()
        self.idle_since_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    @property
    def is_closing(self) -> bool:
        """Whether it can take no more requests."""
        return self._transport.is_closing()

    def send(self, call: Call) -> None:
        """Ask; the connection has to be idle."""
        self._call, call.connection = call, self
        self._parser = httptools.HttpResponseParser(self)
        self._transport.write(call.request)

    def drop(self) -> None:
        """Close without a word."""
        self._call = None
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._now_s = time.monotonic()
        if self._call is None:  # unasked bytes
            self._transport.abort()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._broken(f"what came is not HTTP: {error}")

    def _broken(self, message: str) -> None:
        """What came cannot be read: the answer fails, or, where it had ended before, the connection alone."""
        if self._call is not None:
            self._call.fail("not-http", message)
        else:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.gone(self)
        call, self._call = self._call, None
        if call is None:
            return
        if (
            exc is None and call.status == 200 and not self._length
        ):  # the body lasts until the connection ends
            self._now_s = time.monotonic()
            self._call = call
            self.on_message_complete()
            return
        said = "before the answer" if call.status == 0 else "in the middle of the answer"
        call.fail("cut", f"the connection was closed {said}")

    # called by the parser

    def on_message_begin(self) -> None:
        self._length, self._kind = False, b""
        self._error = bytearray()

    def on_header(self, name: bytes, value: bytes) -> None:
        lower = name.lower()
        if lower == b"content-type":
            self._kind = value
        elif lower in (b"content-length", b"transfer-encoding"):
            self._length = True

    def on_headers_complete(self) -> None:
        if self._call is not None:
            self._call.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        call = self._call
        if call is None:
            return
        if call.status == 200 and self._kind.startswith(b"text/event-stream"):
            call.answer.feed(body, self._now_s)
        elif len(self._error) < _MAX_ERROR:
            self._error += body

    def on_message_complete(self) -> None:
        call = self._call
        if call is None or 100 <= call.status < 200:
            return
        self._call = None
        if call.status != 200:
            call.answer.fail(f"status-{call.status}", _text(self._error))
        elif not self._kind.startswith(b"text/event-stream"):
            kind = self._kind.decode("latin-1") or "no content type"
            call.answer.fail("not-a-stream", f"200 with {kind}: {_text(self._error)}")
        else:
            call.answer.end(self._now_s)
        if self._length and self._parser.should_keep_alive() and not self._transport.is_closing():
            self.idle_since_s = self._now_s
            self._owner.idle(self)
        else:
            self._transport.close()
        call.over()


def _text(body: bytearray) -> str:
    return bytes(body[:300]).decode("utf-8", "replace")
