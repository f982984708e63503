"""A run against an emulator in the same loop, or against a server of a few lines."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager, contextmanager

import numpy as np
from tests.emulator import running as emulators

from evenstep.load.run import Run, timed
from evenstep.load.settings import LoadSettings
from evenstep.request import Trace

MODEL = "emulated"


def small(rows=12, gap_s=0.002, **columns):
    """A trace of short requests, prompts of 5 to 40 tokens, outputs of 2 to 9."""
    number = np.arange(rows)
    arrays = {name: np.array(value, np.int64) for name, value in columns.items()}
    return Trace(5 + number * 7 % 36, 2 + number * 5 % 8, arrival_s=number * gap_s, name="small", **arrays)


async def loaded(url, trace=None, started=None, watch=None, model=MODEL, **settings):
    """The outcome of one run, and its settings; no callback of the loop may fail."""
    asked = LoadSettings(source="small", url=url, timeout_s=settings.pop("timeout_s", 20.0), **settings)
    one = timed(trace if trace is not None else small(), asked)
    failed = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: failed.append(context))
    outcome = await Run(one, asked, model, watch, started).whole()
    assert not failed
    return outcome, asked


def against_emulator(trace=None, faults=(), ranks=1, slots=8, speed=200.0, emulator=None, **settings):
    """The outcome of one run against an emulator, and its settings."""

    async def go():
        async with emulators.running(ranks=ranks, slots=slots, speed=speed, **(emulator or {})) as one:
            for fault in faults:
                one.fleet.faults.on.append(fault)
            return await loaded(emulators.url(one), trace, **settings)

    return asyncio.run(go())


@contextmanager
def emulated(**options):
    """The URL of an emulator that lives in a thread of its own."""
    known, ready, over = {}, threading.Event(), asyncio.Event()

    async def live():
        known["loop"] = asyncio.get_running_loop()
        async with emulators.running(**options) as emulator:
            known["url"] = emulators.url(emulator)
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(live()))
    thread.start()
    ready.wait(10)
    try:
        yield known["url"]
    finally:
        known["loop"].call_soon_threadsafe(over.set)
        thread.join()


@asynccontextmanager
async def server(answer, tls=None):
    """A server that gives each request's bytes to `answer` and sends what it returns; None closes the connection.

    Args:
        tls: its context; None = plain HTTP.
    """

    async def serve(reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
                said = answer(await reader.readexactly(size))
                if said is None:
                    return
                writer.write(said)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        scheme = "http" if tls is None else "https"
        yield f"{scheme}://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()
