"""Starts child Python processes that compile kernels, or make runs in plain Python while kernels are compiled.

A child is a new interpreter, neither forked nor spawned, so a script without a ``__main__`` guard may start it. It gets jobs
through a pipe. When the pipe is closed, it ends after its job, or at once while it waits for a kernel that another compiles.
"""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from evenstep.experiments.executors import interrupts_later, serve_spawned
from evenstep.kernel_locks import locks

_CODE = "import sys; from evenstep.experiments.children import serve; serve(int(sys.argv[1]))"
_LEAST = 19  # niceness: lowest priority
_left: list[subprocess.Popen[bytes]] = []  # processes that `leave` let go, kept until they have ended


def can_start() -> bool:
    """True if a `Child` can be started here: on POSIX, where a new interpreter can inherit a pipe."""
    return os.name == "posix" and bool(sys.executable)


class Child:
    """A child process that carries out jobs, one at a time. It starts when this object is made, which needs `can_start`.

    Args:
        shared: object that all its jobs need; it is pickled.
        is_plain: the child runs kernels as plain Python.

    Attributes:
        pipe: send a job (`executors.Job`), then receive an `executors.Ended`. `EOFError` or `OSError`: the child died.
    """

    def __init__(self, shared: Any, *, is_plain: bool = False) -> None:
        _left[:] = [process for process in _left if process.poll() is None]
        packed = pickle.dumps(shared)
        ours, theirs = socket.socketpair()
        with theirs, interrupts_later():
            self._process = subprocess.Popen(
                [sys.executable, "-c", _CODE, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, "EVENSTEP_PLAIN": "1"} if is_plain else None,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self.pipe = Connection(ours.detach())
        with suppress(OSError):  # it died already: the next receive raises EOFError
            self.pipe.send(sys.path)
            self.pipe.send_bytes(packed)

    def give_way(self) -> None:
        """Give the process the lowest priority: from now on it uses only processor time that no other process wants."""
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _LEAST)

    def leave(self) -> None:
        """Close the pipe and return at once. The process ends by itself after its present job, at the lowest priority."""
        self.give_way()
        self.pipe.close()
        _left.append(self._process)

    def end(self) -> None:
        """Kill the process, even in the middle of a job, and wait until it is gone."""
        self.pipe.close()
        self._process.kill()
        self._process.wait()


def serve(file: int) -> None:
    """Carry out jobs from the pipe at file descriptor `file` until it is closed; the main function of a `Child`'s process.

    The first messages are the parent's ``sys.path`` and the pickled shared object; then come jobs.
    """
    pipe = Connection(file)

    def pause(seconds: float) -> None:
        """Wait up to `seconds` while another process compiles. End this process if the parent has closed the pipe."""
        if wait([pipe], seconds):  # a job comes only after the answer to the last one, so the pipe is closed
            os._exit(0)

    locks().pause = pause
    with suppress(EOFError, OSError):
        sys.path[:] = pipe.recv()
        serve_spawned(pipe)
