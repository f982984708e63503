"""Hosts the server's side of HTTP for a client: the socket, the deadlines, and the job that answers.

Rules of this file. `http.server` reads requests and writes answers. A client that sends its request too slowly gets an
error, and its connection ends. A client that closes its side has left (RFC 9112 section 9.6 allows this reading). Answer
bytes are written as they arrive, without a task or a queue of ours.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import msgspec

from evenstep.engines.requests import refusals
from evenstep.engines.requests.refusals import Refusal
from evenstep.gateway.config.sections import Limits
from evenstep.gateway.connections.deadline import NEVER, Deadline
from evenstep.gateway.connections.request_context import RequestContext
from evenstep.http.errors import HttpError
from evenstep.http.server import Event, Request, ServerSide, State
from evenstep.sockets import in_flight

_log = logging.getLogger("evenstep.gateway")
JSON = b"application/json"
_LINGER_S = 2.0  # time for a refused client to read the error
_ANY = 1 << 62
_GRACE_S = 2.0  # time before a body's rate is checked
_LOOKS = 4  # checks of a slow client within `stalled_s`
_IDLE, _HEAD, _BODY, _ANSWERING, _OVER = State


class Received(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A request from a client: its parsed head, its body as in `http.server.Request`, and its request id (`name`)."""

    context: RequestContext
    body: bytes
    name: str


class Job(Protocol):
    """The running request of a connection.

    Attributes:
        client_gone: called when the client has left: stop, and send nothing.
        failed: called by `Client.fail`, once `Client.job` is None: stop, and send nothing.
        client_resumed: called when the client reads again after `Client.paused`.
        give_up: called when the gateway ends before the answer does: end it with an error for the client, and stop.
    """

    def client_gone(self) -> None: ...
    def failed(self) -> None: ...
    def client_resumed(self) -> None: ...
    def give_up(self) -> None: ...


class Service(Protocol):
    """Answers the requests of all clients' connections; the gateway's is `serve.front.Front`.

    Attributes:
        limits, read: limits in force, and the parser of heads (`http.server.Rules`); looked up anew for each request, so a
            reload replaces them.
        clients: open connections; a `Client` adds and removes itself.
        codes: HTTP status -> number of answers that began, counted by each `Client`.
        is_draining: while True, each answer ends its connection.
        serve: called with each whole request; answers it, or sets `Client.job` and answers later.
        turn_away: called, without a body, with each request that is not whole, if its head was readable, and with each whose
            `serve` failed before it set a job; refuses it.
        new_name: returns an id for a request without one.
    """

    limits: Limits
    clients: set[Client]
    codes: Counter[int]

    @property
    def read(self) -> Callable[[bytes], tuple[RequestContext, int]]: ...
    @property
    def is_draining(self) -> bool: ...
    def serve(self, request: Received, client: Client) -> None: ...
    def turn_away(self, request: Received, client: Client, refusal: Refusal) -> None: ...
    def new_name(self) -> str: ...


