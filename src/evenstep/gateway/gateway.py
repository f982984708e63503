"""A running gateway, as operation code sees it: workers, rules, readiness, and its end."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any

from evenstep.dispatch.core import Dispatcher
from evenstep.engines.view import EngineSample
from evenstep.gateway.config.config import GatewayConfig, check_files
from evenstep.gateway.config.worker import Worker
from evenstep.gateway.connections.callers import Callers
from evenstep.gateway.operate.control import Control
from evenstep.gateway.serve.ended import Sink
from evenstep.gateway.serve.front import Front
from evenstep.gateway.serve.pools import Pools

_log = logging.getLogger("evenstep.gateway")
_LOOK_S = 0.05


class Gateway(Control):
    """One gateway; `Control` describes most of its methods.

    Call all methods on `loop`: first `check`, then `start`. To end it, call `drain`, `drained`, `give_up` and `close` in
    order.

    Args:
        config: the checked config at the start; `reload` replaces it.
        loop: the loop it runs on.
        salt: key of the hashes of prompts and names; empty = hashes without a key.
        tls: for engines with https; None = trust the system's authorities.

    Attributes:
        front: takes requests; until `start` it refuses generations with status 503.
        pools: the workers of each model.

    Raises:
        InputError: a client's key that cannot be read or appears twice.
    """

    def __init__(
        self,
        config: GatewayConfig,
        loop: asyncio.AbstractEventLoop,
        salt: bytes,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._config = config
        self.pools = Pools(config, loop, tls)
        self.front = Front(self.pools, config, salt)

    def check(self) -> None:
        """Check that the config's workers can be added, and that files needed later are usable. Changes nothing.

        Raises:
            InputError: an invalid worker, an unreadable secret, an unreadable tokenizer, or a decision log that cannot be
                written.
        """
        check_files(self._config)
        for worker in self._config.fleet():
            self.pools.backend_of(worker)

    def start(self) -> None:
        """Stop refusing requests as "starting", and add the workers of the config.

        Call it once, when what decisions need is compiled. The gateway is ready (`not_ready`) only when a worker is usable.

        Raises:
            InputError: see `check`.
        """
        self.front.why_not_ready = ""
        for worker in self._config.fleet():
            self.add_worker(worker)

    def config(self) -> GatewayConfig:
        return self._config

    def snapshot(self) -> dict[str, Any]:
        front = self.front
        return {
            "models": {pool.name: pool.snapshot() for pool in self.pools.all},
            "gateway": {
                "connections": len(front.clients),
                "answers_total": {str(code): count for code, count in sorted(front.codes.items())},
                "passing": len(front.passing),
                "generations": sum(pool.requests for pool in self.pools.all),
                "is_draining": front.is_draining,
                "not_ready": front.not_ready(),
                "worker_counted_here_only": {name: name in self.pools.counted_here for name in self.pools.workers},
                "decision_log_failed": {pool.name: bool(pool.log.why) for pool in self.pools.all if pool.log},
                "decision_log_failures_total": {pool.name: pool.log.failures for pool in self.pools.all if pool.log},
                "worker_counting_estimated": {
                    name: not one.dialect.counts for pool in self.pools.all for name, one in pool.backends.items()
                },
                "worker_cannot_continue": {
                    name: bool(one.endpoint.restarts) for pool in self.pools.all for name, one in pool.backends.items()
                },
            },
        }

    def workers(self) -> list[Worker]:
        return list(self.pools.workers.values())

    def not_ready(self) -> str:
        return self.front.not_ready()

    def notes(self) -> list[str]:
        return self.front.notes()

    def add_worker(self, worker: Worker) -> None:
        self.pools.add(worker)

    def remove_worker(self, name: str, drain: bool) -> None:
        self.pools.remove(name, drain)

    def sampling(self, names: tuple[str, ...]) -> None:
        for name in names:
            self.pools.sampling(name)

    def sampled(self, name: str, sample: EngineSample) -> None:
        self.pools.sampled(name, sample)

    def counts_alone(self, name: str) -> None:
        self.pools.counts_alone(name)

    def scrape_failed(self, name: str) -> None:
        self.pools.scrape_failed(name)

    def reload(self, config: GatewayConfig) -> None:
        callers, settings = Callers(config), config.settings()
        Dispatcher(config.weighed_policy(), predictor=config.predictor, settings=settings)
        self._config = config
        self.pools.go_by(config)
        self.front.go_by(config, callers)
        for pool in self.pools.all:
            pool.reload(config.weighed_policy(), config.predictor, settings)
        self.pools.ask_again()
        _log.info("reloaded", extra={"policy": config.policy})

    def listen_to(self, sinks: tuple[Sink, ...], of_classes: tuple[Sink, ...] = ()) -> None:
        self.front.listen_to(sinks, (*of_classes, *sinks))

    def drain(self) -> None:
        if self.front.is_draining:
            return
        running = sum(pool.requests for pool in self.pools.all)
        _log.info("draining: nothing new is accepted, what runs ends", extra={"requests": running})
        self.pools.drain()
        for client in list(self.front.clients):
            client.close_if_idle()

    async def drained(self, within_s: float) -> bool:
        """After `drain`: wait up to `within_s` seconds until no client waits for an answer. False = one still does."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + within_s
        while any(client.is_busy for client in self.front.clients):
            if loop.time() >= until_s:
                return False
            await asyncio.sleep(_LOOK_S)
        return True

    async def give_up(self, within_s: float) -> None:
        """After `drain`: end running answers with an error; wait up to `within_s` seconds until their connections close."""
        told = [client for client in self.front.clients if client.is_busy and client.job is not None]
        for client in told:
            if client.job is not None:  # the one before may have ended it
                client.job.give_up()
        loop = asyncio.get_running_loop()
        until_s = loop.time() + within_s
        while any(client in self.front.clients for client in told) and loop.time() < until_s:
            await asyncio.sleep(_LOOK_S)

    def close(self) -> None:
        """Close all connections at once, without answers, and all pools with their decision logs."""
        for client in list(self.front.clients):
            client.abort()
        self.pools.close()
