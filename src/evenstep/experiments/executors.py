"""Executors carry out jobs: `Here` in this process, `Processes` in several of this machine, `on_ray.OnRay` on a Ray cluster.

A job is a small value that can be pickled. The data that all jobs need (`Workloads`, or a plan with its traces) reaches
each process once. Each of `Processes` has its own pipe and one job at a time, so its death tells which job was lost.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol, cast

from evenstep.errors import EvenstepError, InputError
from evenstep.kernel_cache import ROOT

#: Number of times that a job is started again after its process died.
RETRIES = 1
_KEPT = (EvenstepError, MemoryError, OSError)


class Job(Protocol):
    """One job, such as a run; a value that can be pickled.

    Messages call it by its `label`. Labels must differ between jobs, which is not checked: deaths are counted by label.
    """

    @property
    def label(self) -> str: ...

    def carry_out(self, shared: Any) -> Any:
        """Do the job with the object that all jobs share, and return a result that can be pickled."""
        ...


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that ended: with a result, with an error, or by the death of its process."""

    job: Any
    result: Any = None  # its return value
    error: Exception | None = None  # the exception that it raised, or None
    lost: str = ""  # how its process died before the job ended, as text; otherwise empty
    seconds: float = 0.0  # wall-clock time of a job with a result; 0 = not measured


class Executor(Protocol):
    """Carries out jobs, one or several at a time: call `submit` while `free` is above 0, then `wait` for one to end."""

    @property
    def free(self) -> int:
        """The number of further jobs that can be submitted now."""
        ...

    def submit(self, job: Job) -> None:
        """Start a job (`Here` only keeps it until `wait`). Call this only while `free` is above 0."""
        ...

    def wait(self) -> Ended:
        """Block until any submitted job ends or its process dies, and return it. Call this only while one is outstanding."""
        ...

    def close(self) -> None:
        """End all processes, even those with unfinished jobs."""
        ...


class Here:
    """Carries out one job at a time in this process: `submit` keeps the job, `wait` carries it out.

    An `EvenstepError` of the job becomes its error; any other exception propagates from `wait`. `before` is called with each
    job before it starts, for instance to compile its kernel. The time of `before` is not part of ``Ended.seconds``.
    """

    def __init__(self, shared: Any, before: Callable[[Any], None] | None = None) -> None:
        self._shared, self._before = shared, before
        self._job: Any = None

    @property
    def free(self) -> int:
        return 1 if self._job is None else 0

    def submit(self, job: Job) -> None:
        self._job = job

    def wait(self) -> Ended:
        job, self._job = self._job, None
        if self._before is not None:
            self._before(job)
        started = time.perf_counter()
        try:
            return Ended(job, job.carry_out(self._shared), seconds=time.perf_counter() - started)
        except EvenstepError as error:
            return Ended(job, error=error)

    def close(self) -> None: ...


class Processes:
    """Carries out jobs in at most `count` processes, which die with this one. A process starts if a job finds no idle one.

    Processes are forked where that is safe (`can_fork`), so they have every kernel and trace of this process. Elsewhere they
    are spawned and get `shared` through the pipe. If that cannot be pickled or loaded, as a policy of a notebook, an
    `InputError` says so. An exception of a job becomes its error (`attempt`). If a process dies, its job ends as `lost`.
    """

    def __init__(self, count: int, shared: Any) -> None:
        self._count, self._shared = count, shared
        try:
            self._packed = None if can_fork() else pickle.dumps(shared)
        except Exception as error:
            said = _not_loaded(error)
            if said is error:
                raise
            raise said from error
        self._idle: list[_Worker] = []
        self._busy: dict[Connection, tuple[_Worker, Any]] = {}

    @property
    def free(self) -> int:
        return self._count - len(self._busy)

    def submit(self, job: Job) -> None:
        while self._idle:
            worker = self._idle.pop()
            with suppress(OSError):  # an idle process died: take the next
                worker.pipe.send(job)
                self._busy[worker.pipe] = worker, job
                return
        worker = self._new()
        with suppress(OSError):  # a new process died at once: `wait` says so
            worker.pipe.send(job)
        self._busy[worker.pipe] = worker, job

    def wait(self) -> Ended:
        ready = cast("Connection", connection.wait(list(self._busy))[0])
        worker, job = self._busy.pop(ready)
        try:
            ended: Ended = ready.recv()
        except (EOFError, OSError):
            return Ended(job, lost=worker.how_it_died())
        self._idle.append(worker)
        return ended

    def close(self) -> None:
        for worker in self._workers():
            worker.end()
        self._idle, self._busy = [], {}

    def _workers(self) -> list[_Worker]:
        return [*self._idle, *(worker for worker, _ in self._busy.values())]

    def _new(self) -> _Worker:
        if self._packed is None:
            return _Worker("fork", (self._shared, [worker.pipe for worker in self._workers()]))
        worker = _Worker("spawn", ())
        with suppress(OSError):
            worker.pipe.send_bytes(self._packed)
        return worker


class _Worker:
    """A process and the pipe to it."""

    def __init__(self, method: str, given: tuple[Any, ...]) -> None:
        context: Any = get_context(method)
        self.pipe, theirs = context.Pipe()
        ends = (theirs, self.pipe, *given) if given else (theirs,)
        self.process = context.Process(target=_serve_forked if given else serve_spawned, args=ends, daemon=True)
        with interrupts_later():
            self.process.start()
        theirs.close()

    def how_it_died(self) -> str:
        """Wait for the end of the process, and describe it: ``killed by SIGKILL`` or ``ended with code 1``."""
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


