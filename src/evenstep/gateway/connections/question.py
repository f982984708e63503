"""GET requests of the gateway's own to engines: health, models, version, metrics."""

from __future__ import annotations

import math

from evenstep.dispatch.events import Kind
from evenstep.errors import EngineError
from evenstep.gateway.connections.engine import Endpoint, EngineConnection, cancel
from evenstep.http.head import ResponseHead


class Question:
    """A GET request, sent when it is made, that gathers its answer; await `answer`.

    If it went out on an idle connection that closes before any answer, it is sent once more on a new one. `head` is the
    request's, to its empty line; `most` is the largest answer in bytes.
    """

    at_once = None

    def __init__(self, endpoint: Endpoint, head: bytes, most: int) -> None:
        self.connection: EngineConnection | None = None
        self.is_off = self.is_head = False
        self._endpoint, self._data, self._most = endpoint, (head, b""), most
        self._status, self._body = 0, bytearray()
        self._answer = endpoint.loop.create_future()
        self._is_kept = endpoint.send(self, self._data, math.inf)

    async def answer(self) -> tuple[int, bytes]:
        """Await status, of any value, and body, with no time limit; cancelling closes the connection. Call it once.

        Raises EngineError for no connection, invalid HTTP, or an answer that is too large or cut off.
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
            self._body.clear()
            cancel(self)
            self._fail(f"its answer has over {self._most} bytes")

    def ended(self) -> None:
        if not self._answer.done():
            self._answer.set_result((self._status, bytes(self._body)))

    def broke(self, kind: Kind, why: str) -> None:
        if self._is_kept and kind in ("stale", "stream") and not self._status:
            self._is_kept = False
            self._endpoint.send_fresh(self, self._data, math.inf)
        else:
            self._fail(why)

    def _fail(self, why: str) -> None:
        if not self._answer.done():
            self._answer.set_exception(EngineError(why))
