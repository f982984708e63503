"""Compiles missing kernels, those of simulator loops and of policies, in other processes.

Kernels go to the disk cache that processes share, if there is one; later comparisons find them there.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

from evenstep import compiled, kernel_cache
from evenstep.experiments.children import Child, can_start

#: Seconds that a process waits for another to compile a module before it compiles the module itself.
PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class Load:
    """A job that imports a module and compiles its kernels (`executors.Job`); `label` is the module's dotted name."""

    label: str

    def carry_out(self, shared: Any) -> None:
        """Import the module, and compile the kernels that the disk cache lacks; `shared` is not used."""
        load(self.label)


class Warming:
    """Compiles kernels of loops and policies into the disk cache, in processes that start at once.

    As a context manager it calls `end`, with a kill if the block raised.

    Args:
        modules: for each contender, the modules whose kernels need compiling, its loop's first (`cold_kernels`).
        processes: processes that may compile in parallel to this one; 0 = `ready` compiles all here.
        all_elsewhere: leave the first module to them as well. False = `ready` compiles it in this process.
    """

    def __init__(self, modules: Sequence[Sequence[str]], processes: int, *, all_elsewhere: bool = False) -> None:
        self._modules = modules
        cold = list(dict.fromkeys(module for needed in modules for module in needed))
        self._waiting = cold if all_elsewhere else cold[1:]
        self._busy: dict[Connection, tuple[Child, str]] = {}
        if not can_start() or processes < 1:
            self._waiting = []
        if self._waiting:
            kernel_cache.announce()
        for _ in range(min(processes, len(self._waiting))):
            self._employ(Child(None))

    def __enter__(self) -> Warming:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.end(at_once=kind is not None)

    @property
    def pipes(self) -> list[Connection]:
        """The connections of the processes that compile now, to wait for. Pass the readable ones to `note`."""
        return list(self._busy)

    def note(self, ready: Iterable[object]) -> None:
        """Receive the answers of compiling processes at these connections; send each its next module, or end it without one.

        Objects that are not in `pipes` are ignored. A process that died is replaced while modules wait. The method `ready`
        compiles its module in this process.
        """
        for pipe in ready:
            if pipe not in self._busy:
                continue
            child, _ = self._busy.pop(cast("Connection", pipe))
            try:
                child.pipe.recv()  # an error there is ignored: `ready` loads the module here and raises it
            except (EOFError, OSError):
                child.end()
                child = Child(None) if self._waiting else None
            if child is not None:
                self._employ(child)

    def is_ready(self, contender: int) -> bool:
        """True if other processes are through with the modules of this contender (an index into `modules`).

        Modules that they never had count, too: the first one is compiled in this process, by `ready`.
        """
        return self._pending().isdisjoint(self._modules[contender])

    def are_ready(self) -> bool:
        """True if no module waits for another process, or is being compiled in one. It notes answers that have come."""
        self.note(connection.wait(self.pipes, 0.0))
        return not self._pending()

    def ready(self, contender: int) -> None:
        """Block until the kernels that a contender lacked at the start are compiled, and load them.

        Modules that no other process compiled are compiled here. If no process finishes a module within `PATIENCE_S`
        seconds, all of them are killed. An error of the import or compilation is raised here.
        """
        while not self.is_ready(contender):
            found = connection.wait(self.pipes, PATIENCE_S)
            if not found:
                self.end(at_once=True)
            self.note(found)
        for module in self._modules[contender]:
            load(module)

    def end(self, *, at_once: bool = False) -> None:
        """Drop the waiting modules, and let each process end after its present one; with `at_once`, kill the processes."""
        for child, _ in self._busy.values():
            (child.end if at_once else child.leave)()
        self._busy, self._waiting = {}, []

    def _pending(self) -> set[str]:
        """The modules that wait for another process, or are being compiled in one."""
        return {*self._waiting, *(module for _, module in self._busy.values())}

    def _employ(self, child: Child) -> None:
        """Send a process the next waiting module, or end the process if there is no such module."""
        if not self._waiting:
            child.end()
            return
        module = self._waiting.pop(0)
        with suppress(OSError):
            child.pipe.send(Load(module))
        self._busy[child.pipe] = child, module


def load(module: str) -> None:
    """Import a module by its dotted name and compile its kernels. If it binds `policy`, compile that policy's rule."""
    policy = getattr(importlib.import_module(module), "policy", None)
    if policy is not None:
        compiled.kernel_of(policy())


def cold_kernels(policies: Sequence[object], loops: Sequence[str]) -> list[list[str]]:
    """For each policy, the modules whose kernels the disk cache lacks: its run's loop, then its own if it is evenstep's.

    `loops` has the module of the loop of each policy's run (`cluster.host.loop_of`). All lists are empty without numba.
    """
    found: list[list[str]] = []
    for policy, loop in zip(policies, loops, strict=True):
        module, file = type(policy).__module__, compiled.kernel_file(policy)
        code = kernel_cache.ROOT.parent.joinpath(*loop.split(".")).with_suffix(".py")
        needed = [] if _in_cache(code) else [loop]
        if module.startswith("evenstep.") and file is not None and not _in_cache(file):
            needed.append(module)
        found.append(needed if compiled.numba is not None else [])
    return found


def compile_notice() -> str:
    """A message for the user that kernels are not compiled, and when they would be; empty if numba compiles them."""
    if compiled.numba is None:
        return f"kernels run as {compiled.mode()}: numba compiles them if installed, and if EVENSTEP_PLAIN is not 1"
    return ""


def _in_cache(file: Path) -> bool:
    """True if the disk cache has the kernels of this source file."""
    return kernel_cache.place().has(file)
