"""A gateway that only notes what operation asks of it, with a real dispatcher for its numbers; and engines' pages."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from evenstep.dispatch import events as ev
from evenstep.dispatch.core import Dispatcher
from evenstep.engines.view import EngineSample
from evenstep.errors import InputError
from evenstep.gateway.config.config import GatewayConfig
from evenstep.gateway.config.worker import Worker

PAGE = """vllm:num_requests_running{{engine="0"}} {running}
vllm:num_requests_waiting{{engine="0"}} 0
vllm:kv_cache_usage_perc{{engine="0"}} 0.5
vllm:cache_config_info{{engine="0",num_gpu_blocks="101",block_size="16"}} 1
"""


class FakeGateway:
    """A `Gateway`, its pools and its front in one."""

    def __init__(self, config: GatewayConfig | None = None) -> None:
        self.now = config or GatewayConfig()
        self.here = {worker.name: worker for worker in self.now.fleet()}
        self.dispatcher = Dispatcher("jsq")
        for worker in self.here.values():
            self.dispatcher.handle(ev.WorkerAdded(now_s=0.0, spec=worker.spec()))
        self.why, self.refuses, self.lingers = "", "", False  # whether a worker that drains is still here
        self.asked: list[Any] = []
        self.alone: list[str] = []
        self.tls: ssl.SSLContext | None = None
        self.heard: asyncio.Queue[tuple[str, EngineSample | None]] = asyncio.Queue()

        self.pools = self.front = self

    def snapshot(self) -> dict[str, Any]:
        self.asked.append("snapshot")
        return {
            "models": {"m": self.dispatcher.snapshot()},
            "gateway": {"connections": 2, "answers_total": {"401": 3}, "not_ready": self.why},
        }

    def workers(self) -> list[Worker]:
        return list(self.here.values())

    def not_ready(self) -> str:
        return self.why

    def notes(self) -> list[str]:
        return ["the disk is full"] if self.why else []

    def add(self, worker: Worker) -> None:
        if worker.name == self.refuses:
            raise InputError(f"worker {worker.name}", "url", worker.url, "an engine that this fake takes")
        self.here[worker.name] = worker
        self.asked.append(("add", worker.name))

    def remove(self, name: str, drain: bool) -> None:
        if name not in self.here:
            raise InputError("workers", "name", name, "the name of a known worker")
        if not (drain and self.lingers):
            del self.here[name]
        self.asked.append(("remove", name, drain))

    def sampling(self, names: tuple[str, ...]) -> None:
        self.sampled_soon = names

    def sampled(self, name: str, sample: EngineSample) -> None:
        assert sample is not None
        self.heard.put_nowait((name, sample))

    def counts_alone(self, name: str) -> None:
        self.alone.append(name)

    def scrape_failed(self, name: str) -> None:
        self.heard.put_nowait((name, None))

    def reload(self, config: GatewayConfig, tls: ssl.SSLContext | None = None) -> None:
        if self.refuses == "reload":
            raise InputError("config", "policy", config.policy, "a policy that this fake takes")
        self.now, self.tls = config, tls or self.tls
        self.asked.append(("reload", config.policy))

    def listen_to(self, sinks: tuple[Any, ...], class_sinks: tuple[Any, ...]) -> None:
        self.sinks = class_sinks

    def drain(self) -> None:
        self.why = "draining"


class Engine:
    """An engine of which only the metrics page is there.

    Attributes:
        page: what it answers; empty = 503. status: the status of it.
        seen: Authorization of each reading.
    """

    def __init__(self) -> None:
        self.page, self.seen, self.url = PAGE.format(running=3), list[str](), ""
        self.status = 200

    async def _metrics(self, request: web.Request) -> web.Response:
        self.seen.append(request.headers.get("Authorization", ""))
        return web.Response(text=self.page, status=self.status if self.page else 503)


@asynccontextmanager
async def engine() -> AsyncIterator[Engine]:
    one = Engine()
    app = web.Application()
    app.router.add_get("/metrics", one._metrics)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    one.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield one
    finally:
        await runner.cleanup()
