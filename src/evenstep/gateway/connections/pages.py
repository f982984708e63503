"""Fetches pages again and again, by GET over connections that stay open.

An idle gateway does little else, so a page must cost little. A page is asked for once. If a kept connection turns out to be
closed, that is not the page's fault: one fresh connection is tried.
"""

from __future__ import annotations

import asyncio
import ssl
from urllib.parse import urlsplit

from evenstep.errors import EngineError
from evenstep.http.client import Client
from evenstep.http.heads import response_heads

_LARGEST = 32 << 20
_OK = 200
_NO_PAGE = (404, 405, 501)


class Pages:
    """Fetches pages, each over its own connection.

    Args:
        tls: context for https servers.
    """

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls, self._heads = tls, response_heads()
        self._kept: dict[str, _Connection] = {}

    async def read(self, url: str, bearer: str = "") -> bytes:
        """Fetch a page; cancelling the wait closes its connection.

        Args:
            bearer: bearer token for the head; empty = none.

        Raises:
            EngineError: another status than 200, invalid HTTP, a page that is too large or cut off.
            OSError: no connection.
        """
        parts = urlsplit(url)
        key = f"Authorization: Bearer {bearer}\r\n" if bearer else ""
        path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        host = parts.netloc.rpartition("@")[2]
        head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{key}Accept: */*\r\n\r\n".encode("latin-1")
        kept = self._kept.pop(url, None)
        if kept is not None and kept.is_open:
            try:
                return await self._ask(url, kept, head)
            except _StaleError:
                pass
        assert parts.hostname is not None  # a worker's address has one
        is_tls = parts.scheme == "https"
        _, fresh = await asyncio.get_running_loop().create_connection(
            lambda: _Connection(Client(self._heads)),
            parts.hostname,
            parts.port or (443 if is_tls else 80),
            ssl=self._tls if is_tls else None,
        )
        return await self._ask(url, fresh, head)

    async def _ask(self, url: str, connection: _Connection, head: bytes) -> bytes:
        try:
            page = await connection.ask(head)
        except BaseException:
            connection.give_up()
            raise
        if connection.is_open:
            self._kept[url] = connection
        return page

    def forget(self, url: str) -> None:
        """Close the connection of a page that is no longer fetched."""
        kept = self._kept.pop(url, None)
        if kept is not None:
            kept.close()

    def close(self) -> None:
        """Close every kept connection."""
        for url in list(self._kept):
            self.forget(url)


class NoPageError(EngineError):
    """The server answers, but has no such page."""


class _StaleError(EngineError):
    """A kept connection was closed before anything of the answer came."""


class _Connection(asyncio.Protocol):
    """One connection: a question, its answer, the next question.

    Args:
        machine: reads what it brings.
    """

    def __init__(self, machine: Client) -> None:
        self._machine = machine
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[bytes] | None = None
        self._page = bytearray()
        self._questions = 0
        self._has_answered = False
        self.is_open = False

    def ask(self, head: bytes) -> asyncio.Future[bytes]:
        """Ask for a page.

        Returns:
            The page, or the reason for its absence, when the answer is complete.
        """
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._has_answered = False
        self._questions += 1
        self._page.clear()
        self._machine.ask()
        self._transport.write(head)
        return self._answer

    def close(self) -> None:
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def give_up(self) -> None:
        """Close, and keep nothing of the page."""
        self.close()
        self._page = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self.is_open = transport, True

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():  # unexpected bytes
            self.close()
            return
        self._has_answered = True
        piece = self._machine.receive(data)
        if piece is None:
            return
        self._page += piece.body
        if len(self._page) > _LARGEST:
            self._fail(EngineError(f"metrics page: size is over {_LARGEST} bytes; expected less."))
        elif piece.over:
            self._complete()
        elif piece.fault:
            self._fail(EngineError(f"metrics page: its answer is not valid HTTP; expected a page. {piece.fault}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        piece = self._machine.end() if exc is None else None
        if self._answer is None or self._answer.done():
            return
        if piece is not None and piece.over:
            self._complete()  # a page without a length ends with its connection
        elif self._questions > 1 and not self._has_answered:
            self._fail(_StaleError("metrics page: its connection was closed."))
        else:
            self._fail(exc or EngineError("metrics page: its connection ended before the page did."))

    def _complete(self) -> None:
        head = self._machine.head
        assert head is not None and self._answer is not None
        if not self._machine.keeps:
            self.close()
        if head.status == _OK:
            self._answer.set_result(bytes(self._page))
        else:
            kind = NoPageError if head.status in _NO_PAGE else EngineError
            self._fail(kind(f"metrics page: status is {head.status}; expected {_OK}."))

    def _fail(self, error: Exception) -> None:
        self.give_up()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
