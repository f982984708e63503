"""What a gateway asks its engines for by itself: health, models, version."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from evenstep.errors import EngineError
from evenstep.gateway.connections.question import Question
from evenstep.gateway.serve.backend import Backend

_MOST = 4 << 20


class _Version(msgspec.Struct):
    version: str


async def learn_version(backend: Backend, patience_s: float) -> None:
    """Ask an engine for its version, if its dialect depends on it, and have `backend` speak that dialect.

    Without a valid answer within `patience_s` seconds, the backend is unchanged: it assumes the newest known version.
    """
    if not backend.wants_version:
        return
    status, body = await fetch(backend, "/version", patience_s)
    if status == 200:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            backend.speaks(msgspec.json.decode(body, type=_Version).version)


async def fetch(backend: Backend, path: str, patience_s: float) -> tuple[int, bytes]:
    """Status and body of a GET request; ``(0, b"")`` if no whole answer of up to 4 MiB comes within `patience_s` seconds."""
    question = Question(backend.endpoint, backend.head("GET", path, "", 0), patience_s, _MOST)
    try:
        return await asyncio.wait_for(question.answer(), patience_s)
    except (EngineError, TimeoutError):
        return 0, b""
