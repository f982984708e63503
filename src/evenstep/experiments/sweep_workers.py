"""Where the runs of a sweep are made: in this process, or in processes of this machine that may die one by one.

A process that dies takes one run with it, and it is known which: each has a pipe of its own and one task at a time.
"""

from __future__ import annotations

import pickle
import signal
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import connection, get_context, resource_tracker
from multiprocessing.connection import Connection
from typing import Any, Protocol, cast

from evenstep.errors import EvenstepError
from evenstep.experiments.sweep.task import Ended, SourceKey, Task, Workloads, attempt, carry_out
from evenstep.workload.synthetic.yaml_file import Workload


class Executor(Protocol):
    """Carries out tasks, as many at a time as it has room for."""

    @property
    def free(self) -> int:
        """Tasks that can be given to it now."""
        ...

    def submit(self, task: Task) -> None:
        """Start a task; only while `free` is above 0."""
        ...

    def wait(self) -> Ended:
        """The next task that ends; only while there is one."""
        ...

    def close(self) -> None:
        """End all there is, finished or not."""
        ...


class Here:
    """One task at a time, in this process.

    Args:
        workloads: what was read already.
        before: called with each task before it starts, for instance to compile its kernel.
    """

    def __init__(self, workloads: Workloads, before: Callable[[Task], None] | None = None) -> None:
        self._workloads, self._before = workloads, before
        self._task: Task | None = None

    @property
    def free(self) -> int:
        return 1 if self._task is None else 0

    def submit(self, task: Task) -> None:
        self._task = task

    def wait(self) -> Ended:
        task, self._task = self._task, None
        assert task is not None
        if self._before is not None:
            self._before(task)
        try:
            return Ended(task, carry_out(task, self._workloads))
        except EvenstepError as error:
            return Ended(task, error=error)

    def close(self) -> None: ...


class Processes:
    """Tasks in freshly spawned processes, which die with this one.

    Args:
        count: processes at most; each starts with its first task.
        sources: workloads that were read already; every process gets them once.
    """

    def __init__(self, count: int, sources: Mapping[SourceKey, Workload]) -> None:
        self._count = count
        self._packed = pickle.dumps(dict(sources))
        self._idle: list[_Worker] = []
        self._busy: dict[Connection, tuple[_Worker, Task]] = {}

    @property
    def free(self) -> int:
        return self._count - len(self._busy)

    def submit(self, task: Task) -> None:
        while True:
            worker = self._idle.pop() if self._idle else _Worker(self._packed)
            with suppress(OSError):  # it died while it had nothing to do: take the next
                worker.pipe.send(task)
                self._busy[worker.pipe] = worker, task
                return

    def wait(self) -> Ended:
        ready = cast("Connection", connection.wait(list(self._busy))[0])
        worker, task = self._busy.pop(ready)
        try:
            ended: Ended = ready.recv()
        except (EOFError, OSError):
            return Ended(task, lost=worker.how_it_died())
        self._idle.append(worker)
        return ended

    def close(self) -> None:
        for worker in [*self._idle, *(worker for worker, _ in self._busy.values())]:
            worker.end()
        self._idle, self._busy = [], {}


class _Worker:
    """A process and the pipe to it."""

    def __init__(self, packed: bytes) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
        with _interrupts_later():
            self.process.start()
        theirs.close()
        self.pipe.send_bytes(packed)

    def how_it_died(self) -> str:
        self.pipe.close()
        self.process.join()
        code = self.process.exitcode or 0
        if code >= 0:
            return f"ended with code {code}"
        with suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
        return f"killed by signal {-code}"

    def end(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


@contextmanager
def _interrupts_later() -> Generator[None]:
    """Ctrl-C comes after the block, and never to what is started inside: it is for the process that asked."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # the first process starts it, and it would let the signal through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: Connection) -> None:
    """What a process does: one task after the other, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, OSError):
        workloads = Workloads(pickle.loads(pipe.recv_bytes()))
        while True:
            task: Any = pipe.recv()
            pipe.send(attempt(task, workloads))
