"""The gateway's listening socket, and the process around it."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from evenstep import compiled, sockets
from evenstep.config.layers import Settled
from evenstep.errors import InputError
from evenstep.gateway.config.config import WHERE, GatewayConfig
from evenstep.gateway.config.layers import Sources, placed
from evenstep.gateway.config.secrets import salt_of
from evenstep.gateway.config.sections import Tls
from evenstep.gateway.connections.client import Client
from evenstep.gateway.connections.engine import KEPT_BY_THE_SYSTEM
from evenstep.gateway.connections.tls import client_context, server_context
from evenstep.gateway.operate.compiling import begins_plain, compile_and_warm, try_plain
from evenstep.gateway.operate.logs import Logs, logging_to
from evenstep.gateway.operate.operation import Operation
from evenstep.gateway.serve.gateway import Gateway
from evenstep.wording import counted

_log = logging.getLogger("evenstep.gateway")
_BACKLOG = 4096
_OTHER_FILES = 100  # open files besides those of clients and of their calls to engines
_LAST_WORDS_S = 1.0  # time for clients to read that their answer is cancelled
_SWITCH_S = 0.0005  # the operation thread yields to the data path this soon; Python's default is 5 ms
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # parameters of glibc's mallopt; their values follow
_KEPT_BYTES, _LARGE_BYTES = 16 << 20, 2 << 20
_LOOK_S = 0.1  # between two checks whether the gateway is ready


class Server:
    """A gateway that listens; `open` in a running loop, `close` when done.

    Args:
        config: a checked config.
        is_scraped: whether the host reports readings of the workers' metrics pages. If so, a worker with a page to read
            counts as full until its first reading.
        bound: a bound socket that does not listen yet; left out = `open` makes one from ``config.listen``.

    Attributes:
        gateway: set by `open`.
        port: the TCP port it listens at; 0 before `open`.
        begins_plain: it decides in plain Python until kernels are compiled.
        contexts: set by `open`: the listener's TLS context, its files and their config section; empty = plain HTTP.
    """

    def __init__(self, config: GatewayConfig, is_scraped: bool = False, bound: socket.socket | None = None) -> None:
        self.config = config
        self.port = 0
        self.contexts: list[tuple[ssl.SSLContext, Tls, str]] = []
        self._is_scraped, self._bound = is_scraped, bound
        self.begins_plain = begins_plain()
        self._servers: list[asyncio.Server] = []
        self._warming: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Listen, and start a background task that compiles kernels and adds the workers; `ready` waits for it.

        Sets `gateway`, `port` and `contexts`. Until workers are added, generations are refused with status 503. Raises
        InputError for a taken port, an address that is not this machine's, an invalid worker in the config, an unreadable
        secret, certificate or tokenizer, or an unwritable decision log.
        """
        config, loop = self.config, asyncio.get_running_loop()
        bound = self._bound or sockets.listening(WHERE, config.listen.host, config.listen.port)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KEPT_BY_THE_SYSTEM)  # accepted sockets inherit it
        try:
            tls = config.listen.tls
            if tls is not None:
                self.contexts = [(server_context(tls, "listen.tls"), tls, "listen.tls")]
            self.gateway = Gateway(config, loop, salt_of(config.decisions), client_context(config.engines))
            self.gateway.pools.is_scraped = self._is_scraped
            self.gateway.check()
            sockets.listen(WHERE, bound, _BACKLOG)
        except BaseException:
            bound.close()
            raise
        front = self.gateway.front
        shown = self.contexts[0][0] if self.contexts else None
        limits = config.limits
        waits: dict[str, Any] = {"ssl_handshake_timeout": limits.head_s, "ssl_shutdown_timeout": limits.idle_s}
        for handle in sockets.handles(bound, loop):
            server = await loop.create_server(
                lambda: Client(front), sock=handle, backlog=_BACKLOG, ssl=shown, **(waits if shown else {})
            )
            self._servers.append(server)
        self.port = bound.getsockname()[1]
        self._warming = loop.create_task(self._warm())

    async def ready(self) -> None:
        """After `open`: wait until kernels are compiled or loaded and the workers of the config are added.

        It waits for the kernels even if plain Python decides already. Workers need not have said yet which models they serve
        (`Front.not_ready`). Raises the error of compiling or adding workers.
        """
        assert self._warming is not None
        await asyncio.shield(self._warming)

    async def drain(self, within_s: float) -> bool:
        """Stop listening, refuse new requests, and wait up to `within_s` seconds for running ones. True if all ended."""
        for server in self._servers:
            server.close()
        self.gateway.drain()
        return await self.gateway.drained(within_s)

    async def close(self) -> None:
        """Stop listening and warming; close every connection at once, without answers, and close the decision logs."""
        if self._warming is not None:
            self._warming.cancel()
        for server in self._servers:
            server.close()
        self.gateway.close()
        await asyncio.sleep(0)

    async def _warm(self) -> None:
        """Compile and load kernels. Start the gateway before that if it begins in plain Python, else after that."""
        gateway = self.gateway
        if self.begins_plain:
            await try_plain(self.config.policy, self.config.predictor)
            gateway.start()
        await compile_and_warm(lambda: (gateway.config.policy, gateway.config.predictor))
        if not self.begins_plain:
            gateway.start()


