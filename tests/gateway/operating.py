"""Operation around a fake gateway, for tests of what it serves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from tests.gateway.fake_gateway import FakeGateway

from evenstep.gateway.config.layers import Sources
from evenstep.gateway.operate.operation import Operation
from evenstep.gateway.server import Server

WORKERS = "http://127.0.0.1:1,name=a,scraped=false http://127.0.0.1:2,name=b,scraped=false"


@dataclass
class Running:
    """What a test of operation has in hand."""

    gateway: FakeGateway
    operation: Operation
    client: aiohttp.ClientSession


@asynccontextmanager
async def operating(workers: str = WORKERS, file: str = "", **flags: str) -> AsyncIterator[Running]:
    """Operation, with its admin port open, and a client for it. Dots in settings are written as two underscores."""
    given = {"policy": "jsq", "admin.port": "0", "workers": workers}
    given.update({name.replace("__", "."): value for name, value in flags.items()})
    sources = Sources(file=file, flags={name: ("command line", value) for name, value in given.items()})
    settled = sources.settled()
    gateway = FakeGateway(settled.value)
    operation = Operation(sources, settled, gateway, asyncio.get_running_loop())
    operation.start()
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{operation.port}") as client:
            yield Running(gateway, operation, client)
    finally:
        await asyncio.to_thread(operation.stop)


BODY = {"model": "emulated", "prompt": "x", "max_tokens": 5, "ignore_eos": True}


@asynccontextmanager
async def beside(server_settings, *workers, file=""):
    """A real gateway with its operation; yields the server and a client of the admin API."""
    flags = {
        "policy": "jsq",
        "admin.port": "0",
        "listen.port": "0",
        "workers": " ".join(workers),
        **server_settings,
    }
    sources = Sources(file=file, flags={name: ("test", value) for name, value in flags.items()})
    settled = sources.settled()
    server = Server(settled.value, is_scraped=True)
    await server.open()
    operation = Operation(sources, settled, server.gateway, asyncio.get_running_loop(), contexts=server.contexts)
    await asyncio.to_thread(operation.start)
    try:
        await server.ready()
        async with aiohttp.ClientSession(f"http://127.0.0.1:{operation.port}") as client:
            yield server, client
    finally:
        await asyncio.to_thread(operation.stop)
        await server.close()
