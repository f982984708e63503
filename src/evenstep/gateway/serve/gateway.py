"""A running gateway as operation code sees it: its config, numbers, readiness and end.

Admin API, scraping, discovery and reloads live in another thread. They call it through `operate.control.ControlProxy`, which
runs each call on the gateway's loop.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any

from evenstep.dispatch.core import Dispatcher
from evenstep.gateway.config.config import GatewayConfig, check_files
from evenstep.gateway.config.worker import Worker
from evenstep.gateway.connections.callers import Callers, renumbered
from evenstep.gateway.serve.front import Front
from evenstep.gateway.serve.pools import Pools

_log = logging.getLogger("evenstep.gateway")
_LOOK_S = 0.05


class Gateway:
    """One gateway. Raises InputError if a client's key cannot be read or appears twice.

    Call all methods on `loop`: first `check`, then `start`. To end it, call `drain`, `drained`, `give_up` and `close` in
    order. Only `drained` and `give_up` wait.

    Args:
        config: the checked config at the start; `reload` replaces the attribute.
        loop: the loop it runs on.
        salt: key of the hashes of prompts and names; empty = hashes without a key.
        tls: for engines with https; None = trust the system's authorities.

    Attributes:
        front: takes requests; until `start` it refuses generations with status 503.
        pools: the workers of each model.
    """

    def __init__(
        self, config: GatewayConfig, loop: asyncio.AbstractEventLoop, salt: bytes, tls: ssl.SSLContext | None = None
    ) -> None:
        self.config = config
        self.pools = Pools(config, loop, tls)
        self.front = Front(self.pools, config, salt)
        self._waiting = {worker.name: worker for worker in config.fleet()}  # those that `start` will add

    def check(self) -> None:
        """Check that the config's workers can be added, and that files needed later are usable. Changes nothing.

        Raises InputError for an invalid worker, an unreadable secret or tokenizer, or a decision log that cannot be written.
        """
        check_files(self.config)
        for worker in self.config.fleet():
            self.pools.backend_of(worker)

    def start(self) -> None:
        """Stop refusing requests as "starting", and add the workers of the config that were not removed meanwhile.

        Call it once, when what decisions need is compiled. The gateway is ready (`Front.not_ready`) only when a worker is
        usable. Raises InputError for an invalid worker, secret or tokenizer; workers before it stay added.
        """
        self.front.why_not_ready = ""
        waiting, self._waiting = self._waiting, {}
        for name, worker in waiting.items():
            if name not in self.pools.workers:  # else a reload has added it already, perhaps described anew
                self.pools.add(worker)

    def snapshot(self) -> dict[str, Any]:
        """Everything measured: numbers, truth values, texts, None, and lists and mappings of them; a new mapping each time.

        ``models`` maps model -> `Dispatcher.snapshot()`; ``gateway`` has values of the data path itself, as `metrics_page`
        takes them.
        """
        front, pools = self.front, self.pools.all
        engines = [(name, one) for pool in pools for name, one in pool.backends.items()]
        return {
            "models": {pool.name: pool.snapshot() for pool in pools},
            "gateway": {
                "connections": len(front.clients),
                "answers_total": {str(code): count for code, count in sorted(front.codes.items())},
                "passing": len(front.passing),
                "generations": sum(pool.requests for pool in pools),
                "is_draining": front.is_draining,
                "not_ready": front.not_ready(),
                "worker_counted_here_only": {name: name in self.pools.counted_here for name in self.pools.workers},
                "decision_log_failed": {pool.name: bool(pool.log.why) for pool in pools if pool.log},
                "decision_log_failures_total": {pool.name: pool.log.failures for pool in pools if pool.log},
                "worker_counting_estimated": {name: not one.dialect.counts for name, one in engines},
                "worker_cannot_continue": {name: bool(one.endpoint.restarts) for name, one in engines},
            },
        }

    def workers(self) -> list[Worker]:
        """Every worker of the gateway, including those that are leaving, have not said their models, or wait for `start`."""
        return list({**self._waiting, **self.pools.workers}.values())

    def remove(self, name: str, drain: bool) -> None:
        """Remove a worker (`Pools.remove`); `start` does not add it then. Raises InputError if there is no such worker."""
        waited = self._waiting.pop(name, None)
        if waited is None or name in self.pools.workers:
            self.pools.remove(name, drain)

    def reload(self, config: GatewayConfig, tls: ssl.SSLContext | None = None) -> None:
        """Use another config, already `checked`, from now on. Its workers are not added or removed here (`Pools.add`).

        Keys of workers are read again. Its `slots` are used for workers that have none of their own. Workers whose
        description names no models are asked for them again. New connections to engines with https use `tls`; None = as
        before. Where it listens, its own TLS files, the other settings of known engines, and the decision log stay as they
        were. Load the kernels of its policy first, since a dispatcher is built with it. Raises InputError if the config
        cannot be used; nothing has changed then.
        """
        callers, settings = Callers(config), config.settings()
        Dispatcher(config.weighed_policy(), predictor=config.predictor, settings=settings)
        classes = renumbered(self.config.classes, config.classes)
        self.config = config
        if tls is not None:
            self.pools.renew(tls)
        self.pools.go_by(config)
        self.front.go_by(config, callers)
        for pool in self.pools.all:
            pool.reload(config.weighed_policy(), config.predictor, settings, classes)
        self.pools.ask_again()
        _log.info("reloaded", extra={"policy": config.policy})

    def drain(self) -> None:
        """Refuse new generations and requests to forward, close idle connections, let accepted ones end. Returns at once."""
        if self.front.is_draining:
            return
        running = sum(pool.requests for pool in self.pools.all)
        _log.info("draining: nothing new is accepted, what runs ends", extra={"requests": running})
        self.pools.drain()
        for client in list(self.front.clients):
            client.close_if_idle()

    async def drained(self, within_s: float) -> bool:
        """After `drain`: wait up to `within_s` seconds until each client has its whole answer. False = one has not."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + within_s
        while any(client.is_owed for client in self.front.clients):
            if loop.time() >= until_s:
                return False
            await asyncio.sleep(_LOOK_S)
        return True

    async def give_up(self, within_s: float) -> None:
        """After `drain`: end running answers with an error; wait up to `within_s` seconds until their connections close."""
        told = [client for client in self.front.clients if client.is_busy and client.job is not None]
        for client in told:
            if client.job is not None:  # the end of another job may have ended it
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