def serve(
    sources: Sources,
    say: Callable[[str], None],
    settled: Settled[GatewayConfig],
    bound: socket.socket,
    hangups: Collection[int] = (),
) -> None:
    """Listen until SIGTERM or SIGINT, then let requests finish; a second signal stops at once. SIGHUP reloads the config.

    Returns when the gateway has ended. Requests may run for ``limits.drain_s`` seconds more; then they end with an error.

    Args:
        sources: origin of the config, read again at each reload.
        say: called with one line at a time: addresses and assumptions at the start, later that it is ready and that it
            drains.
        settled: the config at the start.
        bound: a bound socket for clients, which does not listen yet.
        hangups: SIGHUP signals that came before this function handles them; if there are any, it reloads once.

    Raises:
        InputError: what `Server.open` or `Operation.start` refuses, such as a port that is taken.
        Exception: as raised by `Server.ready`.
    """

    async def run(logs: Logs) -> None:
        loop = asyncio.get_running_loop()
        ending, at_once = asyncio.Event(), asyncio.Event()

        def end() -> None:
            (at_once if ending.is_set() else ending).set()

        sockets.on_end(end)
        server = Server(settled.value, is_scraped=True, bound=bound)
        try:
            await server.open()
        except InputError as error:
            raise placed(error, settled.origin) from None
        operation = Operation(sources, settled, server.gateway, loop, logs=logs, contexts=server.contexts)
        try:
            await loop.run_in_executor(None, operation.start)
            for line in (*introduction(server), *operation.introduction(), *few_files):
                say(line)
            telling = loop.create_task(_say_when_ready(server, say))
            if sys.platform != "win32":
                loop.add_signal_handler(signal.SIGHUP, operation.reload)
                if hangups:
                    operation.reload()
            await _until_signal(server, say, ending, at_once)
            telling.cancel()
        finally:
            await loop.run_in_executor(None, operation.stop)
            await server.close()

    few_files = _few_files(settled.value.limits.connections)
    _keep_freed_memory()
    with logging_to(settled.value.log) as logs, asyncio.Runner(loop_factory=sockets.loop_factory()) as runner:
        runner.run(run(logs))


def _few_files(connections: int) -> list[str]:
    """Allow as many open files as so many clients need; a line that says what to raise if the system allows fewer."""
    needed = 2 * connections + _OTHER_FILES
    files = sockets.allow_files(needed)
    if files == needed:
        return []
    return [
        f"open files: {files}, too few for limits.connections: {connections} (each may need 2); raise the hard limit "
        f"(ulimit -Hn, LimitNOFILE) to {needed}, or lower limits.connections to {max(1, (files - _OTHER_FILES) // 2)}"
    ]


def _keep_freed_memory() -> None:
    """Let the C library keep the memory of large bodies for the next ones: fresh pages cost more than to copy a body."""
    with suppress(OSError, AttributeError, TypeError):  # another C library than glibc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


async def _say_when_ready(server: Server, say: Callable[[str], None]) -> None:
    """Wait until requests are answered, and say so in one line. Wait for compiled code after a plain start, and say so."""
    gateway = server.gateway
    while gateway.front.not_ready():
        await asyncio.sleep(_LOOK_S)
    models = ", ".join(pool.name for pool in gateway.pools.all if pool.backends)
    say(f"ready: {models} on {counted(len(gateway.workers()), 'worker')}")
    if server.begins_plain:
        with suppress(Exception):  # `_until_signal` raises it
            await server.ready()
            say("kernels are compiled: from now on compiled code decides")


async def _until_signal(server: Server, say: Callable[[str], None], ending: asyncio.Event, at_once: asyncio.Event) -> None:
    """Serve until `ending`, then drain for up to ``limits.drain_s`` or until `at_once`; what still runs ends with an error.

    An error of `Server.ready` ends it at once and is raised, since the gateway could never get ready.
    """
    loop = asyncio.get_running_loop()

    def begun(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            ending.set()

    sys.setswitchinterval(_SWITCH_S)
    sockets.collect_rarely()
    beginning = loop.create_task(server.ready())
    beginning.add_done_callback(begun)
    await ending.wait()
    if beginning.done():
        beginning.result()
    beginning.cancel()
    say("draining: nothing new is accepted; once more ends at once")
    draining = loop.create_task(server.drain(server.gateway.config.limits.drain_s))
    asked = loop.create_task(at_once.wait())
    await asyncio.wait((draining, asked), return_when=asyncio.FIRST_COMPLETED)
    if not (draining.done() and draining.result()):
        _log.warning("requests were still running when the gateway ended")
        await server.gateway.give_up(_LAST_WORDS_S)
    for task in (draining, asked):
        task.cancel()


def introduction(server: Server) -> list[str]:
    """The start-up lines of an open server: address, policy, number of workers, and what was assumed about them."""
    config = server.config
    fleet = config.fleet()
    groups = {worker.group or worker.name for worker in fleet if worker.role == "decode"}
    prefillers = sum(worker.role == "prefill" for worker in fleet)
    scheme = "https" if config.listen.tls else "http"
    lines = [
        f"{scheme}://{sockets.in_url(config.listen.host)}:{server.port}  policy {config.policy}, kernels: {compiled.mode()}"
    ]
    split = f", {prefillers} of them prefill" if prefillers else ""
    lines.append(f"{counted(len(fleet), 'worker')}{split}, {counted(len(groups), 'barrier group')}")
    if not fleet and not config.discovery.dns and not config.discovery.kubernetes:
        lines.append("no worker yet: give --worker URL, or POST one to /workers of the admin API")
    if any(entry.slots is None for entry in config.workers):
        lines.append(f"slots: {config.slots} a worker where nothing else was said (--slots)")
    alone = [w.name for w in fleet if not w.group and w.role == "decode"]
    if len(alone) > 1:
        lines.append("groups: each worker is one of its own; --group says which ranks share a barrier")
    return lines
