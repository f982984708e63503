"""Connections to engines: sends requests, reads heads and bodies of answers, keeps a connection if reuse is safe.

Rules of this file. A connection carries one request at a time. It is reused only if the answer ended exactly where its
framing said, nothing followed, and the engine did not send ``close``; unexpected bytes close it. If a connection that was
idle for a while breaks before its first byte, the engine had closed it: the request is sent once more to the same engine,
on a new connection. A connection used a moment ago and reset at once may have had the same fate: its request fails as
``stale``. Redirects are ordinary answers and are not followed here.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

from evenstep.dispatch.events import Kind
from evenstep.gateway.connections.deadline import NEVER, Deadline
from evenstep.gateway.connections.framing import Chunked
from evenstep.gateway.connections.head import (
    CHUNKED,
    UNTIL_CLOSED,
    HeadError,
    ResponseHead,
    read_response_head,
)

if TYPE_CHECKING:
    from evenstep.gateway.connections.endpoint import Endpoint

_MOST_HEAD = 64 * 1024  # bytes, of those before it that say it will come as well
_HTTP = b"HTTP/1."
_STALE_S = 1.0  # a connection that was closed meanwhile shows it sooner, and had nothing to do for longer
_DRAIN_S = 1.0  # for the end of a body whose stream is complete
_IDLE, _WAITING, _IN_BODY, _CLOSED = range(4)


class Leg(Protocol):
    """One call to an engine, as its connection sees it; the methods are called in this order, the last two once."""

    connection: EngineConnection | None
    is_off: bool  #: its answer is no longer wanted
    is_head: bool  #: it is a HEAD request

    @property
    def at_once(self) -> Callable[[ResponseHead, bytes], None] | None:
        """Takes an answer that came all at once, in place of the methods below, when its connection is free again; None =
        it wants pieces.
        """
        ...

    def head(self, head: ResponseHead, length: int) -> None:
        """The answer begins; `length` bytes follow, or `CHUNKED` or `UNTIL_CLOSED`."""
        ...

    def chunks(self, data: bytes) -> bytes:
        """Takes HTTP chunks of the body as they came; the rest arrives through `body`, without chunk framing."""
        ...

    def body(self, data: bytes) -> None:
        """Some of its body."""
        ...

    def ended(self) -> None:
        """Its body ended in order."""
        ...

    def broke(self, kind: Kind, why: str) -> None:
        """There is no more, and it has not ended."""
        ...


class Borrowed(Protocol):
    """Reads a connection's socket in its place."""

    @property
    def heard_s(self) -> float:
        """Monotonic seconds at which something came last."""
        ...

    def end(self) -> None:
        """Return it, at once."""
        ...


