"""One connection of a client: bytes to requests, answers to bytes.

Rules of this file. Requests of a connection are served one after the other. Input is checked against its limits before it
is parsed. Late, oversized or ambiguous input gets an error and ends the connection. A client that closes its side has
left. Answer bytes are written as they arrive, without a task or a queue of ours.
"""

from __future__ import annotations

import asyncio
import logging
import time
from http import HTTPStatus

from evenstep.engines.requests import refusals
from evenstep.engines.requests.refusals import Refusal
from evenstep.gateway.connections.deadline import NEVER, Deadline
from evenstep.gateway.connections.framing import Chunked, framed
from evenstep.gateway.connections.head import CHUNKED, HeadError, end_of_head
from evenstep.gateway.serve.asking import Asking
from evenstep.gateway.serve.service import Job, Received, Service

_log = logging.getLogger("evenstep.gateway")
JSON = b"application/json"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_PIPELINED = 64 * 1024  # bytes of later requests that may wait while one is served
_LINGER_S = 2.0  # time for a refused client to read the error
_ANY = 1 << 62
_GRACE_S = 2.0  # before the rate of a body is checked
_IN_HEAD, _IN_BODY, _BUSY, _LINGERING, _CLOSED = range(5)
_FIRST_LINES = {one.value: b"HTTP/1.1 %d %b\r\n" % (one, one.phrase.encode()) for one in HTTPStatus}


