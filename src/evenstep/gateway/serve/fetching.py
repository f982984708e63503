"""Small questions to engines, outside any client's request: health, models, version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import msgspec

from evenstep.dispatch.events import Kind
from evenstep.gateway.connections.engine import EngineConnection, cancel
from evenstep.gateway.serve.backend import Backend
from evenstep.http.head import ResponseHead

_MOST = 4 << 20


class _Question:
    """A leg that gathers its answer.

    Args:
        answer: of the question.
        ask: ask it on a fresh connection.
    """

    at_once = None

    def __init__(self, answer: asyncio.Future[tuple[int, bytes]], ask: Callable[[_Question], None]) -> None:
        self.connection: EngineConnection | None = None
        self.is_off = self.is_head = False
        self.answer, self._ask, self._status = answer, ask, 0
        self._body = bytearray()

    def head(self, head: ResponseHead, length: int) -> None:
        self._status = head.status

    def chunks(self, data: bytes) -> bytes:
        return data

    def body(self, data: bytes) -> None:
        self._body += data
        if len(self._body) > _MOST and self.connection is not None:
            self.connection.close()
            self.broke("stream", "its answer is too large")

    def ended(self) -> None:
        self._tell(self._status)

    def broke(self, kind: Kind, why: str) -> None:
        if kind == "stale":
            self._ask(self)
        else:
            self._tell(0)

    def _tell(self, status: int) -> None:
        if not self.answer.done():
            self.answer.set_result((status, bytes(self._body)))


class _Version(msgspec.Struct):
    version: str


async def learn_version(backend: Backend, patience_s: float) -> None:
    """Ask an engine for its version, if its dialect depends on it; without an answer, assume the newest known version."""
    if not backend.wants_version:
        return
    status, body = await fetch(backend, "/version", patience_s)
    if status == 200:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            backend.speaks(msgspec.json.decode(body, type=_Version).version)


async def fetch(backend: Backend, path: str, patience_s: float) -> tuple[int, bytes]:
    """Status and body of a GET request; status 0 if no answer comes within `patience_s` seconds."""
    endpoint = backend.endpoint
    data = backend.head("GET", path, "", 0), b""
    question = _Question(endpoint.loop.create_future(), lambda asked: endpoint.send_fresh(asked, data, patience_s))
    endpoint.send(question, data, patience_s)
    try:
        return await asyncio.wait_for(question.answer, patience_s)
    except TimeoutError:
        return 0, b""
    finally:
        cancel(question)
