"""Start-up of a gateway: it answers requests within seconds, even on a machine that has no compiled kernels yet.

On such a machine it begins in plain Python, while a separate process compiles, and changes over when that is done (`late`).
So the compiler's memory returns to the system. The checked build is there to show faults of compiled code, so it never
decides in plain Python: requests wait for its kernels. Without TLS, the port answers health checks while the
gateway's modules are imported, and tells other requests to wait. This file imports no kernel.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from evenstep import kernel_cache, sockets
from evenstep.engines.requests import refusals
from evenstep.gateway.config.config import WHERE, GatewayConfig
from evenstep.gateway.config.layers import Sources
from evenstep.gateway.operate.kept_kernels import is_compiled

_BACKLOG = 4096
_RETRY_S = 5.0
_HEALTH = ("/healthz", "/health")
MEANWHILE = "until kernels are compiled, plain Python decides, with the same decisions"
UNTIL_CHECKED = "the checked build answers requests once its kernels are compiled; until then it tells them to wait"


def serve(sources: Sources, say: Callable[[str], None]) -> None:
    """Run the gateway until signals end it. Without compiled kernels, answer on its port while its modules are imported.

    It reads `sources` and binds the port itself. With TLS, nothing is answered until then. Raises InputError for an invalid
    config or a port that is taken, and what `server.serve` raises.
    """
    hangups = list[int]()  # hang-up signals, which by default end the process; a reload follows
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, lambda number, _frame: hangups.append(number))
    with contextlib.ExitStack() as while_it_fails, contextlib.ExitStack() as until_imported:
        bound: list[socket.socket] = []

        def begin(config: GatewayConfig) -> None:
            listen = config.listen
            bound.append(while_it_fails.enter_context(sockets.listening(WHERE, listen.host, listen.port)))
            if not is_compiled(config.policy, config.predictor):
                kernel_cache.begins_plain = not kernel_cache.is_checked()
                kernel_cache.announce.meanwhile(MEANWHILE if kernel_cache.begins_plain else UNTIL_CHECKED)
                if listen.tls is None:
                    until_imported.enter_context(waiting_room(bound[0]))

        settled = sources.settled(begin)
        from evenstep.gateway import server

        while_it_fails.pop_all()
    server.serve(sources, say, settled, bound[0], hangups)


@contextlib.contextmanager
def waiting_room(bound: socket.socket) -> Generator[None]:
    """Answer on the gateway's socket during a ``with`` block: healthy, not ready, and 503 to everything else.

    Each connection has a thread, which answers once. The gateway's own socket, `bound`, begins to listen here and stays open
    after the block. Its backlog keeps unanswered connections for the gateway. Raises InputError for a port that is taken.
    """
    sockets.listen(WHERE, bound, _BACKLOG)
    host, port, *_ = bound.getsockname()
    server = ThreadingHTTPServer((host, port), _Answer, bind_and_activate=False)
    server.socket.close()
    server.socket = bound.dup()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.socket.close()


class _Answer(BaseHTTPRequestHandler):
    """Sends one answer to each request, and closes the connection."""

    timeout = 5.0
    server_version, sys_version = "evenstep", ""

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Return `_reply` for every ``do_METHOD`` that `http.server` looks for, so that each HTTP method is answered."""
        if not name.startswith("do_"):
            raise AttributeError(name)
        return self._reply

    def _reply(self) -> None:
        """Answer by the path: health checks with 200, ``/readyz`` with "starting" and 503, others with a refusal and 503."""
        path = self.path.partition("?")[0]
        status, body, kind = 503, b"starting", "text/plain; charset=utf-8"
        if path in _HEALTH:
            status, body = 200, b"ok"
        elif path != "/readyz":
            body, kind = refusals.overloaded(_RETRY_S).body(), "application/json"
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
        """Log nothing."""
