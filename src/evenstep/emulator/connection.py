"""The emulator's side of HTTP as an asyncio protocol: a token costs one formatted event and one write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from evenstep.emulator.wording import EVENTS, JSON, error_body
from evenstep.http.errors import HttpError
from evenstep.http.head import RequestHead, read_request_head
from evenstep.http.heads import Heads
from evenstep.http.server import CONTINUE, Event, Request, ServerSide, State

_MOST_WAITING = 64 * 1024  # waiting bytes above which the connection is not read further
_ANY = 1 << 62


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A request's head, in the form that `ServerSide` expects."""

    head: RequestHead
    wants_body: bool = True


def _read(head: bytes) -> tuple[_Parsed, int, bool]:
    """Parse a request's head for `Heads`: the head, the length of its body, and True, because it may be cached."""
    found = read_request_head(head)
    return _Parsed(found), found.length, True


class _Rules:
    """The parser of heads and the size limits that `ServerSide` uses."""

    read = Heads(_read).read
    head_bytes, body_bytes = 64 * 1024, 64 * 1024 * 1024

    @property
    def limits(self) -> _Rules:
        return self


#: Answers a request on a connection, at once or later. It returns a function to call if the client leaves before the answer
#: is over, or None if there is nothing to do then.
Serve: TypeAlias = "Callable[[RequestHead, bytes, Connection], Callable[[], None] | None]"


class Connection(asyncio.Protocol):
    """A client's connection. It passes a request to `serve` once earlier answers have ended.

    It adds itself to the set `alive` when it opens, and removes itself when it closes. Without an answer under way, `reply`,
    `start` and `send` do nothing.
    """

    def __init__(self, serve: Serve, alive: set[Connection]) -> None:
        self._serve, self._alive = serve, alive
        self._transport = cast(asyncio.Transport, None)
        self._machine = ServerSide(_Rules(), most_waiting=_ANY)
        self._leave: Callable[[], None] | None = None
        self.paused = False  # True while the client does not read; afterwards `resumed` is called
        self.resumed: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._alive.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._alive.discard(self)
        self._machine.close()
        leave, self._leave, self.resumed = self._leave, None, None
        if leave is not None:
            leave()

    def data_received(self, data: bytes) -> None:
        self._take(self._machine.receive(data))
        if self._machine.waiting > _MOST_WAITING:
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        if self.resumed is not None:
            self.resumed()

    def _take(self, event: Event[_Parsed] | None) -> None:
        """Serve a request, answer an HTTP error, or send 100 Continue."""
        if isinstance(event, Request):
            leave = self._serve(event.parsed.head, event.body, self)
            self._leave = leave if self._is_answering else None
        elif isinstance(event, HttpError):
            self.reply(event.status, error_body(event.status, event.message))
        elif event is not None:
            self._transport.write(CONTINUE)

    def reply(self, status: int, body: bytes, kind: str = JSON, headers: Sequence[tuple[str, str]] = ()) -> None:
        """Send a complete response: status, body of media type `kind`, and further header fields."""
        if self._is_answering:
            fields = "".join(f"{name}: {value}\r\n" for name, value in headers).encode("latin-1", "replace")
            self._transport.write(self._machine.whole(status, kind.encode("latin-1", "replace"), body, fields))
            self._answered()

    def start(self) -> None:
        """Send the head of an event stream, with status 200."""
        if self._is_answering:
            self._machine.start(200, EVENTS.encode(), b"Cache-Control: no-cache\r\n")
            self._transport.write(self._machine.forward(b""))

    def send(self, data: bytes, *, last: bool = False) -> None:
        """Send bytes of a started stream in one write; `last` ends the stream cleanly."""
        if self._is_answering:
            self._transport.write(self._machine.piece(data, last))
            if last:
                self._answered()

    def abort(self) -> None:
        """Close the connection at once: unsent bytes are lost, and the function that `Serve` returned is not called."""
        self._leave = None
        self._transport.abort()

    @property
    def reached(self) -> str:
        """The address of this machine that the client connected to."""
        return str(self._transport.get_extra_info("sockname")[0])

    @property
    def _is_answering(self) -> bool:
        return self._machine.state is State.ANSWERING

    def _answered(self) -> None:
        """End the answer: close the connection if HTTP requires it, or serve the next waiting request soon."""
        self._leave = self.resumed = None
        if self._machine.state is State.OVER:
            self._transport.close()
        elif self._machine.waiting:
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        if self._machine.state is State.IDLE and not self._transport.is_closing():
            self._transport.resume_reading()
            self._take(self._machine.receive(b""))
