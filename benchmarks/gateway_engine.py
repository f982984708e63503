"""Fake engines for `bench_gateway`: several ports in one process, vLLM's words, no model.

A prompt says how its answer is paced: ``pace=MS/BURST/KEY `` in front of it makes a stream of ``max_tokens`` chunks, BURST
of them in each write, MS milliseconds between writes (0: all at once), the first at once. Every chunk's text is the
time it was written, so that the client can tell how old it is. Usage and token ids are told where they are asked for, as
vLLM tells them. ``GET /gone`` lists when which KEY was left by its client.

    python benchmarks/gateway_engine.py 8            # prints eight ports
    python benchmarks/gateway_engine.py 8 --bare     # engines that tell neither token ids nor counts in a chunk
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Callable

import httptools
import orjson
import uvloop

_PACE = re.compile(rb"pace=(\d+)/(\d+)/(\d+) ")
_PROMPT_IDS = b",".join(b"%d" % (1000 + i) for i in range(40))
MODEL = "some-organisation/some-model-8B"
_HEAD = b'{"id":"%b-0c62c9b1a8f94c7fb7d3b0e1","object":"%b","created":1763766000,"model":"%b"'
_CHUNK_HEADS = {
    True: _HEAD % (b"chatcmpl", b"chat.completion.chunk", MODEL.encode()),
    False: _HEAD % (b"cmpl", b"text_completion", MODEL.encode()),
}
_CHUNKS = {
    True: b'data: %b,"choices":[{"index":0,"delta":{"content":"@%016d"},"logprobs":null,'
    b'"finish_reason":%b,"token_ids":%b}]%b}\n\n',
    False: b'data: %b,"choices":[{"index":0,"text":"@%016d","logprobs":null,'
    b'"finish_reason":%b,"stop_reason":null,"prompt_token_ids":null,"token_ids":%b}]%b}\n\n',
}
_STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
_USAGE = b',"usage":{"prompt_tokens":40,"total_tokens":%d,"completion_tokens":%d}'
_METRICS = """vllm:num_requests_running{{engine="0"}} {running}
vllm:num_requests_waiting{{engine="0"}} 0
vllm:kv_cache_usage_perc{{engine="0"}} {used}
vllm:generation_tokens_total{{engine="0"}} {tokens}
vllm:cache_config_info{{block_size="16",engine="0",num_gpu_blocks="1000001"}} 1
"""


class Engine:
    """What one port has in common."""

    def __init__(self, is_bare: bool) -> None:
        self.running = self.tokens = 0
        self.is_bare = is_bare
        self.gone: dict[int, int] = {}


class Connection(asyncio.Protocol):
    """One connection to it."""

    def __init__(self, engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
        self.engine, self.loop = engine, loop
        self.parser = httptools.HttpRequestParser(self)
        self.body: list[bytes] = []
        self.url = b""
        self.stream: Stream | None = None

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:  # a probe in another protocol
            self.transport.abort()

    def connection_lost(self, exc):
        if self.stream is not None:
            self.engine.gone[self.stream.key] = time.monotonic_ns()
            self.stream.stop()

    def on_url(self, url):
        self.url += url

    def on_body(self, body):
        self.body.append(body)

    def on_message_complete(self):
        url, self.url = self.url, b""
        body, self.body = b"".join(self.body), []
        if url.endswith((b"/completions", b"/generate")):
            self.generate(body)
        elif answer := ANSWERS.get(url.partition(b"?")[0].decode()):
            kind, text = answer(self.engine)
            self.reply(text, kind)
        else:
            self.reply(b'{"error":{"message":"no such path","code":404}}', status=b"404 Not Found")

    def reply(self, text: bytes, kind: bytes = b"application/json", status: bytes = b"200 OK") -> None:
        head = b"HTTP/1.1 %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (status, kind, len(text))
        self.transport.write(head + text)

    def tells(self, asked: dict, name: str) -> bool:
        return bool(asked.get(name)) and not self.engine.is_bare

    def generate(self, body: bytes) -> None:
        asked = orjson.loads(body)
        tokens = asked.get("max_tokens") or asked.get("max_completion_tokens") or 1
        if asked.get("stream"):
            found = _PACE.search(body)
            pace, burst, key = (int(text) for text in found.groups()) if found else (0, 1, 0)
            self.stream = Stream(self, asked, tokens, pace, burst, key)
            self.stream.start()
        else:
            self.reply(_whole(tokens, self.tells(asked, "return_token_ids"), "messages" in asked))
            self.engine.tokens += tokens


class Stream:
    """One answer on its way."""

    def __init__(self, connection: Connection, asked: dict, tokens: int, pace: int, burst: int, key: int) -> None:
        self.connection, self.key = connection, key
        self.left, self.burst, self.pace_s = tokens, burst, pace / 1e3
        self.made = 0
        self.is_chat = "messages" in asked or "text" in asked  # SGLang's own way is answered as a chat
        self.head = _CHUNK_HEADS[self.is_chat]
        options = asked.get("stream_options") or {}
        self.final = bool(options.get("include_usage"))
        self.ids = connection.tells(asked, "return_token_ids")
        self.each = connection.tells(options, "continuous_usage_stats")
        self.timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self.connection.engine.running += 1
        self.connection.transport.write(_STREAM + (self.first() if self.is_chat else b""))
        self.due_s = self.connection.loop.time()
        self.send()

    def first(self) -> bytes:
        """The chunk of a chat that tells the role."""
        choice = b',"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]'
        prompt = b',"prompt_token_ids":[%b]' % _PROMPT_IDS if self.ids else b',"prompt_token_ids":null'
        usage = _USAGE % (40, 0) if self.each else b""
        role = b"data: %b%b%b%b}\n\n" % (self.head, choice, usage, prompt)
        return b"%x\r\n%b\r\n" % (len(role), role)

    def stop(self) -> None:
        self.connection.stream = None
        self.connection.engine.running -= 1
        if self.timer is not None:
            self.timer.cancel()

    def send(self) -> None:
        """One write: `burst` events, each an HTTP chunk of its own."""
        events = []
        for _ in range(min(self.burst, self.left)):
            self.left -= 1
            self.made += 1
            events.append(self.event(b'"length"' if self.left == 0 else b"null"))
        self.connection.engine.tokens += len(events)
        if self.left:
            self.connection.transport.write(b"".join(events))
            self.due_s += self.pace_s
            self.timer = self.connection.loop.call_at(self.due_s, self.send)
            return
        if self.final:
            usage = b'data: %b,"choices":[]%b}\n\n' % (self.head, _USAGE % (40 + self.made, self.made))
            events.append(b"%x\r\n%b\r\n" % (len(usage), usage))
        self.connection.transport.write(b"".join(events) + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
        self.stop()

    def event(self, finish: bytes) -> bytes:
        ids = b"[%d]" % (1000 + self.made % 9) if self.ids else b"null"
        usage = _USAGE % (40 + self.made, self.made) if self.each else b""
        data = _CHUNKS[self.is_chat] % (self.head, time.monotonic_ns(), finish, ids, usage)
        return b"%x\r\n%b\r\n" % (len(data), data)


def _whole(tokens: int, ids: bool, is_chat: bool) -> bytes:
    text = " word" * tokens
    choice = {
        "index": 0,
        **({"message": {"role": "assistant", "content": text}} if is_chat else {"text": text}),
        "logprobs": None,
        "finish_reason": "length",
        "token_ids": [1000] * tokens if ids else None,
    }
    usage = {"prompt_tokens": 40, "total_tokens": 40 + tokens, "completion_tokens": tokens}
    kind = ("chatcmpl-0c62", "chat.completion") if is_chat else ("cmpl-0c62", "text_completion")
    head = {"id": kind[0], "object": kind[1], "created": 1763766000, "model": MODEL}
    return orjson.dumps({**head, "choices": [choice], "usage": usage})


def _json(value: object) -> Callable[[Engine], tuple[bytes, bytes]]:
    return lambda engine: (b"application/json", orjson.dumps(value))


def _metrics(engine: Engine) -> tuple[bytes, bytes]:
    text = _METRICS.format(running=engine.running, used=engine.running * 64 / 16e6, tokens=engine.tokens)
    return b"text/plain; version=0.0.4", text.encode()


def _gone(engine: Engine) -> tuple[bytes, bytes]:
    return b"application/json", orjson.dumps({str(key): at for key, at in engine.gone.items()})


_INFO = {"model_path": MODEL, "served_model_name": MODEL, "model_type": "llama", "is_generation": True}
ANSWERS: dict[str, Callable[[Engine], tuple[bytes, bytes]]] = {
    "/health": _json({}),
    "/health_generate": _json({}),
    "/version": _json({"version": "0.32.0"}),
    "/v1/models": _json({"object": "list", "data": [{"id": MODEL, "object": "model", "max_model_len": 262144}]}),
    "/metrics": _metrics,
    "/gone": _gone,
    **{path: _json(_INFO) for path in ("/get_model_info", "/model_info", "/get_server_info", "/server_info")},
}


async def serve(count: int, is_bare: bool) -> None:
    loop, ports = asyncio.get_running_loop(), []
    for _ in range(count):
        engine = Engine(is_bare)
        server = await loop.create_server(lambda engine=engine: Connection(engine, loop), "127.0.0.1", 0, backlog=4096)
        ports.append(server.sockets[0].getsockname()[1])
    print(*ports, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(int(sys.argv[1]), is_bare="--bare" in sys.argv))
