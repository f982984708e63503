"""Compiles missing kernels in other processes: the loop's and the policies' kernels.

Only the first comparison on a machine has anything to compile; the results go to the disk cache that all processes share.
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

#: Seconds after which a process no longer waits for another to compile, and compiles itself.
PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class Load:
    """A job that loads a module and its kernels (`executors.Job`); `label` is the module's dotted name."""

    label: str

    def carry_out(self, shared: Any) -> None:
        """Load the module, and compile the kernels that the disk cache lacks; `shared` is not used."""
        load(self.label)


class Warming:
    """Compiles kernels of loops and policies into the disk cache, in processes that start at once.

    Used as a context manager, it ends them (`end`): at once if the block raised.

    Args:
        modules: for each contender the kernel modules that need compiling, its loop's first (`cold_kernels`).
        processes: processes that may compile in parallel to this one; 0 = `ready` compiles all here.
        all_elsewhere: leave the first module to them as well, because this process has other work. False: `ready` compiles
            the first one here.
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
        """The connections of the processes that compile now, to wait for; pass the readable ones to `note`."""
        return list(self._busy)

    def note(self, ready: Iterable[object]) -> None:
        """Handle compiling processes that can be read: each gets the next module. Connections not in `pipes` are ignored.

        A process that died is replaced while modules wait; its module is left to `ready`.
        """
        for pipe in ready:
            if pipe not in self._busy:
                continue
            child, _ = self._busy.pop(cast("Connection", pipe))
            try:
                child.pipe.recv()  # what could not be loaded there is loaded here, and says why
            except (EOFError, OSError):
                child.end()
                child = Child(None) if self._waiting else None
            if child is not None:
                self._employ(child)

    def is_ready(self, contender: int) -> bool:
        """Whether no module of this contender waits for, or is with, another process; `contender` indexes `modules`."""
        return self._pending().isdisjoint(self._modules[contender])

    def are_ready(self) -> bool:
        """Whether no module waits for, or is with, another process."""
        return not self._pending()

    def ready(self, contender: int) -> None:
        """Wait until a contender's missing kernels are compiled, and load them; those in the cache at the start are not.

        What no other process could compile is compiled here. If none of them finishes a module within `PATIENCE_S`, all are
        ended.
        """
        while not self.is_ready(contender):
            found = connection.wait(self.pipes, PATIENCE_S)
            if not found:
                self.end(at_once=True)
            self.note(found)
        for module in self._modules[contender]:
            load(module)

    def end(self, *, at_once: bool = False) -> None:
        """End the processes: each when its present module is in the cache, or at once; modules that wait are given up.

        The call itself does not wait for the modules.
        """
        for child, _ in self._busy.values():
            (child.end if at_once else child.leave)()
        self._busy, self._waiting = {}, []

    def _pending(self) -> set[str]:
        return {*self._waiting, *(module for _, module in self._busy.values())}

    def _employ(self, child: Child) -> None:
        """Give a process the next module, or let it end."""
        if not self._waiting:
            child.end()
            return
        module = self._waiting.pop(0)
        with suppress(OSError):
            child.pipe.send(Load(module))
        self._busy[child.pipe] = child, module


def load(module: str) -> None:
    """Import a module by its dotted name and compile its kernels; if it binds `policy`, compile that policy's rule."""
    policy = getattr(importlib.import_module(module), "policy", None)
    if policy is not None:
        compiled.kernel_of(policy())


def cold_kernels(policies: Sequence[object], loops: Sequence[str]) -> list[list[str]]:
    """For each policy, the modules whose kernels the disk cache lacks: its run's loop, then its own if it is evenstep's.

    `loops` has the loop of each policy's run (`cluster.host.loop_of`). All lists are empty without numba.
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
    """A line for the user that says that kernels cannot be compiled, for lack of numba; empty if they can."""
    if compiled.numba is None:
        return f"kernels run as {compiled.mode()}: install numba for compiled ones"
    return ""


def _in_cache(file: Path) -> bool:
    return kernel_cache.place().has(file)
