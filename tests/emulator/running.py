"""An emulator on a free port inside a test's own loop, and a client that speaks raw HTTP to it."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

from evenstep.emulator.server import Emulator
from evenstep.emulator.settings import EmulatorSettings

FAST = {"port": 0, "speed": 50.0, "overhead_s": 0.05, "per_token_s": 0.0, "prefill_per_token_s": 0.0}


@asynccontextmanager
async def running(**settings):
    """An open emulator; at the end nothing may be left in it."""
    emulator = Emulator(EmulatorSettings(**{**FAST, **settings}))
    await emulator.open()
    try:
        yield emulator
        await drained(emulator)
    finally:
        await emulator.close()


async def drained(emulator):
    """Wait until no group has anything to do."""
    for _ in range(2000):
        if all(not group._live for group in emulator.fleet.groups) and not emulator.fleet._parts:
            for group in emulator.fleet.groups:
                group.check()
            return
        await asyncio.sleep(0.002)
    raise AssertionError("requests are left behind")


def url(emulator, index=0):
    return f"http://127.0.0.1:{emulator.ports[index][0]}"


def request(body, path="/v1/completions", method="POST", headers=""):
    """The bytes of one request."""
    content = json.dumps(body).encode() if not isinstance(body, bytes) else body
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {len(content)}\r\n\r\n".encode() + content


async def raw(emulator, data, index=0, pieces=None):
    """Everything that comes back on one connection for these bytes, until the emulator closes it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", emulator.ports[index][0])
    for piece in pieces or [data]:
        writer.write(piece)
        await writer.drain()
        if pieces:
            await asyncio.sleep(0)
    try:
        return await asyncio.wait_for(reader.read(), 60)
    finally:
        writer.close()


def events(body):
    """JSON of each event of a stream; its end as text."""
    found = [line[6:] for line in body.decode().split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in found]
