"""The client of one server: opens connections on demand, and reuses idle ones.

A connection is an asyncio protocol: a chunk costs one read, no task and no future.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, cast

from evenstep.http.client import ClientSide, Piece
from evenstep.http.head import ResponseHead
from evenstep.http.heads import Heads, response_heads
from evenstep.load.answer import Answer
from evenstep.load.settings import Target

_MAX_ERROR = 64 * 1024
_EVENTS = "text/event-stream"
Told: TypeAlias = "Callable[[Connection], None]"
_KEEP_S = 2.0
_TRY_S = 3.0  # for one address to accept a connection


class Client:
    """Sends POST requests to one server. Create it in a running event loop; await `resolve` first, and `close` last.

    Args:
        path: path of every request, appended to the target's `base`.
        headers: further header fields of every request.
        timeout_s: most seconds from the start of a request to the end of its answer.
    """

    def __init__(self, target: Target, path: str, headers: dict[str, str], timeout_s: float) -> None:
        self._target, self._timeout_s = target, timeout_s
        self._loop = asyncio.get_running_loop()
        self._idle: list[Connection] = []
        self._connection = partial(Connection, response_heads(), self._idle.append, self._gone)
        self._open: set[Connection] = set()
        self._making: set[asyncio.Task[None]] = set()
        self._tls = ssl.create_default_context() if target.secure else None
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._head = (
            f"POST {target.base}{path} HTTP/1.1\r\nHost: {target.authority}\r\nContent-Type: application/json\r\n"
            f"Accept: text/event-stream\r\nUser-Agent: evenstep-load\r\n{lines}"
        ).encode("latin-1")
        self._address: tuple[str, int] = (target.host, target.port)
        self.connections = 0  # made so far

    async def resolve(self) -> None:
        """Look up the host's address, which all later connections use; an unknown host raises `OSError`.

        Of several addresses, it takes the first that accepts a connection within 3 s; if none does, the first.
        """
        found = await self._loop.getaddrinfo(self._target.host, self._target.port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys((str(one[4][0]), int(one[4][1])) for one in found))
        self._address = addresses[0]
        for address in addresses if len(addresses) > 1 else ():
            with suppress(OSError):
                async with asyncio.timeout(_TRY_S):
                    transport, _ = await self._loop.create_connection(asyncio.Protocol, *address)
                transport.abort()
                self._address = address
                return

    def request(self, body: bytes, lines: bytes = b"") -> bytes:
        """Build the bytes of a POST request, without sending it; `lines` are further header lines, each with its CRLF."""
        return b"%b%bContent-Length: %d\r\n\r\n%b" % (self._head, lines, len(body), body)

    def start(self, call: Call) -> None:
        """Start a call's time-out, and send its request; returns at once, and `Call.ended` is called later.

        Uses the open connection that became idle last, if that was at most 2 s ago, else a new one. A failure to connect
        ends the call with the error ``connect``.
        """
        call.start(self._loop, self._timeout_s)
        fresh_s = time.monotonic() - _KEEP_S
        while self._idle:
            connection = self._idle.pop()
            if connection.idle_since_s >= fresh_s and not connection.is_closing:
                connection.send(call)
                return
            connection.drop()
        task = self._loop.create_task(self._connect(call))
        self._making.add(task)
        task.add_done_callback(self._making.discard)

    async def close(self) -> None:
        """Close every connection, also those being opened, and wait until all are closed.

        Calls under way do not end: `Call.ended` is called at their time-out, if the event loop still runs then.
        """
        for task in list(self._making):
            task.cancel()
        for connection in list(self._open):
            connection.drop()
        while self._open:
            await asyncio.sleep(0)

    def _gone(self, connection: Connection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    async def _connect(self, call: Call) -> None:
        """Open a connection, and send the call's request on it, or end the call with the error ``connect``."""
        host, port = self._address
        name = self._target.host if self._tls is not None else None
        try:
            _, connection = await self._loop.create_connection(
                self._connection, host, port, ssl=self._tls, server_hostname=name
            )
        except OSError as error:
            call.fail("connect", error.strerror or str(error))
            return
        if connection.is_closing:  # closed since the loop made it: no callback would follow
            call.fail("connect", "the server closed the connection before it was asked")
            return
        self.connections += 1
        self._open.add(connection)
        if call.is_over:  # its time-out passed meanwhile
            connection.drop()
        else:
            connection.send(call)


