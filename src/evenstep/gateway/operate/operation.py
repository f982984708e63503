"""All work outside the data path, in a thread with its own event loop.

It runs the admin API, the metrics page, metric scraping, discovery, reloads and the status report. It reaches the gateway
only through the `ControlProxy`. If it is busy or fails, requests are still served.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any

from evenstep.config.layers import Settled
from evenstep.errors import InputError
from evenstep.gateway.config.config import GatewayConfig
from evenstep.gateway.config.layers import Sources, placed
from evenstep.gateway.config.sections import Tls
from evenstep.gateway.connections.pages import Pages
from evenstep.gateway.connections.tls import server_context
from evenstep.gateway.operate.control import ControlProxy, Snapshots
from evenstep.gateway.operate.discovery import discover, sources
from evenstep.gateway.operate.logs import Logs, access
from evenstep.gateway.operate.membership import Membership
from evenstep.gateway.operate.reloading import Reloader
from evenstep.gateway.operate.scraping import Scraper, preflight
from evenstep.gateway.operate.status import Status
from evenstep.gateway.serve.ended import Attainment, Ended, Sink
from evenstep.gateway.serve.gateway import Gateway
from evenstep.sockets import in_url

if TYPE_CHECKING:
    from evenstep.gateway.operate.admin import AdminApi
    from evenstep.gateway.operate.spans import Spans

_log = logging.getLogger("evenstep.gateway.operate.operation")
_MINUTE_S = 60.0
_STOP_S = 5.0


class Operation:
    """The operation thread: `start` it before the gateway is announced, `stop` it when the gateway has ended.

    Args:
        sources: origin of the config, read again at each reload.
        settled: the config.
        gateway: the gateway.
        loop: the gateway's loop; it need not run yet.
        logs: gets new log settings at a reload; None = nothing does.
        contexts: TLS contexts of the gateway's own listeners; a reload renews their certificates.

    Attributes:
        port: TCP port of the admin API, once started; 0 = no admin API.
    """

    def __init__(
        self,
        sources: Sources,
        settled: Settled[GatewayConfig],
        gateway: Gateway,
        loop: asyncio.AbstractEventLoop,
        *,
        logs: Logs | None = None,
        contexts: list[tuple[ssl.SSLContext, Tls, str]] | None = None,
    ) -> None:
        self.port = 0
        self._sources, self._settled, self._logs = sources, settled, logs
        self._attainment = Attainment(settled.value.classes)
        self._contexts = list(contexts or [])
        self._proxy = ControlProxy(gateway, loop)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._reloader: Reloader | None = None
        self._reloading: Future[None] | None = None  # a reference, so that it is not garbage-collected
        self._spans: Spans | None = None
        self._reloaded = asyncio.Event()
        self._running = AsyncExitStack()
        self._fallbacks: Counter[tuple[str, str]] = Counter()

    def start(self) -> None:
        """Start the thread; returns when the admin port listens and the engines have been checked.

        If the default admin port is taken, any free one is used. The gateway's loop must be running, or run later. Raises
        InputError if the configured port is taken, a file or key is unreadable, or an engine contradicts the config.
        """
        started: Future[None] = Future()
        work = self._run(started)
        self._thread = threading.Thread(target=asyncio.run, args=(work,), name="evenstep-operation", daemon=True)
        self._thread.start()
        try:
            started.result()
        except BaseException as error:
            self._thread.join()
            if isinstance(error, InputError):
                raise placed(error, self._settled.origin) from None
            raise

    def introduction(self) -> list[str]:
        """The start-up line with the address of the admin API, as a list; empty without an admin API. Only after `start`."""
        admin = self._settled.value.admin
        if not self.port:
            return []
        scheme = "https" if admin.tls else "http"
        taken = f"; {admin.port} is taken" if admin.port and self.port != admin.port else ""
        return [f"{scheme}://{in_url(admin.host)}:{self.port}/metrics and the admin API (--admin-port{taken})"]

    def stop(self) -> None:
        """End the thread, and wait for it up to 5 seconds; the gateway may already be gone. Does nothing before `start`."""
        if self._loop is not None and self._end is not None and self._thread is not None:
            with suppress(RuntimeError):  # its loop is closed, because the start failed
                self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(_STOP_S)

    def reload(self) -> None:
        """From any thread, begin to read the config again; the log tells the result. Does nothing before `start`."""
        if self._loop is not None and self._reloader is not None:
            self._reloading = asyncio.run_coroutine_threadsafe(_quietly(self._reloader.reload()), self._loop)

    async def _run(self, started: Future[None]) -> None:
        """Run the operation: start all parts, complete `started` with success or the error, and end them after `stop`."""
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        config = self._settled.value
        try:
            await self._begin(config)
        except BaseException as error:
            await self._running.aclose()
            started.set_exception(error)
            return
        started.set_result(None)
        await self._end.wait()
        await self._running.aclose()

    async def _begin(self, config: GatewayConfig) -> None:
        """Start all parts, and register how each is ended, in reverse order."""
        pages = Pages(config.engines)
        follow = sources(config.discovery)
        if config.traces.endpoint:
            from evenstep.gateway.operate.spans import Spans

            self._spans = Spans(config.traces)
            self._running.push_async_callback(asyncio.to_thread, self._spans.close)
        silent = await preflight(pages, config.fleet(), config.engines.scrape_timeout_s)
        for name in silent:
            _log.warning("metrics cannot be read; the worker counts as full until they can", extra={"worker": name})
        scraper = Scraper(self._proxy, config.engines, pages)
        membership = Membership(self._proxy, config.fleet(), scraper.follow)
        heard: list[Callable[[GatewayConfig], None]] = [
            lambda new: scraper.reload(new.engines),
            lambda new: self._attainment.reload(new.classes),
            self._set_sinks,
            lambda new: self._reloaded.set(),
        ]
        logs = self._logs
        if logs is not None:
            heard.append(lambda new: logs.reload(new.log))
        reloader = Reloader(self._sources, self._settled, self._proxy, membership, heard, self._contexts, pages.renew)
        snapshots = Snapshots(self._proxy, lambda: self._own(scraper, reloader))
        api = await self._listen(config, snapshots, membership, reloader)
        if api is not None:
            heard.append(lambda new: api.renew(new.admin))
        self._running.push_async_callback(scraper.stop)
        self._reloader = reloader
        self._set_sinks(config)
        scraper.follow(config.fleet())
        work = [discover(name, one, membership) for name, one in follow.items()]
        work += [self._report(snapshots), self._tell_status(snapshots, reloader)]
        self._running.push_async_callback(_ended, [asyncio.create_task(one) for one in work])

    async def _listen(
        self, config: GatewayConfig, snapshots: Snapshots, membership: Membership, reloader: Reloader
    ) -> AdminApi | None:
        """Serve the admin API, if it is enabled, and set `port`. Raises InputError if it cannot listen there."""
        from aiohttp import web

        from evenstep.gateway.operate.admin import AdminApi

        admin = config.admin
        if not admin.enabled:
            return None
        api = AdminApi(admin, self._proxy, snapshots, membership, reloader)
        context = server_context(admin.tls, "admin.tls") if admin.tls else None
        if context is not None and admin.tls is not None:
            self._contexts.append((context, admin.tls, "admin.tls"))
        silent = logging.getLogger("evenstep.gateway.operate.admin.http")  # invalid HTTP is the client's fault
        silent.setLevel(logging.CRITICAL)
        runner = web.AppRunner(api.app(), access_log=None, logger=silent, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        self._running.push_async_callback(runner.cleanup)
        try:
            await web.TCPSite(runner, admin.host, admin.port, ssl_context=context).start()
        except (OSError, UnicodeError) as error:  # UnicodeError: an invalid host name
            is_foreign = isinstance(error, UnicodeError | socket.gaierror)
            if is_foreign or error.errno in (None, errno.EADDRNOTAVAIL):  # None: Python 3.13 says it so
                raise InputError("admin", "host", admin.host, "an address of this machine") from None
            if self._settled.origin["admin.port"] != "default":
                hint = f"{error.strerror}. Give another --admin-port, or 0 for any free one."
                raise InputError("admin", "port", f"{admin.host}:{admin.port}", "a free port", hint) from None
            await web.TCPSite(runner, admin.host, 0, ssl_context=context).start()  # `introduction` reports it
        self.port = runner.addresses[0][1]
        return api

    def _set_sinks(self, config: GatewayConfig) -> None:
        """Let the gateway report ended requests to what `config` asks for: access log, spans, and counts of classes."""
        of_classes: tuple[Sink, ...] = (self._attainment.ended,) if config.classes else ()
        sinks: list[Sink] = []
        if config.log.access:
            sinks.append(access)
        if self._spans is not None:
            spans, loop = self._spans, asyncio.get_running_loop()

            def hand_over(one: Ended) -> None:
                with suppress(RuntimeError):  # the operation's loop is closed
                    loop.call_soon_threadsafe(spans.ended, one)

            sinks.append(hand_over)
        self._proxy.tell(self._proxy.gateway.front.listen_to, tuple(sinks), (*of_classes, *sinks))

    def _own(self, scraper: Scraper, reloader: Reloader) -> dict[str, Any]:
        """The metrics of operation itself, by name without ``evenstep_``."""
        found = self._attainment
        return {
            "scrapes_total": dict(scraper.results),
            "reloads_total": dict(reloader.results),
            "class_weight": found.weights(),
            "class_requests_total": found.counts(),
            "log_lines_dropped_total": self._logs.dropped if self._logs else 0,
        }

    async def _report(self, snapshots: Snapshots) -> None:
        """Call `report` once a minute until cancelled."""
        while True:
            await asyncio.sleep(_MINUTE_S)
            await _quietly(self.report(snapshots))

    async def _tell_status(self, snapshots: Snapshots, reloader: Reloader) -> None:
        """Log a status line every ``log.status_s`` seconds of the config in force, until cancelled; 0 = no lines."""
        status, loop = Status(), asyncio.get_running_loop()
        told_s = tried_s = loop.time()
        while True:
            self._reloaded.clear()
            every_s = reloader.settled.value.log.status_s
            with suppress(TimeoutError):
                async with asyncio.timeout_at(tried_s + every_s if every_s else None):
                    await self._reloaded.wait()
                continue
            tried_s = loop.time()
            with suppress(TimeoutError):
                found, _ = await snapshots.latest()
                now_s = loop.time()
                _log.info("status", extra=status.since(found, now_s - told_s))
                told_s = now_s

    async def report(self, snapshots: Snapshots) -> None:
        """For each model, log how many rounds fell back to least load since the last report, by reason, if any did.

        Raises TimeoutError if the data path has never answered.
        """
        found, _ = await snapshots.latest()
        for model, one in found["models"].items():
            since: dict[str, int] = {}
            for reason, count in one["fallback_total"].items():
                more = count - self._fallbacks[model, reason]
                self._fallbacks[model, reason] = count
                if more:
                    since[reason] = more
            if since:
                why = one["fallback_last"]["why"] if one["fallback_last"] else ""
                _log.warning("rounds fell back to least load", extra={"model": model, **since, "last": why})


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel tasks, and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _quietly(work: Coroutine[Any, Any, object]) -> None:
    """Await this work and raise nothing: InputError and TimeoutError are ignored, any other error is logged as a bug."""
    try:
        await work
    except (InputError, TimeoutError):
        return
    except Exception:
        _log.exception("operation failed; this is a bug of evenstep")
