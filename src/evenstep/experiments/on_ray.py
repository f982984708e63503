"""Carries out jobs on the cores of a Ray cluster, one core each, with the same bits as in this process."""

from __future__ import annotations

import hashlib
import os
import pickle
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from evenstep.errors import InputError
from evenstep.experiments.executors import Ended, Job, attempt
from evenstep.wording import install_extra

#: Seconds that a cluster has to answer; Ray itself would try for minutes.
ANSWER_S = 15.0


class OnRay:
    """Carries out jobs on a Ray cluster (`executors.Executor`), as many at a time as it has cores.

    Every node needs the same evenstep, and the files that policies come from; `wait` raises an `InputError` for a node that
    cannot import it. `close` cancels running jobs, and disconnects if this object connected. A job that Ray loses ends as
    `lost`.

    Args:
        shared: object that all jobs need; every node gets it once.
        address: the cluster, e.g. ``auto`` or ``10.0.0.1:6379``. None = the one that this process is connected to, else that
            of the environment's RAY_ADDRESS, else a temporary one on this machine.

    Raises:
        InputError: Ray is not installed, there is no such cluster, it does not answer, or it has no core.
    """

    def __init__(self, shared: Any, address: str | None = None) -> None:
        try:
            import ray
        except ImportError:
            raise InputError("sweep", "executor", "ray", "an installed Ray", install_extra("ray")) from None
        self._ray: Any = ray
        self._connected = not ray.is_initialized()
        if self._connected:
            _connect(ray, address)
        self._cores = int(ray.cluster_resources().get("CPU", 0))
        if self._cores < 1:
            raise InputError("sweep", "--ray-address", address or "this machine", "a cluster with at least one core")
        packed = pickle.dumps(shared)
        self._name = hashlib.sha256(packed).hexdigest()
        self._packed = ray.put(packed)
        self._carry_out: Any = ray.remote(_on_a_node).options(num_cpus=1, max_retries=0)
        self._running: dict[Any, Job] = {}

    @property
    def free(self) -> int:
        return self._cores - len(self._running)

    def submit(self, job: Job) -> None:
        # in a list, so that Ray passes the reference, and a process that has the value does not fetch it again
        self._running[self._carry_out.remote(job, self._name, [self._packed], str(Path.cwd()))] = job

    def wait(self) -> Ended:
        from ray import exceptions

        (ready, *_), _ = self._ray.wait(list(self._running), num_returns=1)
        job = self._running.pop(ready)
        try:
            return self._ray.get(ready)
        except exceptions.RayTaskError as error:  # the node could not even begin
            said = str(error).strip().splitlines()[-1]
            hint = "Install the same evenstep on every node."
            raise InputError(job.label, "node", said, "one that can import evenstep", hint) from None
        except exceptions.RayError as error:
            return Ended(job, lost=f"lost by Ray ({type(error).__name__})")

    def close(self) -> None:
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running = {}
        if self._connected:
            self._ray.shutdown()


def _connect(ray: Any, address: str | None) -> None:
    """Connect this process to the cluster at `address`; `InputError` if it cannot be reached.

    None = the cluster of RAY_ADDRESS, else a temporary one on this machine.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray reports nothing
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    named = "--ray-address" if address is not None else "RAY_ADDRESS"
    address = address if address is not None else os.environ.get("RAY_ADDRESS")
    if not address:
        before = signal.getsignal(signal.SIGTERM)
        # By default Ray joins any cluster of this machine, and waits for ever if that one ends.
        ray.init(address="local", include_dashboard=False, **quiet)  # ends with this thread
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)  # Ray replaced the handler
        return

    def join() -> None:
        _check_listens(address)
        ray.init(address=address, **quiet)

    try:
        with _silent():
            _in_a_thread(join)
    except (ConnectionError, ValueError, OSError) as error:
        said = " ".join(str(error).split())[:160]
        raise InputError("sweep", named, address, "the address of a running cluster", f"{said}") from None


def _in_a_thread(connect: Callable[[], object]) -> None:
    """Call `connect` in a thread, because Ray tries for ever, and would replace the SIGTERM handler in the main thread.

    Raises `TimeoutError` after `ANSWER_S` seconds, and the thread goes on. Otherwise raises the exception of `connect`.
    """
    failed: list[Exception] = []

    def tried() -> None:
        try:
            connect()
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=tried, daemon=True)
    thread.start()
    thread.join(ANSWER_S)
    if thread.is_alive():
        raise TimeoutError(f"No cluster answered within {ANSWER_S:g} s.")
    if failed:
        raise failed[0]


@contextmanager
def _silent() -> Generator[None]:
    """Discard stderr inside the block, because Ray's core writes a line there at each attempt to connect."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _check_listens(address: str) -> None:
    """Raise `ConnectionError` if no server accepts connections at an address. An address without a port is not checked."""
    place = urlsplit(address if "://" in address else f"ray://{address}")
    if not (place.hostname and place.port):
        return  # a word such as auto, which Ray checks
    try:
        socket.create_connection((place.hostname, place.port), timeout=ANSWER_S / 3).close()
    except OSError as error:
        raise ConnectionError(f"Nothing answers there: {error}.") from None


_shared: dict[str, Any] = {}


def _on_a_node(job: Job, name: str, packed: list[Any], folder: str) -> Ended:
    """Carry out a job in a process of a node, in the directory `folder` if the node has it.

    The process keeps the shared object, under `name`, for later jobs; `packed` has the Ray reference to it.
    """
    if name not in _shared:
        import ray

        _shared.clear()
        _shared[name] = pickle.loads(ray.get(packed[0]))
    with suppress(OSError):  # relative paths then mean the same as on the machine that started the sweep
        os.chdir(folder)
    return attempt(job, _shared[name])
