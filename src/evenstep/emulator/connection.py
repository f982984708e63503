"""One HTTP/1.1 connection of the emulator: bytes to requests, answers to bytes.

Raw protocol and llhttp: a token costs one formatted event and one write. Requests on one connection are answered in
order; what comes while an answer is under way waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol, cast

import httptools

from evenstep.emulator.answer import EVENTS, JSON
from evenstep.emulator.wording import error_body

MAX_BODY = 64 * 1024 * 1024
_MAX_HEAD = 64 * 1024
_MAX_QUEUED = 16


@dataclass(slots=True)
class Received:
    """A request as it came; header names are in lower case."""

    method: str = ""
    target: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    keep_alive: bool = True
    chunks: bool = True  # whether the client knows chunked bodies (HTTP/1.1)

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition(b"?")[0].decode("latin-1")


class Service(Protocol):
    """Answers requests. `serve` returns a function to call when the client leaves before the answer is over, or None."""

    def serve(self, request: Received, out: Connection) -> Callable[[], None] | None: ...


class Connection(asyncio.Protocol):
    """One connection.

    Args:
        service: answers the requests.
        alive: every open connection; this one adds and removes itself.
    """

    def __init__(self, service: Service, alive: set[Connection]) -> None:
        self._service, self._alive = service, alive
        self._transport = cast(asyncio.Transport, None)
        self._parser = httptools.HttpRequestParser(self)
        self._incoming = Received()
        self._body: list[bytes] = []
        self._size = self._head_size = 0
        self._queued: deque[Received] = deque()
        self._current: Received | None = None
        self._leave: Callable[[], None] | None = None
        self._stop_reading = False
        self.paused = False
        self.resumed: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._alive.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._alive.discard(self)
        self._queued.clear()
        leave, self._leave, self._current, self.resumed = self._leave, None, None, None
        if leave is not None:
            leave()

    def data_received(self, data: bytes) -> None:
        if self._stop_reading:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(400, "Upgrades are not served.")
        except httptools.HttpParserError as error:
            if not self._stop_reading:
                self._refuse(400, f"The request is not HTTP: {error}")
        self._next()

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        if self.resumed is not None:
            self.resumed()

    # called by the parser

    def on_message_begin(self) -> None:
        self._incoming, self._body = Received(), []
        self._size = self._head_size = 0

    def on_url(self, url: bytes) -> None:
        self._incoming.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_size += len(name) + len(value)
        if self._head_size > _MAX_HEAD:
            self._refuse(431, "The head is too large.")
            raise ValueError("head too large")
        self._incoming.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._incoming.headers.get("expect", "").lower() == "100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > MAX_BODY:
            self._refuse(413, "The body is too large.")
            raise ValueError("body too large")
        self._body.append(body)

    def on_message_complete(self) -> None:
        request = self._incoming
        request.method = self._parser.get_method().decode("latin-1")
        request.keep_alive = self._parser.should_keep_alive()
        request.chunks = self._parser.get_http_version() != "1.0"
        request.body = b"".join(self._body)
        self._queued.append(request)
        if len(self._queued) > _MAX_QUEUED:
            self._transport.pause_reading()

    # what an answer calls

    def reply(
        self, status: int, body: bytes, kind: str = JSON, headers: Sequence[tuple[str, str]] = ()
    ) -> None:
        """A whole answer."""
        if self._current is None:
            return
        more = "".join(f"{name}: {value}\r\n" for name, value in headers)
        if not self._current.keep_alive:
            more += "Connection: close\r\n"
        head = f"HTTP/1.1 {status} {_phrase(status)}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
        self._transport.write(head.encode("latin-1", "replace") + body)
        self._answered()

    def start(self) -> None:
        """The head of a stream."""
        if self._current is None:
            return
        framing = "Transfer-Encoding: chunked\r\n" if self._current.chunks else ""
        close = "" if self._current.keep_alive and self._current.chunks else "Connection: close\r\n"
        self._transport.write(
            f"HTTP/1.1 200 OK\r\nContent-Type: {EVENTS}\r\nCache-Control: no-cache\r\n{framing}{close}\r\n".encode()
        )

    def send(self, data: bytes, *, last: bool = False) -> None:
        """Events, in one write; `last` ends the stream cleanly."""
        if self._current is None:
            return
        if self._current.chunks:
            framed = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
            self._transport.write(framed + b"0\r\n\r\n" if last else framed)
        else:
            self._transport.write(data)
            self._current.keep_alive = False
        if last:
            self._answered()

    def abort(self) -> None:
        """Close without a word."""
        self._leave = None
        self._transport.abort()

    def close(self) -> None:
        """Close once all written data has gone out."""
        self._transport.close()

    def _answered(self) -> None:
        assert self._current is not None
        keep_alive = self._current.keep_alive
        self._current = self._leave = self.resumed = None
        if not keep_alive:
            self._stop_reading = True
            self._transport.close()
        elif self._queued:
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        if self._current is not None or not self._queued or self._transport.is_closing():
            return
        self._current = self._queued.popleft()
        self._transport.resume_reading()
        leave = self._service.serve(self._current, self)
        self._leave = leave if self._busy() else None

    def _busy(self) -> bool:
        return self._current is not None

    def _refuse(self, status: int, message: str) -> None:
        """An error the parser cannot go on after."""
        self._stop_reading = True
        body = error_body(status, message)
        head = (
            f"HTTP/1.1 {status} {_phrase(status)}\r\nContent-Type: {JSON}\r\nContent-Length: {len(body)}\r\n"
        )
        self._transport.write(f"{head}Connection: close\r\n\r\n".encode() + body)
        self._transport.close()


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
