"""Fetches pages repeatedly, by GET over connections that stay open, so that a page costs little."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from evenstep.errors import EngineError
from evenstep.gateway.config.sections import Engines
from evenstep.gateway.connections.engine import Endpoint
from evenstep.gateway.connections.question import Question
from evenstep.gateway.connections.tls import client_context

_LARGEST = 32 << 20
_OK = 200
_NO_PAGE = (404, 405, 501)


class Pages:
    """Fetches pages, each URL over a connection of its own that stays open.

    `engines` gives timeouts and TLS. Raises InputError if the file of ``engines.ca`` is unreadable or empty.
    """

    def __init__(self, engines: Engines) -> None:
        self._engines, self._tls = engines, client_context(engines)
        self._endpoints: dict[str, Endpoint] = {}

    async def read(self, url: str, bearer: str = "") -> bytes:
        """Fetch a page by GET, however long that takes; cancelling the wait closes its connection.

        Args:
            url: http or https, with path and query.
            bearer: bearer token for the head; empty = no token.

        Returns:
            The body, at most 32 MiB.

        Raises:
            NoPageError: the status is 404, 405 or 501.
            EngineError: no connection, another status than 200, invalid HTTP, a page that is too large or cut off.
        """
        parts = urlsplit(url)
        endpoint = self._endpoints.get(url)
        if endpoint is None:
            origin = f"{parts.scheme}://{parts.netloc}"
            endpoint = Endpoint(origin, self._engines, asyncio.get_running_loop(), self._tls)
            self._endpoints[url] = endpoint
        key = f"Authorization: Bearer {bearer}\r\n" if bearer else ""
        path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        head = f"GET {path} HTTP/1.1\r\nHost: {endpoint.authority}\r\n{key}Accept: */*\r\n\r\n".encode("latin-1")
        try:
            status, page = await Question(endpoint, head, _LARGEST).answer()
        except EngineError as error:
            raise EngineError(f"metrics page: {error}.") from None
        if status != _OK:
            kind = NoPageError if status in _NO_PAGE else EngineError
            raise kind(f"metrics page: status is {status}; expected {_OK}.")
        return page

    def forget(self, url: str) -> None:
        """Close the connection of a page; an unknown URL is ignored. A `read` of it that still runs would never return."""
        endpoint = self._endpoints.pop(url, None)
        if endpoint is not None:
            endpoint.close()

    def close(self) -> None:
        """Close every connection, as by `forget`."""
        for url in list(self._endpoints):
            self.forget(url)


class NoPageError(EngineError):
    """The server answers, but has no such page: status 404, 405 or 501."""
