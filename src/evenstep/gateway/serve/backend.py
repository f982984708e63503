"""One worker in the data path: its endpoint, its dialect, the heads of requests to it, and GET requests of the gateway.

Each head is built from the worker's description and a few of the client's fields. No other client header reaches an engine,
so a client cannot choose a rank.
"""

from __future__ import annotations

import logging
import math
from contextlib import suppress
from dataclasses import replace

import msgspec

from evenstep.engines.streams.template_cache import TemplateCache
from evenstep.engines.view import Dialect, EngineAdapter
from evenstep.errors import EngineError
from evenstep.gateway.config.worker import Worker, adapter_of
from evenstep.gateway.connections.engine import Endpoint
from evenstep.gateway.connections.pages import Question

_log = logging.getLogger("evenstep.gateway")
_PATHS = {True: "/v1/chat/completions", False: "/v1/completions"}
_MOST_FETCHED = 4 << 20
_ABOUT_KEYS = {401, 403}


class _Version(msgspec.Struct):
    version: str


class Backend:
    """A worker, as `Worker.each` returns it, and its endpoint. Raises InputError for an unknown engine or option.

    Args:
        endpoint: connections to the worker's URL; ranks with the same URL share it.
        api_key: sent as the bearer token; empty = no token is sent.

    Attributes:
        fingerprint: ``system_fingerprint`` of its chunks as JSON, once known; else empty.
        templates: the usual form of its streams, learned from them.
        passing: number of running requests that are not generations; `ProxiedRequest` counts it up and down.
        serves: names of the models it serves, as the config or its ``/v1/models`` says.
        denied: names in `serves` that the engine refused as unknown; a health check that finds all listed clears it.
        denied_s: monotonic time, in seconds, of the last addition to `denied`; -inf = never.
        answers: kinds of request that it has answered: chats (True), completions (False).
        was_stale: a kept connection ended without a byte of a generation (``stale``): the next one goes on a new connection,
            whose failure counts.
    """

    def __init__(self, worker: Worker, endpoint: Endpoint, api_key: str = "") -> None:
        self.worker, self.endpoint = worker, endpoint
        self.name = worker.name
        self.adapter: EngineAdapter = adapter_of(worker.engine)
        self.dialect: Dialect = self.adapter.dialect
        self.fingerprint, self.templates = b"", TemplateCache()
        self.passing, self.denied_s, self.was_stale = 0, -math.inf, False
        self.serves, self.denied, self.answers = frozenset[str](), set[str](), set[bool]()
        self.api_key = api_key
        fields = f"Host: {endpoint.authority}\r\n"
        if worker.rank is not None and self.adapter.rank_header:
            fields += f"{self.adapter.rank_header}: {worker.rank}\r\n"
        if api_key:
            fields += f"Authorization: Bearer {api_key}\r\n"
        self._fields = fields.encode("latin-1")
        self._generation = {
            chat: self._line("POST", path) + b"Content-Type: application/json\r\n" for chat, path in _PATHS.items()
        }

    @property
    def continuing(self) -> Dialect:
        """The dialect for continuing a broken answer here: `dialect` without what `cannot_continue` ruled out."""
        restarts, dialect = self.endpoint.restarts, self.dialect
        if not restarts:
            return dialect
        chats = dialect.chat_from_ids and True not in restarts
        return replace(dialect, chat_from_ids=chats, completions_go_on=False not in restarts)

    def cannot_continue(self, chat: bool) -> None:
        """Note that the engine restarted a chat (True) or completion (False) that it should continue; log the first of each.

        No worker of this endpoint is asked to continue a chat, or a completion, from then on.
        """
        if chat not in self.endpoint.restarts:
            self.endpoint.restarts.add(chat)
            text = "%s answers from the start where a %s is to go on; broken ones go on elsewhere, or end with an error"
            _log.warning(text, self.name, "chat" if chat else "completion", extra={"worker": self.name})

    def refuses_our_key(self, status: int, credentials: bytes | None) -> bool:
        """Whether an answer's status is about a key, and the client could not have given it.

        `credentials`: as in `generation_head`. A client whose key would be passed on is at fault, also if it sent none.
        """
        return status in _ABOUT_KEYS and (bool(self.api_key) or credentials is None)

    async def learn_version(self, patience_s: float) -> bool:
        """Ask the engine for its version, if the dialect depends on it and the config does not say it.

        Sets `adapter` and `dialect`. Another version than before may continue what the former one restarted. Without a valid
        answer within `patience_s` seconds, nothing changes; before the first, the newest known version is assumed. Returns
        False if the engine is not well, so that another time it may answer.
        """
        if getattr(adapter_of(self.worker.engine), "version", None) != "":
            return True
        status, body = await self.fetch("/version", patience_s)
        if status == 200:
            with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                version = msgspec.json.decode(body, type=_Version).version
                adapter = replace(self.adapter, version=version)  # type: ignore[type-var]  # adapters are dataclasses
                if adapter != self.adapter:
                    self.adapter, self.dialect = adapter, adapter.dialect
                    self.endpoint.restarts.clear()
        return 0 < status < 500

    async def fetch(self, path: str, patience_s: float) -> tuple[int, bytes]:
        """GET a path; returns status and body.

        ``(0, b"")`` = no connection, or no whole answer of up to 4 MiB within `patience_s` seconds on it.
        """
        try:
            return await Question(self.endpoint, self.head("GET", path, "", 0), _MOST_FETCHED, patience_s).answer()
        except EngineError:
            return 0, b""

    def generation_head(self, chat: bool, name: str, length: int, more: bytes, credentials: bytes | None = None) -> bytes:
        """Head of a generation request, up to its empty line; its Content-Type is JSON.

        Args:
            chat: True for a chat, False for a completion.
            name: the request's id.
            length: bytes of its body.
            more: further header lines, each with its CRLF, as `carried` returns them.
            credentials: the client's Authorization line, empty without one; None = no client's is passed on. A worker with a
                key of its own does not get it.
        """
        parts = self._generation[chat], name.encode("ascii"), more, self._passed(credentials), length
        return b"%bX-Request-Id: %b\r\n%b%bContent-Length: %d\r\n\r\n" % parts

    def head(
        self, method: str, target: str, name: str, length: int, more: bytes = b"", credentials: bytes | None = None
    ) -> bytes:
        """Head of a request that is not a generation, up to its empty line, with the worker's host, rank and key.

        Args:
            method: HTTP method.
            target: path and query, below the base path of the endpoint.
            name: the request's id; empty = no id is sent.
            length: bytes of the body; GET and HEAD without a body get no Content-Length.
            more: further header lines, each with its CRLF.
            credentials: as in `generation_head`.
        """
        named = f"X-Request-Id: {name}\r\n".encode("ascii") if name else b""
        framing = b"Content-Length: %d\r\n" % length if length or method not in ("GET", "HEAD") else b""
        return self._line(method, target) + named + more + self._passed(credentials) + framing + b"\r\n"

    def _passed(self, credentials: bytes | None) -> bytes:
        """The client's Authorization line as this worker gets it, see `generation_head`."""
        return b"" if self.api_key or credentials is None else credentials

    def _line(self, method: str, target: str) -> bytes:
        """The request line, followed by the header lines that all requests to this worker have: host, rank and key."""
        return f"{method} {self.endpoint.base}{target} HTTP/1.1\r\n".encode("latin-1") + self._fields
