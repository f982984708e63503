"""Start-up of a gateway: answers health checks and asks other requests to wait while kernels compile.

The compiler runs in a separate process, so its memory returns to the system; without a folder for compiled kernels, this
process compiles instead. This file imports no kernel.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from types import FrameType

from evenstep import compiled, kernel_cache, names, sockets
from evenstep.engines.requests import refusals
from evenstep.gateway.config.config import GatewayConfig
from evenstep.gateway.config.layers import Sources

WHERE = "evenstep serve"
COMPILE = "import sys; from evenstep.gateway.operate.compiling import warm_all; warm_all(*sys.argv[1:])"
_BACKLOG = 4096
_RETRY_S = 5.0
_HEALTH = ("/healthz", "/health")
_KERNELS = (
    "dispatch/rounds/projections_kernel.py",
    "dispatch/rounds/deciding_kernel.py",
    "dispatch/deliveries_kernel.py",
    "dispatch/requests/sending.py",
    "engines/streams/template_kernel.py",
    "gateway/connections/relaying.py",
)


def serve(sources: Sources, say: Callable[[str], None]) -> None:
    """Compile the gateway's kernels, then serve; see `server.serve`.

    Raises:
        InputError: see `server.serve`.
    """
    settled = sources.settled()
    sockets.need_gateway_extra(WHERE)
    listen = settled.value.listen
    bound = sockets.listening(WHERE, listen.host, listen.port)
    with contextlib.ExitStack() as until_imported:
        if not is_compiled(settled.value.policy):
            kernel_cache.announce()
            if listen.tls is None:
                until_imported.enter_context(WaitingRoom(bound))
            if kernel_cache.place().is_kept and not _compile(settled.value):
                bound.close()
                return
        from evenstep.gateway import server
    server.serve(sources, say, settled, bound)


def is_compiled(policy: str) -> bool:
    """Whether the kernels of a policy, of the dispatcher and of streams are on disk, judged by their folders."""
    if find_spec("numba") is None or os.environ.get("EVENSTEP_PLAIN") == "1":
        return True
    files = [kernel_cache.ROOT / name for name in _KERNELS]
    own = compiled.kernel_file(names.build("routing", names.parse(policy)))
    place = kernel_cache.place()
    return all(place.has(file) for file in [*files, *([own] if own is not None else [])])


def _compile(config: GatewayConfig) -> bool:
    """Compile in a process of its own; whether to go on: a signal ends both."""
    ended, started = list[int](), list[subprocess.Popen[bytes]]()

    def end(number: int, frame: FrameType | None) -> None:
        ended.append(number)
        for process in started:
            process.kill()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        command = [sys.executable, "-c", COMPILE, config.policy, config.predictor]
        started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        if ended:  # the signal came before the process was there
            started[0].kill()
        started[0].wait()  # where it fails, this process compiles
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return not ended


class WaitingRoom:
    """Answers on a socket of the gateway until the gateway does: healthy, not ready, and 503 to everything else.

    Args:
        bound: the gateway's own socket; clients that come last wait in it for the gateway.
    """

    def __init__(self, bound: socket.socket) -> None:
        bound.listen(_BACKLOG)
        host, port, *_ = bound.getsockname()
        self._server = ThreadingHTTPServer((host, port), _Answer, bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = bound.dup()
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> WaitingRoom:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.socket.close()


class _Answer(BaseHTTPRequestHandler):
    """One answer, and the connection is closed."""

    timeout = 5.0
    server_version, sys_version = "evenstep", ""

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Every method is answered; `http.server` looks for ``do_`` and its name."""
        if not name.startswith("do_"):
            raise AttributeError(name)
        return self._reply

    def _reply(self) -> None:
        path = self.path.partition("?")[0]
        if path in _HEALTH:
            self._answer(200, b"ok", "text/plain; charset=utf-8")
        elif path == "/readyz":
            self._answer(503, b"compiling kernels", "text/plain; charset=utf-8")
        else:
            self._answer(503, refusals.overloaded(_RETRY_S).body(), "application/json")

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if status != 200:
            self.send_header("Retry-After", f"{_RETRY_S:.0f}")
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged of it."""
