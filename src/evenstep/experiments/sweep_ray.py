"""The runs of a sweep on a Ray cluster: the same tasks, the same bits, one core each."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from evenstep.errors import InputError
from evenstep.experiments.sweep_task import Ended, SourceKey, Task, Workloads, attempt
from evenstep.workload.yaml_file import Workload


class OnRay:
    """Tasks on the cores of a Ray cluster; every node needs the same evenstep, and the files that policies come from.

    Args:
        sources: workloads that were read already; every node gets them once.
        address: the cluster, e.g. ``auto`` or ``10.0.0.1:6379``; None = the one this process is connected to, else one
            started on this machine for the while.

    Raises:
        InputError: Ray is not installed, there is no such cluster, or it has no core.
    """

    def __init__(self, sources: Mapping[SourceKey, Workload], address: str | None = None) -> None:
        try:
            import ray
        except ImportError:
            hint = "Install evenstep[ray]."
            raise InputError("sweep", "executor", "ray", "an installed Ray", hint) from None
        self._ray: Any = ray
        self._connected = not ray.is_initialized()
        if self._connected:
            _connect(ray, address)
        self._cores = int(ray.cluster_resources().get("CPU", 0))
        if self._cores < 1:
            raise InputError(
                "sweep", "--ray-address", address or "this machine", "a cluster with at least one core"
            )
        packed = pickle.dumps(dict(sources))
        self._name = hashlib.sha256(packed).hexdigest()
        self._packed = ray.put(packed)
        self._carry_out: Any = ray.remote(_on_a_node).options(num_cpus=1, max_retries=0)
        self._running: dict[Any, Task] = {}

    @property
    def free(self) -> int:
        return self._cores - len(self._running)

    def submit(self, task: Task) -> None:
        # in a list, so that Ray hands over the reference and a process that has the workloads does not fetch them
        self._running[self._carry_out.remote(task, self._name, [self._packed], str(Path.cwd()))] = task

    def wait(self) -> Ended:
        from ray import exceptions

        (ready, *_), _ = self._ray.wait(list(self._running), num_returns=1)
        task = self._running.pop(ready)
        try:
            return self._ray.get(ready)
        except exceptions.RayTaskError as error:  # the node could not even begin
            said = str(error).strip().splitlines()[-1]
            hint = "Install the same evenstep on every node."
            raise InputError(task.label, "node", said, "one that can import evenstep", hint) from None
        except exceptions.RayError as error:
            return Ended(task, lost=f"lost by Ray ({type(error).__name__})")

    def close(self) -> None:
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running = {}
        if self._connected:
            self._ray.shutdown()


def _connect(ray: Any, address: str | None) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if address is None:
        ray.init(include_dashboard=False, **quiet)
        return
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, ValueError, OSError) as error:
        said = " ".join(str(error).split())[:160]
        raise InputError(
            "sweep", "--ray-address", address, "the address of a running cluster", f"{said}"
        ) from None


_workloads: dict[str, Workloads] = {}


def _on_a_node(task: Task, name: str, packed: list[Any], folder: str) -> Ended:
    """What a process of a node does; workloads stay there from one task to the next."""
    if name not in _workloads:
        import ray

        _workloads.clear()
        _workloads[name] = Workloads(pickle.loads(ray.get(packed[0])))
    with suppress(
        OSError
    ):  # relative paths mean the same as where the sweep was started, if the node has them
        os.chdir(folder)
    return attempt(task, _workloads[name])
