"""A raw client, and the judge of what it got: complete, an error that says so, or lost without a word."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import httptools
import orjson
from tests.gateway.promises.engine import MODEL, text_of

KEY = "sk-promises"


def body_of(*, chat: bool = False, tokens: int = 8, stream: bool = True, **more: Any) -> bytes:
    """A request's body."""
    prompt: dict[str, Any] = {"messages": [{"role": "user", "content": "say it"}]} if chat else {"prompt": "say it"}
    return orjson.dumps({"model": MODEL, **prompt, "max_tokens": tokens, "stream": stream, **more})


def request(body: bytes, *headers: str, path: str = "/v1/completions") -> bytes:
    """A whole request."""
    lines = [f"POST {path} HTTP/1.1", "Host: gateway", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


def ask(*, chat: bool = False, headers: tuple[str, ...] = (), **more: Any) -> bytes:
    """A generation request."""
    path = "/v1/chat/completions" if chat else "/v1/completions"
    return request(body_of(chat=chat, **more), *headers, path=path)


@dataclass(slots=True)
class Reply:
    """One HTTP answer, as far as it came.

    Attributes:
        whole: its framing ended as it should.
    """

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    whole: bool = False

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    def events(self) -> Iterator[Any]:
        """Data of its events; ``[DONE]`` as that text."""
        for part in self.body.split(b"\n\n"):
            if part.startswith(b"data: "):
                yield "[DONE]" if part == b"data: [DONE]" else orjson.loads(part[6:])

    @property
    def text(self) -> str:
        """What the first choice says."""
        if not self.headers.get("content-type", "").startswith("text/event-stream"):
            choice = self.json["choices"][0]
            return choice["text"] if "text" in choice else choice["message"]["content"]
        found = ""
        for value in self.events():
            for choice in value["choices"] if isinstance(value, dict) and "choices" in value else ():
                if choice["index"] == 0:
                    found += choice["text"] if "text" in choice else choice["delta"].get("content") or ""
        return found


Verdict = Literal["complete", "error", "refused", "silent", "aborted", "wrong"]


def verdict(reply: Reply, tokens: int) -> Verdict:
    """How an answer of so many tokens ended.

    ``complete``: all of it, once, with finish_reason and ``[DONE]``. ``refused``: an error status with an error object. ``error``: a
    stream that says so and ends cleanly. ``silent``: it ends cleanly, is not complete and does not say so.
    ``aborted``: the connection broke. ``wrong``: tokens that are not those of the answer, or an error without a body.
    """
    if reply.status and reply.status != 200:
        with contextlib.suppress(orjson.JSONDecodeError, TypeError, KeyError):
            return "refused" if reply.whole and reply.json["error"]["message"] else "wrong"
        return "wrong"
    if not reply.whole:
        return "aborted"
    try:
        if not reply.headers.get("content-type", "").startswith("text/event-stream"):
            choice = reply.json["choices"][0]
            return "complete" if choice["finish_reason"] and reply.text == text_of(tokens) else "silent"
        events = list(reply.events())
        text = reply.text
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return "silent"
    if not text_of(tokens).startswith(text):
        return "wrong"
    finished = any(c.get("finish_reason") for e in events if isinstance(e, dict) for c in e.get("choices") or ())
    if any(isinstance(e, dict) and e.get("error") for e in events):
        return "wrong" if finished and text == text_of(tokens) else "error"
    return "complete" if finished and events[-1] == "[DONE]" and text == text_of(tokens) else "silent"


class RawClient(asyncio.Protocol):
    """One connection to the gateway: sends any bytes, reads or not, leaves when told."""

    def __init__(self) -> None:
        self.replies: list[Reply] = [Reply()]
        self.received = bytearray()
        self.closed = asyncio.Event()
        self.moved = asyncio.Event()
        self.finished = 0
        self._parser = httptools.HttpResponseParser(self)

    @classmethod
    async def to(cls, port: int) -> RawClient:
        """Connected."""
        loop = asyncio.get_running_loop()
        _, found = await loop.create_connection(cls, "127.0.0.1", port)
        return found

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        reply = self.replies[-1]
        if (
            exc is None
            and reply.status
            and not reply.whole
            and not {"content-length", "transfer-encoding"} & set(reply.headers)
        ):
            reply.whole = True  # a body that ends with its connection
        self.closed.set()
        self.moved.set()

    def data_received(self, data: bytes) -> None:
        self.received += data
        self._parser.feed_data(data)
        self.moved.set()

    def on_header(self, name: bytes, value: bytes) -> None:
        self.replies[-1].headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.replies[-1].status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self.replies[-1].body += body

    def on_message_complete(self) -> None:
        if self.replies[-1].status == 100:
            self.replies[-1] = Reply()
            return
        self.replies[-1].whole = True
        self.finished += 1
        self.replies.append(Reply())

    def send(self, *pieces: bytes) -> RawClient:
        for piece in pieces:
            self.transport.write(piece)
        return self

    async def until(self, true: Any) -> None:
        """Until this holds of what came, or the connection is closed."""
        while not true() and not self.closed.is_set():
            self.moved.clear()
            await self.moved.wait()

    async def reply(self, number: int = 0) -> Reply:
        """That answer, when it has ended or the connection has."""
        await self.until(lambda: self.finished > number)
        return self.replies[number] if number < len(self.replies) else Reply()

    def leave(self) -> None:
        """Close at once."""
        self.transport.abort()


async def answered(port: int, *pieces: bytes) -> Reply:
    """One request on a connection of its own; its answer."""
    client = await RawClient.to(port)
    try:
        return await client.send(*pieces).reply()
    finally:
        client.leave()