class Client(asyncio.Protocol):
    """A client's connection to the gateway, made by the listener for each one it accepts.

    It is closed at once if there are ``limits.connections`` already. To answer, use `refuse` or `reply`, or else `start` and
    then `send` or `forward`, up to the `last` piece.

    Attributes:
        job: the running request, if its answer takes time; None before `Service.serve` sets it and after the answer.
        paused: the client reads more slowly than we write: the job must stop reading from the engine until
            `Job.client_resumed`.
    """

    __slots__ = (
        *("_body_since_s", "_deadline", "_machine", "_name", "_read_s", "_service", "_unsent"),
        *("job", "paused", "transport"),
    )

    def __init__(self, service: Service) -> None:
        self._service = service
        self.transport: asyncio.Transport = None  # type: ignore[assignment]  # until it is connected; so is the next one
        self._deadline: Deadline = None  # type: ignore[assignment]
        self._machine: ServerSide[RequestContext] = ServerSide(service)
        self.job: Job | None = None
        self._body_since_s, self._read_s = 0.0, -math.inf
        self._name, self._unsent, self.paused = "", 0, False

    # --- what the loop calls -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # a TCP transport also writes
        service = self._service
        self._deadline = Deadline(asyncio.get_running_loop(), self._late)
        if len(service.clients) >= service.limits.connections:
            self._machine.close()
            self.transport.abort()
            return
        service.clients.add(self)
        most = service.limits.buffer_bytes
        self.transport.set_write_buffer_limits(high=most, low=most // 4)
        self._deadline.set(time.monotonic() + (_LINGER_S if service.is_draining else service.limits.idle_s))

    def connection_lost(self, exc: Exception | None) -> None:
        self._service.clients.discard(self)
        self._deadline.end()
        self._gone()

    def eof_received(self) -> None:
        if self.is_busy:
            self._gone()
            self.transport.abort()

    def pause_writing(self) -> None:
        self.paused = True
        self._unsent, self._read_s = self.transport.get_write_buffer_size(), time.monotonic()
        self._look_again(self._read_s)

    def resume_writing(self) -> None:
        self.paused = False
        waits = {_IDLE: self._service.limits.idle_s, _ANSWERING: NEVER, _OVER: _LINGER_S}
        if self._machine.state in waits:  # else the rest of a request has its own deadline
            self._deadline.set(time.monotonic() + waits[self._machine.state])
        if self.job is not None:
            self.job.client_resumed()

    def data_received(self, data: bytes) -> None:
        before = self._machine.state
        event: Event[RequestContext] | None = self._machine.receive(data)
        if type(event) is Request:
            if not self.paused:  # a paused client must read the last answer first
                self._deadline.at = NEVER
            context = event.parsed
            self._name = name = context.name or self._service.new_name()
            try:
                self._service.serve(Received(context, event.body, name), self)
            except Exception:
                self.fail()
        elif isinstance(event, HttpError):
            self._turn_away(Refusal(event.status, "invalid_request_error", event.message, event.code or None))
        else:
            if isinstance(event, bytes):
                self.transport.write(event)
            self._wait(before)

    # --- reading -------------------------------------------------------------------------------------------------

    def _wait(self, before: State) -> None:
        """Set the deadline for the rest of a request; `before` is the state before the last bytes came."""
        state, limits = self._machine.state, self._service.limits
        if state is _HEAD and before is not _HEAD:
            self._deadline.set(time.monotonic() + limits.head_s)
        elif state is _BODY:
            if before is not _BODY:
                self._body_since_s = time.monotonic()
            total_s = self._body_since_s + limits.body_s
            if limits.body_bytes_per_s:
                floor_s = self._body_since_s + _GRACE_S + self._machine.got / limits.body_bytes_per_s
                total_s = min(total_s, floor_s)
            self._deadline.set(total_s)

    def _turn_away(self, refusal: Refusal) -> None:
        """Refuse a request that is not whole or has no job, and end the connection.

        The service does it, if the head was readable.
        """
        parsed = self._machine.parsed
        if parsed is None:
            self.refuse(refusal, close=True)
            return
        self._machine.keep_alive = False
        self._name = name = self._name or parsed.name or self._service.new_name()
        self._service.turn_away(Received(parsed, b"", name), self, refusal)

    def _late(self) -> None:
        """Called at the deadline: answer 408 to an unfinished request, else close; a client that reads gets more time."""
        unsent, before, now_s = self.transport.get_write_buffer_size(), self._unsent, time.monotonic()
        if unsent:
            self._unsent = unsent
            if unsent < before:  # it reads slowly
                self._read_s = now_s
        if unsent and now_s < self._read_s + self._service.limits.stalled_s:
            self._look_again(now_s)
        elif self._machine.state in (_HEAD, _BODY):
            self._turn_away(refusals.TOO_SLOW)
        else:
            self.abort()

    def _look_again(self, now_s: float) -> None:
        """Set the deadline to the next look at a slow client: a quarter of ``limits.stalled_s`` from now on."""
        self._deadline.set(now_s + self._service.limits.stalled_s / _LOOKS)

    def _gone(self) -> None:
        """Stop reading requests, drop those that wait, and tell the job, if there is one, that the client left."""
        self._machine.close()
        job, self.job = self.job, None
        if job is not None:
            job.client_gone()

    # --- answering -----------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether a request, or the error for an invalid one, waits for the end of its answer."""
        return self._machine.state is _ANSWERING

    @property
    def is_owed(self) -> bool:
        """Whether the client waits for an answer, or for the rest of one that its connection has not sent yet."""
        transport = self.transport
        if self.is_busy or transport.get_write_buffer_size() > 0:
            return True
        return not transport.can_write_eof() and in_flight(transport.get_extra_info("socket")) > 0

    @property
    def is_framed(self) -> bool:
        """Whether the present answer is sent in HTTP chunks; known after `start`."""
        return self._machine.is_framed

    def fail(self) -> None:
        """Log the exception being handled, and answer with status 500 if an answer is due; then the connection ends.

        Call it in an ``except`` block. The job is told (`Job.failed`). An answer that has begun is cut off there, and the
        connection ends. After the end of the answer it only logs.
        """
        _log.exception("a request could not be served", extra={"request": self._name})
        job, self.job = self.job, None
        if job is not None:
            job.failed()
        if self._machine.has_begun:
            self.abort()
        elif self.is_busy and job is None:
            self._turn_away(refusals.BUG)
        elif self.is_busy:
            self.refuse(refusals.BUG, close=True)

    def refuse(self, refusal: Refusal, close: bool = False) -> None:
        """Answer with an error, as JSON, with its Retry-After if it has one; with `close`, end the connection after it."""
        fields = b"Retry-After: %b\r\n" % refusal.retry_after if refusal.retry_after else b""
        if close:
            self._machine.keep_alive = False
        self.reply(refusal.status, refusal.body(), fields=fields)

    def reply(self, status: int, body: bytes, kind: bytes = JSON, fields: bytes = b"") -> None:
        """Send a whole answer, and set `job` to None. Does nothing on a connection that is over.

        The request's id, if it has one, is added as X-Request-Id; while the gateway drains, the connection ends after it.

        Args:
            kind: its Content-Type.
            fields: further lines of the head, each with its CRLF.
        """
        machine = self._machine
        if machine.state is _OVER:
            return
        self.transport.write(machine.whole(status, kind, body, self._fields(status, fields)))
        self._answered()

    def start(self, status: int, kind: bytes, fields: bytes = b"", length: int = -1) -> None:
        """Begin an answer that comes in pieces; its head is sent with the first piece, by `send` or `forward`.

        Arguments and framing are those of `http.server.ServerSide.start`; X-Request-Id is added.
        """
        self._machine.start(status, kind, self._fields(status, fields), length)

    def send(self, data: bytes, last: bool = False) -> None:
        """Send an unframed piece of the answer; `last` ends it, and `job` is None then. Dropped on a closed connection."""
        machine = self._machine
        if machine.state is _OVER:
            return
        if last and self._service.is_draining:
            machine.keep_alive = False
        data = machine.piece(data, last)
        if data:
            self.transport.write(data)
        if last:
            self._answered()

    def forward(self, data: bytes) -> None:
        """Send whole HTTP chunks if `is_framed`, else body bytes; not the end. Dropped on a closed connection."""
        machine = self._machine
        if machine.state is not _OVER:
            self.transport.write(machine.forward(data))

    def abort(self) -> None:
        """Close the connection at once, without the rest of an answer; the job is told that the client left."""
        self._gone()
        self.transport.abort()

    def close_if_idle(self) -> None:
        """Close the connection unless a request, a part of one, or an answer is under way."""
        if self._machine.state is _IDLE and not self._machine.waiting:
            self.transport.close()

    def _fields(self, status: int, fields: bytes) -> bytes:
        """Lines of an answer that begins: id, those for a page, `fields`. Counts it; ends keep-alive while draining."""
        if self._service.is_draining:
            self._machine.keep_alive = False
        self._service.codes[status] += 1
        parsed = self._machine.parsed
        if parsed is not None and parsed.for_page:
            fields = parsed.for_page + fields
        return b"X-Request-Id: %b\r\n%b" % (self._name.encode("ascii"), fields) if self._name else fields

    def _answered(self) -> None:
        """After the end of an answer: set `job` to None, and close the connection or wait for the next request."""
        self.job = None
        now_s, machine = time.monotonic(), self._machine
        if not self.paused:  # a paused client keeps the looks that `pause_writing` began, however many answers follow
            self._unsent = _ANY
        if machine.state is _OVER:
            if self.transport.can_write_eof():
                with suppress(OSError):  # the client is gone already; `connection_lost` follows
                    self.transport.write_eof()
                self._deadline.set(now_s + _LINGER_S)
            else:
                self.transport.close()
            return
        self._name = ""
        if not self.paused:
            self._deadline.set(now_s + self._service.limits.idle_s)
        if machine.waiting:
            asyncio.get_running_loop().call_soon(self.data_received, b"")  # reads the next request
