"""Hosts the client's side of HTTP for calls to engines: their addresses, sockets and deadlines, and connections to reuse.

Rules of this file. `http.client` reads the answers and says whether a connection may carry another request; unexpected bytes
close it. If a connection that was idle for a while breaks within a second of sending, before its first byte, the engine had
closed it. The request is then sent once more to the same engine, on a new connection (RFC 9112 section 9.3.1). A connection
used a moment ago that ends at once may have been closed, too: its request fails as ``stale``. Redirects are ordinary answers
and are not followed here.
"""

from __future__ import annotations

import asyncio
import errno
import math
import socket
import ssl
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Protocol, cast
from urllib.parse import urlsplit

from evenstep.dispatch.events import Kind
from evenstep.gateway.config.sections import Engines
from evenstep.gateway.connections.deadline import NEVER, Deadline
from evenstep.http.client import ClientSide, Piece
from evenstep.http.head import ResponseHead
from evenstep.http.heads import response_heads
from evenstep.sockets import in_url, is_address

_STALE_S = 1.0  # a used connection that was idle for longer and closes within this time was stale
_DRAIN_S = 1.0  # longest wait for the end of a body whose stream is complete
_OURS = (errno.EMFILE, errno.ENFILE)  # this process, or its machine, has too many open files: no engine is at fault
_UNHEARD: int | None = getattr(socket, "TCP_USER_TIMEOUT", None)  # for sent data that is not acknowledged; Linux has it
_UNHEARD_S = 10.0  # a host that acknowledges nothing of a request for so long is gone; a busy engine's system still does
_LARGE = 65536  # a body from this size on may not fit what the engine's system keeps for it
_GONE = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH)
_AT_ONCE: int | None = getattr(socket, "TCP_QUICKACK", None)  # acknowledge every read at once; Linux has it
#: Bytes the system may buffer of an engine's output and of a client's unread answer. Its own default is megabytes for
#: each stream that is read slowly.
KEPT_BY_THE_SYSTEM = 256 * 1024


class Leg(Protocol):
    """One call to an engine, as its connection sees it.

    If one read brings a whole answer with a body, only `at_once` is called, if the leg has it. Otherwise `head` is
    called once the answer begins, then `chunks` and `body` for each piece, and at last either `ended` or `broke`. After
    `cancel` or `EngineConnection.let_go`, nothing is called.

    Attributes:
        connection: set by the connection while it works for the leg; else None.
        is_off: its answer is no longer wanted.
        is_head: it is a HEAD request.
        at_once: called with head and body if one read brings a whole answer; the connection is released by then. None = such
            an answer goes to `head`, `body` and `ended`, as any other.
        head: called when the answer begins; `length` bytes follow, or `CHUNKED` or `UNTIL_CLOSED`.
        chunks: called with bytes that begin a chunk: handle whole HTTP chunks, and return the bytes that are left. The
            connection unframes these and passes them to `body`; to return `data` unchanged is always right.
        body: called with bytes of the answer's body, without chunk framing.
        ended: called when the body ended correctly, after the connection was released (`connection` is None by then).
        broke: called when no connection could be made, or the answer broke off before its end. Its `kind` is ``connect``: no
            connection; ``unable``: none, and the engine is not at fault, as this process may open no more files; ``status``:
            an invalid head; ``stall``: the deadline passed; ``stale``: ended at once on a reused
            connection, so the engine may not have seen it; ``stream``: any other break. Its `why` is a clause for the log.
    """

    connection: EngineConnection | None
    is_off: bool
    is_head: bool

    @property
    def at_once(self) -> Callable[[ResponseHead, bytes], None] | None: ...
    def head(self, head: ResponseHead, length: int) -> None: ...
    def chunks(self, data: bytes) -> bytes: ...
    def body(self, data: bytes) -> None: ...
    def ended(self) -> None: ...
    def broke(self, kind: Kind, why: str) -> None: ...


def cancel(leg: Leg) -> None:
    """Cancel a call whose answer is no longer wanted: close its connection, so that the engine stops. Sets `Leg.is_off`."""
    leg.is_off = True
    if leg.connection is not None:
        leg.connection.close()


