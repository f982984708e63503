"""A gateway in front of hostile engines, in a test's own loop; or as processes, in front of emulated ones."""

from __future__ import annotations

import asyncio
import functools
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from tests.gateway.promises.client import RawClient, Reply, answered, ask
from tests.gateway.promises.engine import Call, HostileEngine, Plan

from evenstep.dispatch.settings import Dispatch
from evenstep.dispatch.warming import warm
from evenstep.gateway.config.config import GatewayConfig, checked
from evenstep.gateway.config.sections import ApiKey, Engines, Limits, Listen
from evenstep.gateway.config.worker import Worker
from evenstep.gateway.server import Server

POLICY = "jsq"
#: Waits that would only make tests slow; no breaker, where a test is not about it.
QUICK: dict[str, Any] = {
    "gather_ms": 0.0,
    "backoff_s": 0.001,
    "backoff_cap_s": 0.002,
    "cooldown_s": 0.02,
    "breaker_failures": 10**6,
}


@functools.cache
def compiled() -> None:
    """What decisions need, outside of any story's time: the first one on a machine waits a minute for it."""
    warm(POLICY)


def story(tell: Callable[[], Awaitable[None]], limit_s: float = 60.0) -> None:
    """Run a story to its end; one that hangs fails."""
    compiled()

    async def told() -> None:
        async with asyncio.timeout(limit_s):
            await tell()

    asyncio.run(told())


class Fleet:
    """An open gateway and its engines."""

    def __init__(self, engines: list[HostileEngine], prefillers: list[HostileEngine], plan: Plan, server: Server) -> None:
        self.engines, self.prefillers, self.plan, self.server = engines, prefillers, plan, server

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def calls(self) -> list[Call]:
        """Every generation request that came to an engine, in order."""
        return self.plan.calls

    @property
    def shown(self) -> dict[str, Any]:
        """The dispatcher's numbers."""
        return self.server.gateway.snapshot()["models"]["tiny"]

    def buffered(self) -> int:
        """Bytes of the answer that is kept most for its client."""
        return max(client.transport.get_write_buffer_size() for client in self.server.gateway.front.clients)

    async def tick(self) -> None:
        """Let everybody else go on."""
        await asyncio.sleep(0.002)

    async def until(self, true: Callable[[dict[str, Any]], bool]) -> None:
        """Until this holds of the dispatcher's numbers."""
        while not true(self.shown):
            await self.tick()

    async def asked(self, calls: int) -> None:
        """Until so many requests have come to engines."""
        while len(self.calls) < calls:
            await self.tick()

    async def empty(self) -> None:
        """Until nothing is left anywhere; and all parts agree."""
        gateway = self.server.gateway
        while any(pool.requests for pool in gateway.pools.all) or any(e.open_calls for e in self.engines + self.prefillers):
            await self.tick()
        for pool in gateway.pools.all:
            pool.dispatcher.check()
            assert not pool.dispatcher.rows.by_request
        assert self.shown["pool_depth"] == self.shown["waiting_for_prefill"] == 0
        assert not any(worker["worker_active_requests"] for worker in self.shown["workers"])


@asynccontextmanager
async def fleet(
    *,
    engines: int = 1,
    prefillers: int = 0,
    slots: int = 64,
    ranks: int | None = None,
    dialect: str = "vllm",
    models: list[str] | None = None,
    engine_deadlines: dict[str, float] | None = None,
    limits: dict[str, Any] | None = None,
    dispatch: dict[str, Any] | None = None,
    keys: list[dict[str, Any]] | None = None,
) -> AsyncIterator[Fleet]:
    """A gateway that is ready, in front of so many engines."""
    plan = Plan()
    decode = [HostileEngine(f"e{i}", plan) for i in range(engines)]
    prefill = [HostileEngine(f"p{i}", plan) for i in range(prefillers)]
    for engine in decode + prefill:
        await engine.start()
    workers = [
        Worker(engine.url, slots=slots, ranks=ranks, scraped=False, engine=dialect, models=models or []) for engine in decode
    ]
    workers += [Worker(url=engine.url, role="prefill", scraped=False) for engine in prefill]
    config = GatewayConfig(
        listen=Listen(port=0),
        workers=workers,
        policy=POLICY,
        dispatch=Dispatch(**{**QUICK, **(dispatch or {})}),
        engines=replace(Engines(connect_s=1.0), **(engine_deadlines or {})),
        limits=replace(Limits(), **(limits or {})),
        keys=[ApiKey(**key) for key in keys or ()],
    )
    server = Server(checked(config))
    await server.open()
    try:
        await server.ready()
        found = Fleet(decode, prefill, plan, server)
        while server.gateway.front.not_ready() or server.gateway.pools.unknown:
            await found.tick()
        yield found
    finally:
        await server.close()
        for engine in decode + prefill:
            engine.kill()


class Process:
    """A program of ours that says where it listens."""

    def __init__(self, *arguments: str) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-m", "evenstep", *arguments],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ},
        )
        assert self.child.stdout is not None
        while not (found := re.search(r"127\.0\.0\.1:(\d+)", line := self.child.stdout.readline())):
            assert line, f"{arguments} ended with {self.child.wait()}"
        self.port = int(found[1])

    def kill(self) -> None:
        """kill -9."""
        self.child.kill()
        self.child.wait()


class Processes:
    """`evenstep serve` in front of `evenstep emulate`, one process an engine."""

    TOKENS = 40

    def __init__(self, gateway: Process, engines: list[Process]) -> None:
        self.gateway, self.engines = gateway, engines

    def body(self, number: int) -> dict[str, Any]:
        prompt = f"request number {number}"
        return {
            "model": "emulated",
            "prompt": prompt,
            "tokens": self.TOKENS,
            "ignore_eos": True,
            "temperature": 0,
        }

    async def whole(self, number: int) -> str:
        """The text of that request's answer, straight from an engine."""
        reply = await answered(self.engines[-1].port, ask(**{**self.body(number), "stream": False}))
        assert reply.status == 200, reply
        return reply.text

    async def begin(self, number: int) -> RawClient:
        """That request as a stream, under way."""
        return (await RawClient.to(self.gateway.port)).send(ask(**self.body(number)))

    def hup(self) -> None:
        self.gateway.child.send_signal(signal.SIGHUP)

    def term(self) -> None:
        self.gateway.child.send_signal(signal.SIGTERM)

    async def gateway_ended(self) -> int:
        """Its exit status."""
        return await asyncio.to_thread(self.gateway.child.wait)


@asynccontextmanager
async def processes(*, engines: int) -> AsyncIterator[Processes]:
    """A gateway and engines that make the same tokens, each in a process of its own, ready."""
    flags = ["--slots", "64", "--port", "0", "--overhead-s", "0.02", "--per-token-s", "0"]
    running = [Process("emulate", "--ranks", "1", *flags) for _ in range(engines)]
    try:
        urls = [text for engine in running for text in ("--worker", f"http://127.0.0.1:{engine.port}")]
        gateway = Process("serve", "--port", "0", "--admin-port", "0", "--policy", "jsq", *urls)
        running.append(gateway)
        found = Processes(gateway, running[:engines])
        while (await health(gateway.port)).status != 200:
            await asyncio.sleep(0.05)
        yield found
    finally:
        for process in running:
            process.kill()


async def health(port: int) -> Reply:
    """What /readyz says."""
    return await answered(port, b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
