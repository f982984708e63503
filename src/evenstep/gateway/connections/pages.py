"""GET requests of the gateway's own to engines: health, models, version, and metrics over connections that stay open."""

from __future__ import annotations

import asyncio
import math
import ssl
from urllib.parse import urlsplit

from evenstep.dispatch.events import Kind
from evenstep.errors import EngineError
from evenstep.gateway.config.sections import Engines
from evenstep.gateway.connections.engine import Endpoint, EngineConnection, cancel
from evenstep.gateway.connections.tls import client_context
from evenstep.http.head import ResponseHead

_LARGEST = 32 << 20
_OK = 200
_NO_PAGE = (404, 405, 501)


class Question:
    """A GET request, sent when it is made, that gathers its answer; await `answer`.

    If it went out on an idle connection that closes before any answer, it is sent again on a new one. `head` is the
    request's, to its empty line; `most` is the largest answer in bytes, and `patience_s` the longest wait for its end, in
    seconds from each sending.
    """

    at_once = None

    def __init__(self, endpoint: Endpoint, head: bytes, most: int, patience_s: float = math.inf) -> None:
        self.connection: EngineConnection | None = None
        self.is_off = self.is_head = False
        self._endpoint, self._data, self._most, self._patience_s = endpoint, (head, b""), most, patience_s
        self._status, self._body = 0, bytearray()
        self._answer = endpoint.loop.create_future()
        self._is_kept = endpoint.send(self, self._data, patience_s)

    async def answer(self) -> tuple[int, bytes]:
        """Await status, of any value, and body; cancelling closes the connection. Call it once.

        Raises EngineError for no connection, invalid HTTP, or an answer that is too large, late or cut off.
        """
        try:
            return await self._answer
        finally:
            cancel(self)

    def head(self, head: ResponseHead, length: int) -> None:
        self._status = head.status

    def chunks(self, data: bytes) -> bytes:
        return data

    def body(self, data: bytes) -> None:
        self._body += data
        if len(self._body) > self._most:
            self._fail(f"its answer has over {self._most} bytes")

    def ended(self) -> None:
        if not self._answer.done():
            self._answer.set_result((self._status, bytes(self._body)))

    def broke(self, kind: Kind, why: str) -> None:
        if self._is_kept and kind in ("stale", "stream") and not self._status:
            self._is_kept = False
            self._endpoint.send_fresh(self, self._data, self._patience_s)
        else:
            self._fail(why)

    def _fail(self, why: str) -> None:
        if not self._answer.done():
            self._answer.set_exception(EngineError(why))


class Pages:
    """Fetches pages repeatedly, each URL over a connection of its own that stays open, so that a page costs little.

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

    def renew(self, tls: ssl.SSLContext) -> None:
        """Use another TLS context for new connections."""
        self._tls = tls
        for endpoint in self._endpoints.values():
            endpoint.renew(tls)

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
