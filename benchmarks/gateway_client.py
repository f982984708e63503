"""The client of `bench_gateway`: raw connections that count events and know how old each one is."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from statistics import median

import httptools

from gateway_engine import MODEL

_STAMP = re.compile(rb"@(\d{16})")


def request(port: int, key: str, tokens: int, prompt: str, stream: bool) -> bytes:
    """The bytes of one chat request."""
    content = (
        f'{{"model":"{MODEL}","messages":[{{"role":"user","content":"{prompt}"}}],'
        f'"max_tokens":{tokens},"stream":{"true" if stream else "false"}}}'
    ).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nAccept: */*\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


class Caller(asyncio.Protocol):
    """One keep-alive connection; asks again as long as `following` gives a request.

    Attributes:
        events: ``data:`` lines received, over all answers.
        ages_s: how old each stamped write was when it came.
        refused: answers with another status than 200, first lines.
    """

    def __init__(self, following: Callable[[], bytes | None], done: asyncio.Future[None]) -> None:
        self.following, self.done = following, done
        self.events = self.answers = 0
        self.ages_s: list[float] = []
        self.refused: list[str] = []
        self.busy = False

    def connection_made(self, transport):
        self.transport = transport
        self.parser = httptools.HttpResponseParser(self)
        self.ask()

    def ask(self) -> None:
        data = self.following()
        self.busy = data is not None
        if data is None:
            self.transport.close()
        else:
            self.transport.write(data)

    def data_received(self, data):
        now = time.monotonic_ns()
        if found := _STAMP.search(data):
            self.ages_s.append((now - int(found[1])) / 1e9)
        self.parser.feed_data(data)

    def on_body(self, body):
        self.events += body.count(b"data: ")

    def on_message_complete(self):
        self.answers += 1
        if self.parser.get_status_code() != 200:
            self.refused.append(str(self.parser.get_status_code()))
        if self.parser.should_keep_alive():
            self.ask()
        else:
            self.busy = False
            self.transport.close()

    def connection_lost(self, exc):
        if not self.done.done():
            self.done.set_result(None)


async def closed_loop(port: int, connections: int, total: int, data: bytes) -> None:
    """So many requests, so many at a time.

    Raises:
        RuntimeError: an answer was not 200, or a connection ended in mid-answer.
    """
    loop, left = asyncio.get_running_loop(), [total]

    def following() -> bytes | None:
        left[0] -= 1
        return data if left[0] >= 0 else None

    async def one() -> None:
        while left[0] > 0:
            done = loop.create_future()
            _, caller = await loop.create_connection(lambda d=done: Caller(following, d), "127.0.0.1", port)
            await done
            if caller.busy or caller.refused:
                raise RuntimeError(f"an answer was lost or refused: {caller.refused[:1]}")

    await asyncio.gather(*(one() for _ in range(connections)))


async def streams(port: int, count: int, spread_s: float, data: Callable[[int], bytes]) -> tuple[int, list[float]]:
    """So many streams at once, begun over `spread_s` seconds: events received, and ages of the writes of all but the start.

    Raises:
        RuntimeError: a stream was refused or ended in mid-answer.
    """
    loop = asyncio.get_running_loop()
    callers: list[Caller] = []
    waits: list[asyncio.Future[None]] = []
    begin = loop.time()
    for i in range(count):
        await asyncio.sleep(max(0.0, begin + i * spread_s / count - loop.time()))
        once = iter([data(i)])
        done = loop.create_future()
        _, caller = await loop.create_connection(lambda o=once, d=done: Caller(lambda: next(o, None), d), "127.0.0.1", port)
        callers.append(caller)
        waits.append(done)
    await asyncio.gather(*waits)
    for caller in callers:
        if caller.busy or caller.refused or caller.answers != 1:
            raise RuntimeError(f"a stream was lost or refused: {caller.refused[:1]}")
    ages = [age for caller in callers for age in caller.ages_s[len(caller.ages_s) // 10 + 1 :]]
    return sum(caller.events for caller in callers), ages


async def one_by_one(port: int, count: int, data: bytes) -> float:
    """Median seconds of an answer, one request at a time."""
    loop, taken = asyncio.get_running_loop(), []
    started = [0.0]

    def following() -> bytes | None:
        if started[0]:
            taken.append(time.perf_counter() - started[0])
        started[0] = time.perf_counter()
        return data if len(taken) < count else None

    while len(taken) < count:
        done, started[0] = loop.create_future(), 0.0
        _, caller = await loop.create_connection(lambda d=done: Caller(following, d), "127.0.0.1", port)
        await done
        if caller.busy or caller.refused:
            raise RuntimeError(f"an answer was lost or refused: {caller.refused[:1]}")
    return median(taken)


async def leave(port: int, data: bytes) -> int:
    """Begins a stream, leaves after its third write; the time it left, ns."""
    loop = asyncio.get_running_loop()
    done, once = loop.create_future(), iter([data])
    transport, caller = await loop.create_connection(lambda: Caller(lambda: next(once, None), done), "127.0.0.1", port)
    while len(caller.ages_s) < 3 and not done.done():
        await asyncio.sleep(0.002)
    if done.done():
        raise RuntimeError(f"a stream was lost or refused: {caller.refused[:1]}")
    at = time.monotonic_ns()
    transport.abort()
    return at


async def fetched(port: int, path: str) -> bytes:
    """The body of a small page."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    size = re.search(rb"content-length: (\d+)", head, re.I)
    body = await reader.readexactly(int(size[1])) if size else b""
    writer.close()
    return body
