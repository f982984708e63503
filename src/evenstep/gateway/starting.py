"""Start-up of a gateway: it answers requests within seconds, also on a machine that has no compiled kernels yet.

There it begins in plain Python, while a separate process compiles, and changes over when that is done (`late`). The
compiler's memory so returns to the system. Until the gateway's modules are imported, health checks are answered and other
requests are told to wait. This file imports no kernel.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from evenstep import kernel_cache, names, sockets
from evenstep.engines.requests import refusals
from evenstep.errors import InputError
from evenstep.gateway.config.config import GatewayConfig
from evenstep.gateway.config.layers import Sources

WHERE = "evenstep serve"
_BACKLOG = 4096
_RETRY_S = 5.0
_HEALTH = ("/healthz", "/health")
MEANWHILE = "until kernels are compiled, plain Python decides, with the same decisions"


def serve(sources: Sources, say: Callable[[str], None]) -> None:
    """Serve; kernels that are not compiled yet are compiled meanwhile. See `server.serve`.

    Raises:
        InputError: see `server.serve`.
    """
    sockets.need_gateway_extra(WHERE)
    with contextlib.ExitStack() as while_it_fails, contextlib.ExitStack() as until_imported:
        bound: list[socket.socket] = []

        def begin(config: GatewayConfig) -> None:
            listen = config.listen
            bound.append(while_it_fails.enter_context(sockets.listening(WHERE, listen.host, listen.port)))
            if not is_compiled(config.policy, config.predictor):
                kernel_cache.announce.meanwhile(MEANWHILE)
                kernel_cache.begins_plain = True
                if listen.tls is None:
                    until_imported.enter_context(WaitingRoom(bound[0]))

        settled = sources.settled(begin)
        from evenstep.gateway import server

        while_it_fails.pop_all()
    server.serve(sources, say, settled, bound[0])


def is_compiled(policy: str, predictor: str) -> bool:
    """Whether kernels of a policy and a predictor, of the dispatcher and of streams are known to be on disk."""
    if find_spec("numba") is None or os.environ.get("EVENSTEP_PLAIN") == "1":
        return True
    return kernel_cache.place().is_noted(_described(policy, predictor))


def note_compiled(policy: str, predictor: str) -> None:
    """Keep for the next start that these kernels are on disk."""
    if find_spec("numba") is not None:
        kernel_cache.place().note(_described(policy, predictor))


def _described(policy: str, predictor: str) -> str:
    """A policy, a predictor and the compiler; of a policy in a file its age, too."""
    file = Path()
    with contextlib.suppress(InputError):  # it is refused soon
        file = Path(names.parse(policy)["name"].partition(":")[0])
    age = file.stat().st_mtime_ns if file.suffix == ".py" and file.is_file() else 0
    return f"gateway {policy} {predictor} {age} numba {version('numba')}"


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
            self._answer(503, b"starting", "text/plain; charset=utf-8")
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
