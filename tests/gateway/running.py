"""A gateway on a free port inside a test's own loop, in front of emulated engines or of engines that do as they are told."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
import struct
from contextlib import asynccontextmanager
from dataclasses import replace

from evenstep.dispatch.settings import Dispatch
from evenstep.gateway.config.config import GatewayConfig, checked
from evenstep.gateway.config.sections import Listen
from evenstep.gateway.config.worker import Worker
from evenstep.gateway.server import Server

QUICK = Dispatch(gather_ms=0.0, backoff_s=0.001, backoff_cap_s=0.002, cooldown_s=0.02)


def config_of(*workers, **settings):
    """A checked config; workers as URLs or as `Worker`."""
    found = [one if isinstance(one, Worker) else Worker(url=one) for one in workers]
    base = GatewayConfig(listen=Listen(port=0), workers=found, policy="jsq", dispatch=QUICK)
    return checked(replace(base, **settings))


@asynccontextmanager
async def serving(*workers, is_ready=True, **settings):
    """An open gateway; at the end nothing may be left in it."""
    server = Server(config_of(*workers, **settings))
    await server.open()
    try:
        await server.ready()
        if is_ready:
            await until(lambda: not server.gateway.front.not_ready() and not server.gateway.pools.unknown)
        yield server
        await emptied(server)
    finally:
        await server.close()


async def emptied(server):
    """Wait until no request is left in gateway and dispatcher, and see that all parts agree."""
    await until(lambda: all(not pool.requests for pool in server.gateway.pools.all))
    assert not server.gateway.front.passing
    for pool in server.gateway.pools.all:
        pool.dispatcher.check()
        assert not pool.dispatcher.rows.by_request


async def until(condition, within_s=10.0):
    """Look until something is true; the only wait of these tests that is not for an event."""
    for _ in range(int(within_s / 0.002)):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it did not happen")


def no_more_files(server):
    """Close the gateway's idle connections to engines, and let the system refuse it any more open files."""
    loop = asyncio.get_running_loop()
    connect = loop.create_connection

    async def refused(factory, host, port, **options):
        if port != server.port:
            raise OSError(errno.EMFILE, "Too many open files")
        return await connect(factory, host, port, **options)

    loop.create_connection = refused
    for pool in server.gateway.pools.all:
        for backend in pool.backends.values():
            for connection in list(backend.endpoint._idle):
                connection.close()


def base(server):
    return f"http://127.0.0.1:{server.port}"


def request(body, path="/v1/completions", method="POST", headers=""):
    """The bytes of one request."""
    content = json.dumps(body).encode() if not isinstance(body, bytes) else body
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {len(content)}\r\n\r\n".encode() + content


async def raw(server, data, close=False):
    """Everything that comes back for these bytes until the gateway closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(data)
    if close:
        writer.write_eof()
    try:
        return await asyncio.wait_for(reader.read(), 60)
    finally:
        writer.close()


def chunk(text, number=1, finish=None, ids=None, name="cmpl-1", usage=True, prompt=(7, 8)):
    """One event of a completion, as vLLM writes it when asked for usage in every chunk; `prompt` are the prompt's ids."""
    choice = {
        "index": 0,
        "text": text,
        "logprobs": None,
        "finish_reason": finish,
        "stop_reason": None,
        "prompt_token_ids": list(prompt) if ids is not None and number == 1 else None,
        "token_ids": ids,
    }
    body = {"id": name, "object": "text_completion", "created": 5, "model": "m", "choices": [choice]}
    if usage:
        size = len(prompt)
        body["usage"] = {"prompt_tokens": size, "total_tokens": size + number, "completion_tokens": number}
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
MODELS = b'{"object":"list","data":[{"id":"m","object":"model","parent":null}]}'


def whole(status, body, kind="application/json", more=""):
    """An answer with a length."""
    return f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body


def framed(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


def reset(transport):
    """Break a connection so that the other side hears of an error, not of an end."""
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


async def resets_the_second(number, head, body, writer):
    """Answers "ab" to each request but the second, whose kept connection it resets."""
    if number == 1:
        reset(writer.transport)
        return False
    writer.write(whole(200, b"ab"))


STALLS = "stalls"
END = b"0\r\n\r\n"


class Engine:
    """An engine that answers as its script says, and remembers what it was asked.

    Args:
        script: called with the number of the request (from 0), its head and body, and a writer; what it returns closes the
            connection, at once or (`STALLS`) when the gateway does.

    Attributes:
        left: the gateway closed a connection on which this stalled.
    """

    def __init__(self, script):
        self.script, self.asked, self.open = script, [], set()
        self.left, self.version = asyncio.Event(), b""

    async def serve(self, reader, writer):
        self.open.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = next(
                    (int(line[15:]) for line in head.split(b"\r\n") if line[:15].lower() == b"content-length:"),
                    0,
                )
                body = await reader.readexactly(size)
                if b" /v1/models " in head:
                    writer.write(whole(200, MODELS))
                    continue
                if b" /version " in head:
                    writer.write(whole(200, self.version) if self.version else whole(404, b"{}"))
                    continue
                if b" /metrics " in head:
                    writer.write(whole(404, b"{}"))
                    continue
                if b" /health " in head:
                    writer.write(whole(200, b""))
                    continue
                self.asked.append((head, body))
                said = await self.script(len(self.asked) - 1, head, body, writer)
                if said is STALLS:
                    assert not await reader.read()
                    self.left.set()
                if said is not None:
                    break
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.open.discard(writer)
            writer.close()


@asynccontextmanager
async def engine(script, version=b""):
    """A scripted engine that listens; yields it with its `url`. It has a page with its version, or none."""
    made = Engine(script)
    made.version = version
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    made.server = server
    try:
        yield made
    finally:
        server.close()
        for writer in list(made.open):
            writer.transport.abort()