class Client(asyncio.Protocol):
    """A client's connection.

    Args:
        service: answers its requests.

    Attributes:
        job: the running request; None while the connection is idle.
        is_framed: the answer that has begun goes out in HTTP chunks.
        paused: the client reads more slowly than we write: the sender must stop reading until `Job.client_resumed`.
    """

    __slots__ = (
        "_asking", "_body_since_s", "_chunked", "_chunks", "_deadline", "_got", "_is_head", "_keep_alive", "_length",
        "_name", "_pieces", "_prefix", "_rest", "_searched", "_service", "_state", "_unsent", "is_framed", "job",
        "paused", "transport",
    )  # fmt: skip

    def __init__(self, service: Service) -> None:
        self._service = service
        self.transport: asyncio.Transport = None  # type: ignore[assignment]  # until it is connected, as the next ones
        self.job: Job | None = None
        self._state = _IN_HEAD
        self._rest = bytearray()
        self._searched = 0
        self._asking: Asking = None  # type: ignore[assignment]
        self._pieces: list[bytes] = []
        self._length, self._got, self._body_since_s = 0, 0, 0.0
        self._chunked: Chunked | None = None
        self._chunks = self._keep_alive = True
        self._is_head = self.is_framed = self.paused = False
        self._prefix, self._name, self._unsent = b"", "", 0
        self._deadline: Deadline = None  # type: ignore[assignment]

    # --- what the loop calls -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # it writes, too
        service = self._service
        self._deadline = Deadline(asyncio.get_running_loop(), self._late)
        if len(service.clients) >= service.limits.connections:
            self._state = _CLOSED
            self.transport.abort()
            return
        service.clients.add(self)
        most = max(1, service.limits.buffer_bytes // 4)
        self.transport.set_write_buffer_limits(high=most, low=most // 4)
        self._deadline.set(time.monotonic() + (_LINGER_S if service.is_draining else service.limits.idle_s))

    def connection_lost(self, exc: Exception | None) -> None:
        self._service.clients.discard(self)
        self._deadline.end()
        self._gone()

    def eof_received(self) -> None:
        if self._state == _BUSY:
            self._gone()
            self.transport.abort()

    def pause_writing(self) -> None:
        self.paused = True
        self._unsent = self.transport.get_write_buffer_size()
        self._deadline.set(time.monotonic() + self._service.limits.stalled_s)

    def resume_writing(self) -> None:
        self.paused, is_busy = False, self._state == _BUSY
        self._deadline.set(NEVER if is_busy else time.monotonic() + self._service.limits.idle_s)
        if self.job is not None:
            self.job.client_resumed()

    def data_received(self, data: bytes) -> None:
        if self._state == _IN_HEAD:
            if not self._rest and data[:1] != b"\r":  # the common case: a head, whole, and nothing before it
                end = data.find(b"\r\n\r\n") + 4
                if 4 <= end <= self._service.limits.head_bytes:
                    self._take_head(data[:end], data[end:])
                    return
            self._read_head(data)
        elif self._state == _IN_BODY:
            self._read_body(data)
        elif self._state == _BUSY and self._keep_alive:
            self._rest += data
            if len(self._rest) > _PIPELINED:
                self._rest.clear()
                self._keep_alive = False

    # --- reading -------------------------------------------------------------------------------------------------

    def _read_head(self, data: bytes) -> None:
        rest, limits = self._rest, self._service.limits
        rest += data
        if rest.startswith(b"\r\n") and not self._searched:  # one empty line before a request is allowed
            del rest[:2]
        end = end_of_head(rest, self._searched)
        if end < 0:
            if len(rest) > limits.head_bytes:
                self.refuse(refusals.head_too_large(limits.head_bytes), close=True)
            elif b"\x00" in data or rest.count(b"\n") != rest.count(b"\r\n"):
                self._refuse(HeadError("A line of the head does not end with CRLF, or there is a NUL in it."))
            elif rest and not self._searched:
                self._deadline.set(time.monotonic() + limits.head_s)
            self._searched = len(rest)
            return
        if end > limits.head_bytes:
            self.refuse(refusals.head_too_large(limits.head_bytes), close=True)
            return
        head, more = bytes(rest[:end]), bytes(rest[end:])
        rest.clear()
        self._searched = 0
        self._take_head(head, more)

    def _take_head(self, head: bytes, more: bytes) -> None:
        """Take a complete head.

        Args:
            more: the bytes that follow it.
        """
        service = self._service
        limits = service.limits
        try:
            asking, length = service.heads.read(head)
        except HeadError as error:
            self._refuse(error)
            return
        found = asking.head
        self._asking, self._length = asking, length
        self._keep_alive, self._chunks, self._is_head = found.keep_alive, found.chunks, found.method == "HEAD"
        self._name = asking.name or service.new_name()
        if length > limits.body_bytes:
            self.refuse(refusals.too_large(limits.body_bytes), close=True)
            return
        if length == len(more):
            self._serve(more)
            return
        if length == 0:
            self._rest += more
            self._serve(b"")
            return
        self._state, self._got = _IN_BODY, 0
        self._chunked = Chunked() if length == CHUNKED else None
        if found.expects and not more:
            self.transport.write(_CONTINUE)
        self._body_since_s = time.monotonic()
        self._read_body(more)

    def _read_body(self, data: bytes) -> None:
        limits, chunked = self._service.limits, self._chunked
        if chunked is not None:
            try:
                data = chunked.feed(data)
            except HeadError as error:
                self._refuse(error)
                return
            is_whole, announced = chunked.over, chunked.announced
            self._rest += chunked.rest
        else:
            left, announced = self._length - self._got, 0
            is_whole = len(data) >= left
            if len(data) > left:
                self._rest += data[left:]
                data = data[:left]
        self._got += len(data)
        if self._got + announced > limits.body_bytes:
            self.refuse(refusals.too_large(limits.body_bytes), close=True)
            return
        if data:
            self._pieces.append(data)
        if is_whole:
            pieces, self._pieces = self._pieces, []
            self._serve(pieces[0] if len(pieces) == 1 else b"".join(pieces))
            return
        total_s = self._body_since_s + limits.body_s
        if limits.body_bytes_per_s:
            floor_s = self._body_since_s + _GRACE_S + self._got / limits.body_bytes_per_s
            total_s = min(total_s, floor_s)
        self._deadline.set(total_s)

    def _serve(self, body: bytes) -> None:
        self._state = _BUSY
        self._deadline.at = NEVER
        try:
            self._service.serve(Received(self._asking, body, self._name), self)
        except Exception:
            self.fail()

    def _late(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        if unsent and unsent < self._unsent:  # it reads, slowly
            self._unsent = unsent
            self._deadline.set(time.monotonic() + self._service.limits.stalled_s)
        elif self._state == _IN_BODY or (self._state == _IN_HEAD and self._rest):
            self.refuse(refusals.too_slow(), close=True)
        else:
            self.abort()

    def _refuse(self, error: HeadError) -> None:
        self.refuse(Refusal(error.status, "invalid_request_error", error.message), close=True)

    def _gone(self) -> None:
        self._state = _CLOSED
        self._rest.clear()
        self._pieces.clear()
        job, self.job = self.job, None
        if job is not None:
            job.client_gone()

    # --- answering -----------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether a request is being served."""
        return self._state == _BUSY

    def fail(self) -> None:
        """A bug of ours, the exception at hand, costs this request, and says so."""
        _log.exception("a request could not be served", extra={"request": self._name})
        if self.job is not None:
            self.job.client_gone()
        if self._state == _BUSY:
            self.refuse(Refusal(500, "server_error", "The gateway failed.", "internal_error"), close=True)

    def refuse(self, refusal: Refusal, close: bool = False) -> None:
        """Answer with an error.

        Args:
            close: read nothing more of this client.
        """
        fields = b"Retry-After: %b\r\n" % refusal.retry_after if refusal.retry_after else b""
        self._keep_alive &= not close
        self.reply(refusal.status, refusal.body(), fields=fields)

    def reply(self, status: int, body: bytes, kind: bytes = JSON, fields: bytes = b"") -> None:
        """A whole answer.

        Args:
            fields: further lines of the head, each with its CRLF.
        """
        if self._state == _CLOSED:
            return
        service = self._service
        if service.is_draining:
            self._keep_alive = False
        name, end = self._name.encode("ascii"), self._stays() + b"\r\n"
        pieces = (
            _FIRST_LINES.get(status) or b"HTTP/1.1 %d Unknown\r\n" % status, b"X-Request-Id: " if name else b"", name,
            b"\r\nContent-Type: " if name else b"Content-Type: ", kind, b"\r\nContent-Length: %d\r\n" % len(body), fields,
            end, b"" if self._is_head else body,
        )  # fmt: skip
        service.told(status)
        self.transport.write(b"".join(pieces))
        self._answered()

    def start(self, status: int, kind: bytes, fields: bytes = b"", length: int = -1) -> None:
        """The head of an answer that comes in pieces; it goes out with the first of them.

        Args:
            length: bytes of all pieces, -1 = not known.
        """
        self.is_framed = length < 0 and self._chunks
        self._keep_alive &= (length >= 0 or self._chunks) and not self._service.is_draining
        framing = b"Transfer-Encoding: chunked\r\n" if self.is_framed else b""
        if length >= 0:
            framing = b"Content-Length: %d\r\n" % length
        self._service.told(status)
        first = self._first_lines(status)
        self._prefix = b"%bContent-Type: %b\r\n%b%b%b\r\n" % (first, kind, framing, fields, self._stays())

    def send(self, data: bytes, last: bool = False) -> None:
        """A piece, in one write; `last` ends the answer."""
        if self._state == _CLOSED:
            return
        if self.is_framed:
            data = framed(data, last)
        if self._prefix:
            data, self._prefix = self._prefix + data, b""
        if data:
            self.transport.write(data)
        if last:
            self._answered()

    def forward(self, data: bytes) -> None:
        """A piece that is framed as `is_framed` says."""
        if self._prefix:
            data, self._prefix = self._prefix + data, b""
        if self._state != _CLOSED:
            self.transport.write(data)

    def socket(self) -> int:
        """File descriptor that pieces of an answer can be written to, as `forward` does; -1 where that is not possible."""
        transport = self.transport
        is_taken = self._state != _BUSY or self._prefix or transport.get_write_buffer_size()
        if is_taken or transport.is_closing():
            return -1
        found = transport.get_extra_info("socket")
        return -1 if found is None or transport.get_extra_info("sslcontext") is not None else found.fileno()

    def abort(self) -> None:
        """Close without an answer: it cannot be ended correctly, or the client has left."""
        self._gone()
        self.transport.abort()

    def close_if_idle(self) -> None:
        """Close a connection that serves nothing, as the gateway stops."""
        if self._state == _IN_HEAD and not self._rest:
            self.transport.close()

    def _first_lines(self, status: int) -> bytes:
        first = _FIRST_LINES.get(status) or b"HTTP/1.1 %d Unknown\r\n" % status
        return b"%bX-Request-Id: %b\r\n" % (first, self._name.encode("ascii")) if self._name else first

    def _stays(self) -> bytes:
        """Connection header of the answer: an HTTP/1.0 client that asked for keep-alive waits for a confirmation."""
        if not self._keep_alive:
            return b"Connection: close\r\n"
        return b"" if self._chunks else b"Connection: keep-alive\r\n"

    def _answered(self) -> None:
        self.job = None
        now_s, self._unsent = time.monotonic(), _ANY
        if not self._keep_alive or self._service.is_draining:
            self._state = _LINGERING
            self._rest.clear()
            self._pieces.clear()
            if self.transport.can_write_eof():
                self.transport.write_eof()
                self._deadline.set(now_s + _LINGER_S)
            else:
                self.transport.close()
            return
        self._state, self._name = _IN_HEAD, ""
        self._deadline.set(now_s + self._service.limits.idle_s)
        if self._rest:
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        """The request that waited until the previous one was answered."""
        if self._state == _IN_HEAD:
            data = bytes(self._rest)
            self._rest.clear()
            self.data_received(data)
