"""The client of one server: opens connections on demand, and reuses idle ones."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from contextlib import suppress
from functools import partial

from evenstep.http.heads import response_heads
from evenstep.load.connection import Call, Connection
from evenstep.load.settings import Target

_KEEP_S = 2.0
_TRY_S = 3.0  # for one address to accept a connection


class Client:
    """Sends POST requests to one server. Create it in a running event loop; await `resolve` first, and `close` last.

    Args:
        path: path of every request, appended to the target's `base`.
        headers: further header fields of every request.
        timeout_s: most seconds from the start of a request to the end of its answer.

    Attributes:
        connections: number of connections made so far.
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
        self.connections = 0

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
        """Forget a connection that has closed."""
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
        self.connections += 1
        self._open.add(connection)
        if call.is_over:  # its time-out passed meanwhile
            connection.drop()
        else:
            connection.send(call)
