"""Further Python processes that compile kernels, or make runs in plain Python while kernels are compiled.

They are new interpreters, neither forked nor spawned: a script without a ``__main__`` guard may start them. They are told
what to do by a pipe, and end when it is closed and their job is done.
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
_LEAST = 19  # the niceness of a process that only takes time that is free
_left: list[subprocess.Popen[bytes]] = []  # processes that end by themselves


def can_start() -> bool:
    """Whether a `Child` can be made: on POSIX, where a new interpreter can be handed a pipe."""
    return os.name == "posix" and bool(sys.executable)


class Child:
    """A child process that carries out jobs, one at a time; it starts at once. Only where `can_start`.

    Args:
        shared: what all its jobs need; it can be pickled.
        is_plain: it runs kernels as plain Python.

    Attributes:
        pipe: send it a job (`executors.Job`), then receive an `executors.Ended`; `EOFError` or `OSError` = the child died.
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
        with suppress(OSError):  # it died already: its first answer is the end of the pipe
            self.pipe.send(sys.path)
            self.pipe.send_bytes(packed)

    def give_way(self) -> None:
        """Let the process use only processor time that no other process wants, from now on."""
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _LEAST)

    def leave(self) -> None:
        """Close the pipe and return at once; the process ends by itself after its present job, at the lowest priority."""
        self.give_way()
        self.pipe.close()
        _left.append(self._process)

    def end(self) -> None:
        """Kill the process, in the midst of a job too, and wait until it is gone."""
        self.pipe.close()
        self._process.kill()
        self._process.wait()


def serve(file: int) -> None:
    """Carry out jobs from a pipe until it is closed; the body of a `Child`'s process.

    The first messages at this descriptor are the parent's ``sys.path`` and the shared object.
    """
    pipe = Connection(file)

    def pause(seconds: float) -> None:
        """Wait while another process compiles. If the parent no longer wants the answer, end this process."""
        if wait([pipe], seconds):  # a job comes only after the answer to the last one, so the pipe is closed
            os._exit(0)

    locks().pause = pause
    with suppress(EOFError, OSError):
        sys.path[:] = pipe.recv()
        serve_spawned(pipe)
