"""Hosts the client's side of HTTP on a raw protocol: a chunk costs one read, no task and no future."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, cast

from evenstep.http.client import Client as Machine
from evenstep.http.client import Piece
from evenstep.http.head import ResponseHead
from evenstep.http.heads import Heads
from evenstep.load.answer import Answer

_MAX_ERROR = 64 * 1024
_EVENTS = "text/event-stream"
Told: TypeAlias = "Callable[[Connection], None]"


@dataclass(slots=True, eq=False)
class Call:
    """One request under way, and its answer so far.

    Args:
        request: all its bytes, head and body.
        answer: takes the body of a stream.
        ended: called once with this call, when it is over; `answer.error` says how, empty = well.
        connection: the one it is sent on; None before and after.
        started_s: time of `start`, of `time.monotonic`.
        status: HTTP status of the answer; 0 = none yet.
        is_over: it has ended, well or not.
    """

    request: bytes
    answer: Answer
    ended: Callable[[Call], None]
    connection: Connection | None = None
    started_s: float = 0.0
    status: int = 0
    is_over: bool = False
    _timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        """Start the clock and the time-out, after which the call fails with the error ``timeout``; it sends nothing."""
        self.started_s = time.monotonic()
        self._timer = loop.call_later(timeout_s, self._late, timeout_s)

    def cancel(self) -> None:
        """Leave early: close the connection, and end the call with the error ``cancelled``. Not for a call that is over."""
        self.fail("cancelled", "the client left")

    def fail(self, kind: str, message: str) -> None:
        """End the call with an error (see `Answer.fail`), unless it is over, and close its connection."""
        if self.is_over:
            return
        self.answer.fail(kind, message)
        connection = self.connection
        self.over()
        if connection is not None:
            connection.drop()

    def over(self) -> None:
        """End the call, without an error of its own: stop its time-out, and call `ended`. A second call does nothing."""
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
    """One connection to the server under load; it carries one call at a time.

    Args:
        heads: parsed heads of answers, shared by all connections.
        idle: called when an answer has ended and the connection can take another request.
        gone: called once when the connection is closed, by either side, before the call on it fails.

    Attributes:
        idle_since_s: time of `time.monotonic` at which its last answer ended; 0 before.
    """

    def __init__(self, heads: Heads[ResponseHead], idle: Told, gone: Told) -> None:
        self._idle, self._gone = idle, gone
        self._transport = cast(asyncio.Transport, None)
        self._machine = Machine(heads)
        self._call: Call | None = None
        self._error = bytearray()
        self.idle_since_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    @property
    def is_closing(self) -> bool:
        """Whether the connection is closed or about to be, so that it takes no more requests."""
        return self._transport.is_closing()

    def send(self, call: Call) -> None:
        """Send a call's request; the connection has to be idle. Its answer is fed to `call.answer`."""
        self._call, call.connection = call, self
        self._error.clear()
        self._machine.ask()
        self._transport.write(call.request)

    def drop(self) -> None:
        """Close the connection at once. This does not end the call on it; `Call.fail` does both."""
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
        """A part of the answer."""
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
        if head.status == 200 and head.kind == _EVENTS:
            call.answer.feed(body, now_s)
        elif len(self._error) < _MAX_ERROR:
            self._error += body

    def _end(self, call: Call, head: ResponseHead, now_s: float) -> None:
        """The answer ended as its framing says."""
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
