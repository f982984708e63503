"""An engine's address with its connections; an idle one is reused before another is opened."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from contextlib import suppress
from urllib.parse import urlsplit

from evenstep.gateway.config.config import Engines
from evenstep.gateway.connections.engine import EngineConnection, Leg
from evenstep.http.heads import response_heads
from evenstep.sockets import in_url

#: Bytes the system may buffer of an engine's output and of a client's unread answer. Its own default is megabytes for
#: each stream that is read slowly.
KEPT_BY_THE_SYSTEM = 256 * 1024


class Endpoint:
    """One engine's address, and the connections to it.

    Args:
        url: http://host:port or https://host:port, with a path where the engine has one.
        settings: how engines are spoken to.
        loop: the loop.
        tls: for https; None = trust the system's authorities.

    Attributes:
        authority: host:port, for the Host header.
        base: path in front of every target.
        heads: parses the heads of its answers.
        restarts: what an engine here answered from the start where it should continue: chats (True), completions (False).
        connections: those that are open, busy or idle; a connection adds itself.
    """

    def __init__(
        self, url: str, settings: Engines, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None = None
    ) -> None:
        parts = urlsplit(url)
        is_tls = parts.scheme == "https"
        self.settings, self.loop = settings, loop
        self._host, self._port = parts.hostname or "", parts.port or (443 if is_tls else 80)
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
        """Send a request on a kept connection, or on a new one. Returns whether it is a kept one.

        A kept one may be stale: the engine may have closed it already.

        Args:
            leg: takes the answer, after this call has returned; its `is_off` becomes False.
            data: head and body.
            patience_s: first deadline of the answer, in seconds from the sending; the leg moves it as the engine shows
                life.
        """
        leg.is_off = False
        if not self._idle:
            self.send_fresh(leg, data, patience_s)
            return False
        self._idle.pop().send(leg, data, patience_s)
        return True

    def send_fresh(self, leg: Leg, data: tuple[bytes, bytes], patience_s: float) -> None:
        """As `send`, on a fresh connection, opened later.

        If no connection is made within ``Engines.connect_s``, the leg breaks as ``connect``.
        """
        task = self.loop.create_task(self._open(leg, data, patience_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _open(self, leg: Leg, data: tuple[bytes, bytes], patience_s: float) -> None:
        try:
            async with asyncio.timeout(None) as patience:
                timer = self._half_way(patience)
                try:
                    transport, made = await self.loop.create_connection(
                        lambda: EngineConnection(self),
                        self._host,
                        self._port,
                        ssl=self._tls,
                        server_hostname=self._host if self._tls else None,
                    )
                finally:
                    timer.cancel()
        except (OSError, TimeoutError) as error:
            if not leg.is_off:
                leg.broke("connect", f"it cannot be reached: {type(error).__name__}")
            return
        sock = transport.get_extra_info("socket")
        if sock is not None:
            with suppress(OSError):  # the engine is gone already
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, KEPT_BY_THE_SYSTEM)
        if made.is_closed:  # between the call of the loop and this one; nothing would come of it any more
            if not leg.is_off:
                leg.broke("connect", "it closed the connection before it was asked")
        elif leg.is_off:
            self.keep(made, time.monotonic())
        else:
            made.send(leg, data, patience_s)

    def _half_way(self, patience: asyncio.Timeout) -> asyncio.TimerHandle:
        """Limit the wait for a connection, in two halves. If the loop itself was held up in the first half, the second half
        handles what arrived meanwhile, before the engine is blamed.
        """
        half_s = self.settings.connect_s / 2
        return self.loop.call_later(half_s, lambda: patience.reschedule(self.loop.time() + half_s))

    def keep(self, connection: EngineConnection, now_s: float) -> None:
        """Keep a connection that has become idle, for the next request; close it if ``Engines.connections`` are kept or
        after `retire`.

        It is closed when nothing was sent on it for ``Engines.idle_s``.

        Args:
            now_s: seconds of `time.monotonic`.
        """
        if self._is_retired or len(self._idle) >= self.settings.connections:
            connection.close()
            return
        self._idle.append(connection)
        connection.deadline.set(now_s + self.settings.idle_s)

    def forget(self, connection: EngineConnection) -> None:
        """Drop a connection that was closed from `connections` and from those kept."""
        self.connections.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def retire(self) -> bool:
        """Close idle connections now, and each other one when its answer has ended. Returns whether any is left."""
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
