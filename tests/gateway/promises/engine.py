"""A scriptable engine that speaks vLLM's words and breaks any promise it is told to break, byte by byte.

Token number i of every answer is the text `` w<i>`` with id 1000 + i, so that a joined answer shows at once what is missing or
doubled; prompts that hold ids from 1000 on, or end in such words, are continued where they stop. What the next
requests get is a queue shared by a fleet (`Plan`); an empty queue gives good answers.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import httptools
import orjson

MODEL = "tiny"
PROMPT_IDS = [1, 2, 3, 4, 5]
FIRST_ID = 1000
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"

Answer = Callable[["Call"], Awaitable[None]]


def text_of(tokens: int, first: int = 0) -> str:
    """The text of so many tokens."""
    return "".join(f" w{i}" for i in range(first, tokens))


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(value: object) -> bytes:
    """One event with JSON data, as a chunk."""
    return chunk(b"data: " + orjson.dumps(value) + b"\n\n")


class Plan:
    """What the next generation requests of a fleet get, whichever engine they come to; then `otherwise`."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.next: deque[Answer] = deque()
        self.otherwise: Answer = well

    def take(self) -> Answer:
        return self.next.popleft() if self.next else self.otherwise


class Call:
    """One generation request at an engine, and the ways to answer it."""

    def __init__(self, connection: Connection, path: str, headers: list[tuple[str, str]], body: bytes) -> None:
        self.connection, self.engine = connection, connection.engine
        self.path, self.headers, self.body = path, headers, body
        self.asked: dict[str, Any] = orjson.loads(body)
        self.chat = path.endswith("chat/completions")
        self.gone = asyncio.Event()  # the connection is closed
        self.written = 0
        options = self.asked.get("stream_options") or {}
        self.each, self.final = (
            bool(options.get("continuous_usage_stats")),
            bool(options.get("include_usage")),
        )
        self.ids = bool(self.asked.get("return_token_ids"))
        self.choices = int(self.asked.get("n") or 1)
        self.first = self._produced()
        limit = self.asked.get("max_completion_tokens") or self.asked.get("max_tokens")
        self.total = self.first + int(limit if limit is not None else 16)

    def header(self, name: str) -> list[str]:
        """Values of a header, as they came."""
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def _produced(self) -> int:
        """Tokens of the answer that the prompt already holds."""
        handed = (self.asked.get("kv_transfer_params") or {}).get("prompt_token_ids")
        prompt = handed or self.asked.get("prompt") or ""
        if isinstance(prompt, str):
            found = re.search(r" w(\d+)$", prompt)
            return int(found[1]) + 1 if found else 0
        return sum(1 for token in prompt if isinstance(token, int) and token >= FIRST_ID)

    # words

    def event(self, i: int, choice: int = 0) -> bytes:
        """The chunk of token `i`."""
        finish = "length" if i == self.total - 1 else None
        found: dict[str, Any] = {"index": choice, "finish_reason": finish, "logprobs": None}
        found |= {"delta": {"content": f" w{i}"}} if self.chat else {"text": f" w{i}"}
        if self.asked.get("logprobs"):
            found["logprobs"] = {"content": [{"token": f" w{i}", "logprob": -0.5}]}
        found["token_ids"] = [FIRST_ID + i] if self.ids else None
        if not self.chat:
            found["prompt_token_ids"] = self._prompt_ids() if self.ids and i == self.first else None
        value = {**self._head(), "choices": [found]}
        if self.each:
            value["usage"] = self.usage(i + 1 - self.first)
        return event(value)

    def role(self, choice: int = 0) -> bytes:
        """The chunk a chat begins with."""
        found = {
            "index": choice,
            "delta": {"role": "assistant", "content": ""},
            "logprobs": None,
            "finish_reason": None,
        }
        value = {
            **self._head(),
            "choices": [found],
            "prompt_token_ids": self._prompt_ids() if self.ids else None,
        }
        if self.each:
            value["usage"] = self.usage(0)
        return event(value)

    def usage(self, produced: int) -> dict[str, int]:
        prompt = len(PROMPT_IDS) + self.first
        return {"prompt_tokens": prompt, "total_tokens": prompt + produced, "completion_tokens": produced}

    def pieces(self) -> list[bytes]:
        """The whole answer, each write of it."""
        produced = (self.total - self.first) * self.choices
        if not self.asked.get("stream"):
            return [self.whole(produced)]
        found = [STREAM]
        if self.chat:
            found += [self.role(choice) for choice in range(self.choices)]
        found += [self.event(i, choice) for i in range(self.first, self.total) for choice in range(self.choices)]
        if self.final:
            found.append(event({**self._head(), "choices": [], "usage": self.usage(produced)}))
        return [*found, chunk(b"data: [DONE]\n\n"), LAST]

    def whole(self, produced: int) -> bytes:
        """The answer of a request that wants no stream."""
        text = text_of(self.total, self.first)
        choices = []
        for index in range(self.choices):
            found: dict[str, Any] = {"index": index, "finish_reason": "length", "logprobs": None}
            found |= {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
            if self.ids:
                found["token_ids"] = [FIRST_ID + i for i in range(self.first, self.total)]
            choices.append(found)
        value = {**self._head(), "object": "chat.completion" if self.chat else "text_completion"}
        value |= {"choices": choices, "usage": self.usage(produced), "kv_transfer_params": self.handover()}
        return answer_bytes(200, orjson.dumps(value))

    def handover(self) -> dict[str, Any] | None:
        """What a prefiller hands over."""
        asked = self.asked.get("kv_transfer_params") or {}
        if not asked.get("do_remote_decode"):
            return None
        return {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_engine_id": "p",
            "remote_block_ids": [[7]],
        }

    def _head(self) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        return {"id": f"cmpl-{self.engine.name}", "object": kind, "created": 1700000000, "model": MODEL}

    def _prompt_ids(self) -> list[int]:
        return PROMPT_IDS + [FIRST_ID + i for i in range(self.first)]

    # deeds

    async def write(self, *pieces: bytes) -> None:
        """Write, and wait while the other side does not read."""
        for piece in pieces:
            self.connection.transport.write(piece)
            self.written += len(piece)
        await self.connection.writable.wait()

    def close(self) -> None:
        """A clean end of the connection."""
        self.connection.transport.close()

    def reset(self) -> None:
        """An abrupt one."""
        self.connection.transport.abort()


def answer_bytes(status: int, body: bytes, *headers: str, kind: str = "application/json") -> bytes:
    """A whole HTTP answer."""
    lines = [f"HTTP/1.1 {status} Words", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Connection(asyncio.Protocol):
    """One connection to an engine."""

    def __init__(self, engine: HostileEngine) -> None:
        self.engine = engine
        self.parser = httptools.HttpRequestParser(self)
        self.writable = asyncio.Event()
        self.writable.set()
        self.call: Call | None = None
        self.task: asyncio.Task[None] | None = None
        self.requests = 0  # that came on it, those for pages included
        self.on_message_begin()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.engine.connections.append(self)
        if self.engine.rude:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.writable.set()
        if self.call is not None:
            self.call.gone.set()
        if self.task is not None:
            self.task.cancel()
        self.engine.connections.remove(self)

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def data_received(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:  # a probe in another protocol
            self.transport.abort()

    def on_message_begin(self) -> None:
        self.url, self.body, self.headers = b"", b"", []

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.requests += 1
        path = self.url.decode("latin-1").partition("?")[0]
        self.engine.heads.append((path, self.headers))
        if path.endswith("/completions"):
            self.call = call = Call(self, path, self.headers, self.body)
            self.engine.calls.append(call)
            self.engine.plan.calls.append(call)
            self.task = asyncio.get_running_loop().create_task(self._answer(call))
        else:
            self.transport.write(self.engine.page(path))

    async def _answer(self, call: Call) -> None:
        try:
            served = self.engine.serves in ("", call.asked.get("model"))
            await (self.engine.plan.take() if served else no_model)(call)
        finally:
            self.call = None
            if self.transport.is_closing():
                call.gone.set()


class HostileEngine:
    """One engine: its port, what came to it, and its other pages."""

    def __init__(self, name: str, plan: Plan) -> None:
        self.name, self.plan = name, plan
        self.calls: list[Call] = []
        self.heads: list[tuple[str, list[tuple[str, str]]]] = []
        self.connections: list[Connection] = []
        self.rude = False  # closes every connection at once
        self.healthy = True
        self.serves = ""  # another model than the one that all serve
        self.port = 0
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def open_calls(self) -> list[Call]:
        """Requests that are being answered."""
        return [c.call for c in self.connections if c.call is not None]

    async def start(self) -> None:
        """Listen, at the same port as before if there was one."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), "127.0.0.1", self.port, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]

    def kill(self) -> None:
        """As a kill does: every connection breaks, and nobody listens any more."""
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.transport.abort()

    def page(self, path: str) -> bytes:
        """Everything that is no generation."""
        if path == "/health":
            return answer_bytes(200 if self.healthy else 503, b"")
        if path == "/metrics":
            running = len(self.open_calls)
            lines = [
                f'vllm:num_requests_running{{engine="0"}} {running}',
                'vllm:num_requests_waiting{engine="0"} 0',
                'vllm:kv_cache_usage_perc{engine="0"} 0',
                'vllm:cache_config_info{engine="0",num_gpu_blocks="100001",block_size="16"} 1',
            ]
            return answer_bytes(200, "\n".join([*lines, ""]).encode(), kind="text/plain; version=0.0.4")
        if path == "/told":
            told = {"asked": len(self.calls), "written": [call.written for call in self.open_calls]}
            return answer_bytes(200, orjson.dumps(told))
        if path == "/version":
            return answer_bytes(200, b'{"version":"0.32.0"}')
        if path == "/v1/models":
            models = {
                "object": "list",
                "data": [{"id": self.serves or MODEL, "object": "model", "max_model_len": 100000}],
            }
            return answer_bytes(200, orjson.dumps(models))
        return answer_bytes(404, orjson.dumps({"error": {"message": f"no {path}", "type": "NotFoundError", "code": 404}}))


# answers


async def well(call: Call) -> None:
    """As it should be."""
    await call.write(*call.pieces())


async def hang(call: Call) -> None:
    """Not a byte."""
    await call.gone.wait()


async def from_start(call: Call) -> None:
    """As a proxy does that knows nothing of chats that go on: the answer to the messages, from its first token."""
    await (anew if call.chat else well)(call)


async def anew(call: Call) -> None:
    """Answer from the first token, even if the prompt holds a part of the answer."""
    call.total, call.first = call.total - call.first, 0
    await well(call)


def raw(data: bytes, *, close: bool = False, hang: bool = False) -> Answer:
    """These bytes, whatever they are."""

    async def answer(call: Call) -> None:
        await call.write(data)
        if hang:
            await call.gone.wait()
        if close:
            call.close()

    return answer


def status(code: int, body: object = None, *headers: str) -> Answer:
    """An error object, or what is given."""
    value = {"error": {"message": "out of order", "type": "InternalServerError", "code": code}} if body is None else body
    return raw(answer_bytes(code, orjson.dumps(value), *headers))


def cut(at: int, *, reset: bool = False) -> Answer:
    """The good answer up to byte `at` (from its end where negative), then the connection ends."""

    async def answer(call: Call) -> None:
        await call.write(b"".join(call.pieces())[:at])
        (call.reset if reset else call.close)()

    return answer


def after(tokens: int, *then: bytes, end: str = "close") -> Answer:
    """So many tokens, then these bytes, then: close, reset, hang, hold (nothing), or last (a clean end of the body)."""

    async def answer(call: Call) -> None:
        found = [STREAM, *([call.role()] if call.chat else [])]
        found += [call.event(i) for i in range(call.first, min(call.first + tokens, call.total))]
        await call.write(b"".join(found), *then)
        if end == "hang":
            await call.gone.wait()
        elif end == "last":
            await call.write(LAST)
        elif end != "hold":
            (call.reset if end == "reset" else call.close)()

    return answer


def handed_back(tokens: int = 0) -> Answer:
    """So many tokens, then the engine hands the request back, as vllm-ascend does where its memory is full."""

    async def answer(call: Call) -> None:
        said: dict[str, Any] = {"index": 0, "finish_reason": "stop", "stop_reason": "recomputed"}
        if call.asked.get("stream"):
            value = {**call._head(), "choices": [{**said, **({"delta": {}} if call.chat else {"text": ""})}]}
            await after(tokens, event(value), chunk(b"data: [DONE]\n\n"), end="last")(call)
        else:
            said |= {"message": {"role": "assistant", "content": ""}} if call.chat else {"text": ""}
            await call.write(answer_bytes(200, orjson.dumps({**call._head(), "choices": [said]})))

    return answer


async def no_model(call: Call) -> None:
    """As vLLM says that it serves another model."""
    said = f"The model `{call.asked.get('model')}` does not exist."
    await status(404, {"error": {"message": said, "type": "NotFoundError", "param": "model", "code": 404}})(call)


def humming(tokens: int, then: bytes) -> Answer:
    """So many tokens, then these bytes again and again, for as long as somebody listens."""

    async def answer(call: Call) -> None:
        await after(tokens, end="hold")(call)
        while not call.gone.is_set():
            await call.write(then)
            await asyncio.sleep(0.02)

    return answer


def head_then_hang(role: bool = False) -> Answer:
    """The head of a stream, perhaps its role chunk, and then nothing."""

    async def answer(call: Call) -> None:
        await call.write(STREAM, *([call.role()] if role else []))
        await call.gone.wait()

    return answer


def held(release: asyncio.Event, tokens: int = 0) -> Answer:
    """So many tokens, the rest when told."""

    async def answer(call: Call) -> None:
        pieces = call.pieces()
        begin = 0 if tokens == 0 else 1 + call.chat + tokens
        await call.write(*pieces[:begin])
        await release.wait()
        await call.write(*pieces[begin:])

    return answer


def flood(size: int) -> Answer:
    """Tokens whose chunks are large, without an end, for as long as somebody reads."""

    async def answer(call: Call) -> None:
        await call.write(STREAM, *([call.role()] if call.chat else []))
        word = "x" * size
        value: dict[str, Any] = {"index": 0, "finish_reason": None, "logprobs": None}
        value |= {"delta": {"content": word}} if call.chat else {"text": word}
        produced = 0
        while not call.gone.is_set():
            produced += 1
            full = {**call._head(), "choices": [{**value, "token_ids": [FIRST_ID] if call.ids else None}]}
            await call.write(event(full | ({"usage": call.usage(produced)} if call.each else {})))
            await asyncio.sleep(0)

    return answer


def rewritten(change: Callable[[Sequence[bytes]], Sequence[bytes]]) -> Answer:
    """The good answer with its writes changed."""

    async def answer(call: Call) -> None:
        await call.write(*change(call.pieces()))

    return answer