def work_off(
    jobs: Iterable[Job],
    here: Executor,
    away: Callable[[float, int, int], Executor | None],
    *,
    choose: Callable[[Sequence[Any]], int],
    say: Callable[[str], None],
) -> Iterator[Ended]:
    """Carry out all jobs and yield an `Ended` for each as it ends: here at first, elsewhere once `away` returns an executor.

    A job's error does not stop the other jobs. The caller closes the executors.

    Args:
        jobs, here: the jobs, and the executor of this process.
        away: called before each job in this process with (seconds spent, jobs done, jobs left). It returns the executor of
            all later jobs, or None to stay here.
        choose: returns the index of the job to start next in the list of waiting jobs.
        say: receives a message if a process died. Its job is tried again, before the others, `RETRIES` times.

    Raises:
        InputError: a job's process died twice.
    """
    waiting, running, done, spent = list(jobs), 0, 0, 0.0
    lost = Counter[str]()
    place: Executor = here
    while waiting or running:
        if place is here and waiting:
            place = away(spent, done, len(waiting)) or here
        while waiting and place.free > 0:
            place.submit(waiting.pop(choose(waiting)))
            running += 1
        ended = place.wait()
        running -= 1
        if not ended.lost:
            done, spent = done + 1, spent + ended.seconds
            yield ended
            continue
        label = ended.job.label
        lost[label] += 1
        if lost[label] > RETRIES:
            hint = "If it was memory, ask for fewer --processes. Finished runs are kept."
            raise InputError(label, "process", ended.lost, "a process that finishes the run; two attempts were lost", hint)
        say(f"{label}: its process was {ended.lost}; tried again")
        waiting.insert(0, ended.job)


def attempt(job: Any, shared: Any) -> Ended:
    """Carry out a job and return its `Ended`. An exception becomes `Ended.error`, in a form that can be pickled.

    An `EvenstepError`, `MemoryError` or `OSError` is kept. Any other becomes a `RuntimeError` with its type and text,
    and its traceback as a note.
    """
    started = time.perf_counter()
    try:
        return Ended(job, job.carry_out(shared), seconds=time.perf_counter() - started)
    except Exception as error:
        return Ended(job, error=_noted(error))


def _noted(error: Exception) -> Exception:
    """An error of the block that handles it, in a form that can be pickled, as `attempt` describes."""
    if isinstance(error, _KEPT):
        return error
    failed = RuntimeError(f"{type(error).__name__}: {error}")
    failed.add_note(traceback.format_exc())
    return failed


def cores() -> int:
    """The number of cores that this process may use: its CPU affinity where the system has one, else all cores."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def can_fork() -> bool:
    """True if this process may be forked: on Linux, while it has one Python thread."""
    return sys.platform == "linux" and threading.active_count() == 1


def is_worthwhile(spent: float, done: int, left: int) -> bool:
    """True if starting other processes saves time for the `left` jobs. The `done` jobs took `spent` seconds in all.

    Each job left is expected to take the mean of those done; False if `done` is 0. More than 0.3 s must be left where
    processes can be forked. Elsewhere more than 3 s must be left, and already spent.
    """
    start = 0.3 if can_fork() else 3.0
    return done > 0 and spent / done * left > start and (can_fork() or spent > start)


@contextmanager
def interrupts_later() -> Generator[None]:
    """Delay Ctrl-C (SIGINT) to the end of the block, and block it in processes started inside; no effect on Windows."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # started later, it would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def serve_spawned(pipe: Connection) -> None:
    """Carry out jobs from a pipe, one after another, until it is closed; the main function of a spawned process.

    The first message is the pickled shared object, each further one a job. Each job is answered with an `Ended`, an error if
    the object cannot be loaded. Ctrl-C is ignored.
    """
    with suppress(EOFError, OSError):
        packed = pipe.recv_bytes()
        try:
            shared = pickle.loads(packed)
        except Exception as error:
            pipe.send(Ended(pipe.recv(), error=_noted(_not_loaded(error))))
            return
        _serve(pipe, shared)


def _not_loaded(error: Exception) -> Exception:
    """The error for objects, as a policy of a notebook, that this process cannot hand to another one.

    The same error if it is one of evenstep's, of memory or of the system, or if evenstep's own code raised it.
    """
    *_, (last, _) = traceback.walk_tb(error.__traceback__)
    file = Path(last.f_code.co_filename)
    if isinstance(error, _KEPT) or (file.is_relative_to(ROOT) and file != Path(__file__)):
        return error
    hint = "Define its class in a file that is imported, or ask for one process."
    return InputError("processes", "object", str(error), "one that another process can load", hint)


def _serve_forked(pipe: Connection, *inherited: Any) -> None:
    """`serve_spawned` for a forked process. `inherited`: the parent's end of `pipe`, the shared object, other pipes."""
    own_end, shared, others = inherited
    for end in (own_end, *others):  # else these pipes stay open here when the parent dies
        end.close()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _serve(pipe, shared)


def _serve(pipe: Connection, shared: Any) -> None:
    """Answer each job from the pipe with its `Ended`, until the pipe is closed. Ctrl-C is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, OSError):
        while True:
            job: Any = pipe.recv()
            pipe.send(attempt(job, shared))