class Endpoint:
    """One engine's address, and the connections to it.

    Args:
        url: http://host:port or https://host:port, with a path where the engine has one.
        settings: timeouts and number of connections.
        loop: the event loop.
        tls: for https; None = trust the system's authorities.

    Attributes:
        authority: host:port, for the Host header.
        base: path in front of every target.
        heads: parses the heads of its answers.
        restarts: kinds of request that an engine here restarted instead of continued: chats (True), completions (False).
        connections: those that are open, busy or idle; a connection adds itself.
    """

    def __init__(
        self, url: str, settings: Engines, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None = None
    ) -> None:
        parts = urlsplit(url)
        is_tls = parts.scheme == "https"
        self.settings, self.loop = settings, loop
        self._host, self._port = parts.hostname or "", parts.port or (443 if is_tls else 80)
        self._is_name = not is_address(self._host)
        self._looking: asyncio.Task[dict[str, None]] | None = None  # the look-up of the host that is under way
        self._doubtful: set[str] = set()  # addresses of the host that did not answer in time, or not as TLS asks
        self._tls = (tls or ssl.create_default_context()) if is_tls else None
        self.authority = f"{in_url(self._host)}:{self._port}"
        self.base = parts.path.rstrip("/")
        self.heads = response_heads()
        self.connections: set[EngineConnection] = set()
        self._idle: list[EngineConnection] = []
        self._is_retired = False
        self.restarts: set[bool] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, leg: Leg, data: tuple[bytes, bytes], patience_s: float) -> bool:
        """Send a request on an idle connection, else on a new one. Returns True for an idle one: it may be closed already.

        Args:
            leg: takes the answer, after this call has returned; its `is_off` becomes False.
            data: head and body.
            patience_s: first deadline of the answer, in seconds from the sending; the leg moves it when the engine shows
                life.
        """
        leg.is_off = False
        if not self._idle:
            self.send_fresh(leg, data, patience_s)
            return False
        self._idle.pop().send(leg, data, patience_s)
        return True

    def send_fresh(self, leg: Leg, data: tuple[bytes, bytes], patience_s: float) -> None:
        """Send a request on a new connection, opened in the background. Arguments as in `send`; `is_off` stays as it is.

        If no connection is made within ``Engines.connect_s``, calls `Leg.broke` with ``connect``; with ``unable`` if this
        process may open no more files.
        """
        task = self.loop.create_task(self._open(leg, data, patience_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _open(self, leg: Leg, data: tuple[bytes, bytes], patience_s: float) -> None:
        """Open a connection and send the request on it, or break the leg; keep the connection if the leg was cancelled."""
        untrusted: list[ssl.SSLError] = []
        try:
            async with _within(self.settings.connect_s):
                transport, made = await self._connected(untrusted)
        except Exception as error:  # of any kind: a leg that is told nothing waits for ever
            if not leg.is_off:
                leg.broke(*_told([*untrusted, error][0]))
            if isinstance(error, (OSError, ValueError, RuntimeError)):  # ValueError: an invalid host name
                return
            raise  # a bug, which the loop logs
        sock = transport.get_extra_info("socket")
        if sock is not None:
            with suppress(OSError):  # the engine is gone already
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, KEPT_BY_THE_SYSTEM)
        if made.is_closed:  # closed since the loop made it: no callback would follow
            if not leg.is_off:
                leg.broke("connect", "it closed the connection before it was asked")
        elif leg.is_off:
            self.keep(made, time.monotonic())
        else:
            made.send(leg, data, patience_s)

    async def _connected(self, untrusted: list[ssl.SSLError]) -> tuple[asyncio.Transport, EngineConnection]:
        """Connect to the first address of the host that takes the connection; those that failed an earlier one come last.

        The first has half of ``Engines.connect_s``, each further one half of the time of the one before, the last all that
        is left. The TLS errors of addresses before the last are added to `untrusted`. If all fail, they say the most: an
        engine is there, and this is why it cannot be asked.
        """
        hosts = [self._host]
        if self._is_name:
            hosts = sorted(await self._addresses(), key=self._doubtful.__contains__)
        part_s = self.settings.connect_s
        for host in hosts[:-1]:
            part_s /= 2
            try:
                async with _within(part_s):
                    return await self._connect(host)
            except (TimeoutError, ssl.SSLError) as error:
                self._doubtful.add(host)
                if isinstance(error, ssl.SSLError):
                    untrusted.append(error)
            except OSError:
                continue
        return await self._connect(hosts[-1])

    async def _addresses(self) -> dict[str, None]:
        """The host's addresses, as keys; one look-up at a time is for all connections that wait for it.

        The loop has a few threads for look-ups. With one for each connection of a burst, most would come too late.
        """
        if self._looking is None:
            self._looking = self.loop.create_task(self._look_up())
            self._looking.add_done_callback(self._looked)
        return await asyncio.shield(self._looking)

    async def _look_up(self) -> dict[str, None]:
        """Look up the host's addresses; one of a single link (fe80::1) is followed by % and the number of that link.

        An address that the host no longer has is as new if it comes back.
        """
        found = await self.loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        hosts = dict.fromkeys(f"{at[0]}%{at[3]}" if len(at) > 3 and at[3] else str(at[0]) for *_, at in found)
        self._doubtful.intersection_update(hosts)
        return hosts

    def _looked(self, looking: asyncio.Task[dict[str, None]]) -> None:
        """The look-up is over: forget it, and take its error if no connection waits for it any more."""
        self._looking = None
        if not looking.cancelled():
            looking.exception()

    async def _connect(self, host: str) -> tuple[asyncio.Transport, EngineConnection]:
        """Connect to an address of the host."""
        name = self._host if self._tls else None
        found = await self.loop.create_connection(
            lambda: EngineConnection(self), host, self._port, ssl=self._tls, server_hostname=name
        )
        self._doubtful.discard(host)
        return found

    def keep(self, connection: EngineConnection, now_s: float) -> None:
        """Keep an idle connection for the next request; close it after `retire` or beyond ``Engines.connections``.

        It is closed when nothing was sent on it for ``Engines.idle_s``. `now_s` is in seconds of `time.monotonic`.
        """
        if self._is_retired or len(self._idle) >= self.settings.connections:
            connection.close()
            return
        self._idle.append(connection)
        connection.idle_s = now_s
        connection.deadline.set(now_s + self.settings.idle_s)

    def renew(self, tls: ssl.SSLContext) -> None:
        """Use another TLS context for new connections, if it has https; those that are open stay as they are."""
        if self._tls is not None:
            self._tls = tls

    def forget(self, connection: EngineConnection) -> None:
        """Remove a closed connection from `connections` and from the idle ones."""
        self.connections.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def retire(self) -> bool:
        """Close idle connections now, and the others when their answers have ended. True if any is left or being opened."""
        self._is_retired = True
        for connection in list(self._idle):
            connection.close()
        return bool(self.connections or self._tasks)

    def close(self) -> None:
        """Close every connection, and those being opened; their legs are not told."""
        for task in list(self._tasks):
            task.cancel()
        for connection in list(self.connections):
            connection.close()


@asynccontextmanager
async def _within(limit_s: float) -> AsyncGenerator[None]:
    """Raise TimeoutError if the block takes longer than `limit_s` seconds.

    There are two timers of half that time. If the loop itself was held up until the first, it handles what arrived meanwhile
    until the second, before an engine is blamed.
    """
    loop, half_s = asyncio.get_running_loop(), limit_s / 2
    async with asyncio.timeout(None) as patience:
        timer = loop.call_later(half_s, lambda: patience.reschedule(loop.time() + half_s))
        try:
            yield
        finally:
            timer.cancel()


def _told(error: Exception) -> tuple[Kind, str]:
    """Kind and reason, as of `Leg.broke`, for a connection that could not be made because of `error`."""
    ours = _without_files(error)
    if ours:
        return "unable", f"this gateway can open no connection to it: {ours}"
    more = f", {error.verify_message.rstrip('.')}" if isinstance(error, ssl.SSLCertVerificationError) else ""
    return "connect", f"it cannot be reached: {type(error).__name__}{more}"


def _without_files(error: Exception) -> str:
    """What the system says if this process may open no more files now, or could not at `error`; empty if it may.

    A resolver that may open none raises errors of many kinds, as if the name were unknown; uvloop's a RuntimeError, too.
    """
    try:
        socket.socket().close()
    except OSError as now:
        error = now
    return str(error.strerror) if isinstance(error, OSError) and error.errno in _OURS else ""


def _is_cut(transport: asyncio.Transport) -> bool:
    """Whether TLS ended without its closing alert: a body without a length may lack its end then (RFC 9112 section 9.8).

    So it does if bytes are left that the loop will not deliver: uvloop drops them if the end comes during `pause`.
    """
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    if tls is None:
        return False
    try:
        return tls.read(1) != b""
    except ssl.SSLWantReadError:
        return True
    except ssl.SSLError:  # SSLZeroReturnError: the alert came
        return False


class EngineConnection(asyncio.Protocol):
    """One connection to the engine at `endpoint`; it carries one call at a time.

    Attributes:
        deadline: time at which the call fails as ``stall``, or an idle connection closes; a leg moves it when the engine
            shows life.
        idle_s: when it was last kept for the next request, in seconds of `time.monotonic`; inf = never.
        is_closed: nothing may be sent on it any more.
    """

    __slots__ = (
        *("_data", "_endpoint", "_is_large", "_is_old", "_is_paused", "_leg", "_machine", "_patience_s"),
        *("_sent_s", "_transport"),
        *("deadline", "idle_s", "is_closed"),
    )

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._machine = ClientSide(endpoint.heads)
        self._transport = cast(asyncio.Transport, None)
        self._leg: Leg | None = None
        self.is_closed = self._is_old = self._is_paused = False
        self._is_large: bool | None = None  # the body that was sent last is large; None = nothing was sent yet
        self.idle_s = math.inf
        self._data: tuple[bytes, bytes] | None = None  # the request, until its answer begins
        self._sent_s = self._patience_s = 0.0
        self.deadline = Deadline(endpoint.loop, lambda: self._break("stall", "it was silent for too long"))

    # --- called by a leg ----------------------------------------------------------------------------------------

    def send(self, leg: Leg, data: tuple[bytes, bytes], patience_s: float) -> None:
        """Send a request on this connection, which is open and has no leg, and set `Leg.connection`.

        `data` are head and body. The call fails `patience_s` seconds from now, unless the leg has moved `deadline`.
        """
        self._leg, leg.connection, self._data = leg, self, data
        self._machine.ask(leg.is_head)
        now_s = time.monotonic()
        self._is_old, self._sent_s, self._patience_s = now_s - self.idle_s > _STALE_S, now_s, patience_s
        self.deadline.set(now_s + patience_s)
        head, body = data
        is_large = len(body) >= _LARGE
        if is_large is not self._is_large:
            self._is_large = is_large
            self._limit_unheard(0.0 if is_large else _UNHEARD_S)
        if is_large:
            self._transport.writelines(data)
        else:
            self._transport.write(head + body)

    def _limit_unheard(self, limit_s: float) -> None:
        """Limit how long sent data may stay unacknowledged, in seconds; 0 = no limit.

        A large body has no limit: what a busy engine leaves unread of it counts as unacknowledged.
        """
        sock = self._transport.get_extra_info("socket")
        if _UNHEARD is not None and sock is not None:
            with suppress(OSError):  # the engine is gone already
                sock.setsockopt(socket.IPPROTO_TCP, _UNHEARD, round(1000 * limit_s))

    def pause(self) -> None:
        """Stop reading for now, because the client does not keep up; there is no deadline until `resume`."""
        if not self._is_paused and not self.is_closed:
            self._is_paused = True
            self._transport.pause_reading()
            self.deadline.at = NEVER

    def resume(self, until_s: float) -> None:
        """Read again after `pause`, with a new deadline (seconds of `time.monotonic`); without a `pause`, do nothing."""
        if self._is_paused and not self.is_closed:
            self._is_paused = False
            self._transport.resume_reading()
            self.deadline.set(until_s)

    def acknowledge_late(self) -> None:
        """Let the system acknowledge two chunks at a time, if they arrive within 40 ms, which makes reading them cheaper.

        If chunks come later than that, the system returns to single acknowledgements by itself. So this is called for each
        stream.
        """
        sock = self._transport.get_extra_info("socket")
        if _AT_ONCE is not None and sock is not None and not self.is_closed:
            with suppress(OSError):  # the peer is gone
                sock.setsockopt(socket.IPPROTO_TCP, _AT_ONCE, 0)

    def let_go(self) -> None:
        """Release the connection from its leg, which has all it needs and is not called any more.

        If the end of the body comes within a second, and nothing else, a reusable connection is kept; any other is closed.
        """
        until_s = time.monotonic() + _DRAIN_S
        self._drop_leg()
        self.deadline.set(until_s)
        self.resume(until_s)

    def close(self) -> None:
        """Close at once; the engine stops working on the request, and the leg is not told."""
        if not self.is_closed:
            self.is_closed = True
            self._drop_leg()
            self.deadline.end()
            self._endpoint.forget(self)
            self._transport.abort()

    # --- called by the loop -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._endpoint.connections.add(self)

    def data_received(self, data: bytes) -> None:
        framing, leg = self._machine.framing, self._leg
        if framing is not None and framing.is_between and leg is not None:
            data = leg.chunks(data)
            if not data:
                return
        self._data = None
        piece = None if self.is_closed else self._machine.receive(data)
        if piece is not None:
            self._take(piece)

    def eof_received(self) -> None:
        """The engine closed its side: close an idle connection at once; for a busy one, see `connection_lost`."""
        if self._machine.is_idle:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection ended: tell the leg that its answer ended or broke, or send again (see the rules of this file)."""
        if self.is_closed:
            return
        leg, data = self._leg, self._data
        piece = self._machine.end() if exc is None and not _is_cut(self._transport) else None
        is_at_once = data is not None and time.monotonic() - self._sent_s < _STALE_S
        self.close()
        if leg is None:
            return
        if piece is not None and piece.over:
            leg.ended()
        elif is_at_once and self._is_old and data is not None:
            self._endpoint.send_fresh(leg, data, self._patience_s)
        else:
            kind: Kind = "stale" if is_at_once and self.idle_s < math.inf else "stream"
            is_gone = isinstance(exc, OSError) and exc.errno in _GONE
            leg.broke(kind, "its host is gone" if is_gone else "it closed the connection before its answer was complete")

    # --- reading -------------------------------------------------------------------------------------------------

    def _take(self, piece: Piece) -> None:
        """Pass a part of the answer to the leg. Each call of the leg may close the connection."""
        head, body = piece.head, piece.body
        if head is not None:
            leg = self._leg
            assert leg is not None
            if body and piece.over and leg.at_once is not None:
                self._done()
                leg.at_once(head, body)
                return
            leg.head(head, self._machine.length)
            if self.is_closed:
                return
        if body:
            leg = self._leg
            if leg is None:
                self.close()  # bytes after the end of a stream that was let go
                return
            leg.body(body)
            if self.is_closed:
                return
        if piece.over:
            leg = self._leg
            self._done()
            if leg is not None:
                leg.ended()
        elif piece.fault:
            self._break("status" if self._machine.head is None else "stream", piece.fault)

    def _done(self) -> None:
        """The answer ended correctly: release the leg, and keep the connection for the next request, if that is safe."""
        if not self._machine.keeps or self._is_paused or self._transport.is_closing():
            self.close()
        else:
            self._drop_leg()
            self._endpoint.keep(self, time.monotonic())

    def _break(self, kind: Kind, why: str) -> None:
        """Close the connection, and report to the leg that the call failed; `kind` and `why` as in `Leg.broke`."""
        leg = self._leg
        self.close()
        if leg is not None:
            leg.broke(kind, why)

    def _drop_leg(self) -> None:
        """Release the connection from its leg, which is not told."""
        leg, self._leg, self._data = self._leg, None, None
        if leg is not None:
            leg.connection = None