@dataclass(slots=True, eq=False)
class Call:
    """One request, and its answer so far."""

    request: bytes  # head and body
    answer: Answer  # parses and counts the streamed answer
    # called once, with this call, when the call is over; `answer.error` is empty after success
    ended: Callable[[Call], None]
    connection: Connection | None = None  # carries the call; None before it is sent and after it is over
    started_s: float = 0.0  # time of `start`, by `time.monotonic`
    status: int = 0  # HTTP status of the answer; 0 = no answer yet
    is_over: bool = False  # it has ended, with or without an error
    _timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        """Set `started_s`, and start a timer that fails the call with ``timeout`` after `timeout_s`. Sends nothing."""
        self.started_s = time.monotonic()
        self._timer = loop.call_later(timeout_s, self._late, timeout_s)

    def cancel(self) -> None:
        """End the call with the error ``cancelled``, and close its connection; ignored if the call is over."""
        self.fail("cancelled", "the client left")

    def fail(self, kind: str, message: str) -> None:
        """End the call with an error, of a kind in `load.answer`, and close its connection; ignored if the call is over."""
        if self.is_over:
            return
        self.answer.fail(kind, message)
        connection = self.connection
        self.over()
        if connection is not None:
            connection.drop()

    def over(self) -> None:
        """Mark the call as over, stop its time-out, and call `ended`; ignored if the call is over.

        Adds no error, and leaves the connection open.
        """
        if self.is_over:
            return
        self.is_over = True
        self.connection = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.ended(self)

    def _late(self, timeout_s: float) -> None:
        self._timer = None
        self.fail("timeout", f"no end within {timeout_s:g} s")


class Connection(asyncio.Protocol):
    """One connection to the server; it carries one call at a time.

    Args:
        heads: cache of parsed response heads, shared by all connections.
        idle: called, with this connection, when an answer has ended and another request may be sent; then the call ends.
        gone: called once, with this connection, when either side has closed it; then a call on it, if any, ends.
    """

    def __init__(self, heads: Heads[ResponseHead], idle: Told, gone: Told) -> None:
        self._idle, self._gone = idle, gone
        self._transport = cast(asyncio.Transport, None)
        self._machine = ClientSide(heads)
        self._call: Call | None = None
        self._error = bytearray()
        self.idle_since_s = 0.0  # end of its last answer by `time.monotonic`; 0 before the first end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    @property
    def is_closing(self) -> bool:
        """True if the connection is closed or about to close, so that it takes no more requests."""
        return self._transport.is_closing()

    def send(self, call: Call) -> None:
        """Send a call's request on this connection, which must be open and idle; the answer goes to `call.answer`."""
        self._call, call.connection = call, self
        self._error.clear()
        self._machine.ask()
        self._transport.write(call.request)

    def drop(self) -> None:
        """Close the connection at once. The call on it gets no more bytes and does not end (`Call.fail` does both)."""
        self._call = None
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        now_s = time.monotonic()
        piece = self._machine.receive(data)
        if piece is not None:
            self._take(piece, now_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone(self)
        call = self._call
        piece = self._machine.end() if exc is None else None
        if call is not None and piece is not None and piece.over:  # the body lasts until the connection ends
            self._take(piece, time.monotonic())
        elif call is not None:
            self._call = None
            said = "before the answer" if call.status == 0 else "in the middle of the answer"
            call.fail("cut", f"the connection was closed {said}")

    def _take(self, piece: Piece, now_s: float) -> None:
        """Pass a part of the response to its call: status and body, the end, or a fault of HTTP."""
        call, head = self._call, self._machine.head
        if call is None:  # unasked bytes
            self._transport.abort()
            return
        if head is not None:
            call.status = head.status
            if piece.body:
                self._body(call, head, piece.body, now_s)
                if call.is_over:
                    return
            if piece.over:
                self._end(call, head, now_s)
                return
        if piece.fault:
            call.fail("not-http", f"what came is not HTTP: {piece.fault}")

    def _body(self, call: Call, head: ResponseHead, body: bytes, now_s: float) -> None:
        """Feed body bytes to the answer if status 200 brings an event stream; else keep about 64 KiB for its message."""
        if head.status == 200 and head.kind == _EVENTS:
            call.answer.feed(body, now_s)
        elif len(self._error) < _MAX_ERROR:
            self._error += body

    def _end(self, call: Call, head: ResponseHead, now_s: float) -> None:
        """End the call after a complete response, and mark the connection as idle or close it."""
        self._call = None
        if head.status != 200:
            call.answer.fail(f"status-{head.status}", _text(self._error))
        elif head.kind != _EVENTS:
            call.answer.fail("not-a-stream", f"200 with {head.kind or 'no content type'}: {_text(self._error)}")
        else:
            call.answer.end(now_s)
        if self._machine.keeps and not self._transport.is_closing():
            self.idle_since_s = now_s
            self._idle(self)
        else:
            self._transport.close()
        call.over()


def _text(body: bytearray) -> str:
    return bytes(body[:300]).decode("utf-8", "replace")