class EngineConnection(asyncio.Protocol):
    """One connection.

    Args:
        endpoint: whose it is.

    Attributes:
        deadline: when silence is too long; a leg moves it as it learns of life.
    """

    __slots__ = (
        "_chunked", "_data", "_endpoint", "_heard", "_idle_s", "_interim", "_is_old", "_is_paused", "_keep", "_left",
        "_leg", "_lent", "_rest", "_sent_s", "_silence_s", "_state", "_transport", "deadline",
    )  # fmt: skip

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._transport = cast(asyncio.Transport, None)
        self._state = _IDLE
        self._leg: Leg | None = None
        self._rest = b""
        self._chunked: Chunked | None = None
        self._left = self._interim = 0
        self._keep = self._heard = self._is_old = self._is_paused = False
        self._idle_s = math.inf
        self._data: tuple[bytes, bytes] | None = None
        self._lent: Borrowed | None = None
        self._sent_s = self._silence_s = 0.0
        self.deadline = Deadline(endpoint.loop, self._late)

    @property
    def is_between(self) -> bool:
        """Whether what comes next begins an HTTP chunk of a body."""
        return self._state == _IN_BODY and self._chunked is not None and self._chunked.is_between

    # --- called by a leg ----------------------------------------------------------------------------------------

    def send(self, leg: Leg, data: tuple[bytes, bytes], patience_s: float) -> None:
        """Send a request.

        Args:
            leg: takes the answer.
            data: head and body.
            patience_s: longest wait for a sign of life.
        """
        self._leg, leg.connection, self._data = leg, self, data
        self._state, self._heard, self._interim = _WAITING, False, 0
        now_s = time.monotonic()
        self._is_old, self._sent_s = now_s - self._idle_s > _STALE_S, now_s
        self.deadline.set(now_s + patience_s)
        head, body = data
        if len(body) < 65536:
            self._transport.write(head + body)
        else:
            self._transport.writelines(data)

    def pause(self) -> None:
        """Read nothing more for now: the client does not keep up."""
        if not self._is_paused and self._state != _CLOSED:
            self._is_paused = True
            self._transport.pause_reading()
            self.deadline.at = NEVER

    def resume(self, until_s: float) -> None:
        """Go on reading."""
        if self._is_paused and self._state != _CLOSED:
            self._is_paused = False
            self._transport.resume_reading()
            self.deadline.set(until_s)

    def socket(self) -> int:
        """File descriptor that its bytes can be read from; -1 = none, they are encrypted or it is not read now."""
        if self._is_paused or self._endpoint.is_tls or self._state == _CLOSED or self._transport.is_closing():
            return -1
        found = self._transport.get_extra_info("socket")
        return -1 if found is None else found.fileno()

    def lend(self, to: Borrowed, silence_s: float) -> None:
        """Let another reader take over its socket until it is `returned`.

        Args:
            silence_s: the longest silence.
        """
        self._lent, self._silence_s = to, silence_s
        self._transport.pause_reading()

    def returned(self, heard_s: float) -> None:
        """It is read here again.

        Args:
            heard_s: when something came last.
        """
        self._lent = None
        if self._state != _CLOSED:
            self.deadline.set(heard_s + self._silence_s)
            self._transport.resume_reading()

    def goes_on(self, data: bytes) -> None:
        """Take back bytes that the other reader could not parse: they do not begin with a usual chunk of a body."""
        if self._state == _IN_BODY:
            self._body(data)
        else:
            self.data_received(data)

    def let_go(self) -> None:
        """The leg needs no more; the rest of the body may only be its end."""
        until_s = time.monotonic() + _DRAIN_S
        self._drop_leg()
        self.deadline.set(until_s)
        self.resume(until_s)

    def close(self) -> None:
        """Close at once; the engine stops working on the request."""
        if self._state != _CLOSED:
            self._state = _CLOSED
            if self._lent is not None:
                self._lent.end()
            self._drop_leg()
            self.deadline.end()
            self._endpoint.forget(self)
            self._transport.abort()

    # --- called by the loop -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._endpoint.connections.add(self)

    def data_received(self, data: bytes) -> None:
        if self._state == _IN_BODY:
            chunked, leg = self._chunked, self._leg
            if chunked is not None and leg is not None and chunked.is_between:
                data = leg.chunks(data)
                if not data:
                    return
            self._body(data)
        elif self._state == _WAITING:
            self._heard, self._data = True, None
            self._head(data)
        else:
            self.close()  # unexpected bytes

    def eof_received(self) -> None:
        """The transport closes, and tells so; one that waits for work is not used any more."""
        if self._state == _IDLE:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._state == _CLOSED:
            return
        if self._lent is not None:
            self._lent.end()
        leg, state, data = self._leg, self._state, self._data
        in_order = exc is None and state == _IN_BODY and self._chunked is None and self._left == UNTIL_CLOSED
        is_at_once = not self._heard and data is not None and time.monotonic() - self._sent_s < _STALE_S
        self.close()
        if leg is None:
            return
        if in_order:
            leg.ended()
        elif is_at_once and self._is_old and data is not None:
            self._endpoint.send_fresh(leg, data)
        else:
            is_reset = is_at_once and exc is not None and self._idle_s < math.inf
            kind: Kind = "stale" if is_reset else "stream"
            leg.broke(kind, "it closed the connection before its answer was complete")

    # --- reading -------------------------------------------------------------------------------------------------

    def _head(self, data: bytes) -> None:
        if self._rest:
            data, self._rest = self._rest + data, b""
        leg = self._leg
        assert leg is not None
        found = None if leg.is_head else self._endpoint.heads.split(data)
        if found is None:
            found = self._read_head(data, leg.is_head)
            if found is None:
                return
        head, length, end = found
        rest = data[end:]
        while head.status < 200:
            self._interim += end
            if head.status == 101:
                self._break("status", "it wants another protocol")
                return
            if self._interim > _MOST_HEAD:
                self._break("status", "it says without an end that its answer will come")
                return
            found = self._read_head(rest, leg.is_head) if rest else None
            if found is None:
                return
            head, length, end = found
            rest = rest[end:]
        at_once = leg.at_once
        if at_once is not None and length == len(rest) > 0:
            self._keep = head.keep_alive
            self._done(has_more=False)
            at_once(head, rest)
            return
        self._keep, self._left = head.keep_alive, length
        self._chunked = Chunked() if length == CHUNKED else None
        self._state = _IN_BODY
        leg.head(head, length)
        if length == len(rest) > 0:  # all of it is here, as of most answers that do not stream
            if self._state == _IN_BODY:
                leg.body(rest)
            if self._state == _IN_BODY:
                self._over(has_more=False)
        elif self._state == _IN_BODY and (rest or not self._left):
            self._body(rest)

    def _read_head(self, data: bytes, is_head: bool) -> tuple[ResponseHead, int, int] | None:
        """Head, length of the body and where it begins; None where the head is not whole, or none."""
        end = data.find(b"\r\n\r\n") + 4
        if end < 4:
            self._rest = data
            if not data.startswith(_HTTP[: len(data)]):
                self._break("status", "what it says is not HTTP")
            elif len(data) > _MOST_HEAD:
                self._break("status", "its head is too large")
            return None
        try:
            if is_head:
                head = read_response_head(data[:end], to_head=True)
                return head, head.length, end
            return *self._endpoint.heads.read(data[:end]), end
        except HeadError as error:
            self._break("status", error.message)
            return None

    def _body(self, data: bytes) -> None:
        chunked, left = self._chunked, self._left
        extra = b""
        if chunked is not None:
            try:
                data = chunked.feed(data)
            except HeadError as error:
                self._break("stream", error.message)
                return
            is_over, extra = chunked.over, chunked.rest
        elif left == UNTIL_CLOSED:
            is_over = False
        else:
            data, extra = data[:left], data[left:]
            self._left = left = left - len(data)
            is_over = not left
        if data:
            if self._leg is None:
                self.close()  # more than the stream whose end it was
                return
            self._leg.body(data)
        if is_over and self._state == _IN_BODY:
            self._over(bool(extra))

    def _over(self, has_more: bool) -> None:
        leg = self._leg
        self._done(has_more)
        if leg is not None:
            leg.ended()

    def _done(self, has_more: bool) -> None:
        """The answer ended in order: the connection is kept for the next one, if that is safe."""
        if has_more or not self._keep or self._is_paused or self._transport.is_closing():
            self.close()
        else:
            self._drop_leg()
            self._state, self._chunked = _IDLE, None
            self._idle_s = now_s = time.monotonic()
            self._endpoint.keep(self, now_s)

    def _break(self, kind: Kind, why: str) -> None:
        leg = self._leg
        self.close()
        if leg is not None:
            leg.broke(kind, why)

    def _late(self) -> None:
        lent = self._lent
        if lent is not None and lent.heard_s + self._silence_s > time.monotonic():
            self.deadline.set(lent.heard_s + self._silence_s)
            return
        self._break("stall", "it was silent for too long")

    def _drop_leg(self) -> None:
        leg, self._leg, self._data = self._leg, None, None
        if leg is not None:
            leg.connection = None
