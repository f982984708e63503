"""Compiling kernels side by side: while this process compiles the simulator's loop, others compile the policies' kernels.

Only the first comparison on a machine has anything to compile; the results go to the disk cache that all processes share.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context

from evenstep import compiled, kernel_cache

#: Seconds after which a process no longer waits for another to compile, and compiles itself.
PATIENCE_S = 300.0


class Warming:
    """Compiles kernels of loops and policies into the cache.

    Args:
        modules: for each contender the kernel modules that need compiling, its loop's first.
        processes: processes that may compile in parallel to this one; 0 = none, without any wait.
    """

    def __init__(self, modules: Sequence[Sequence[str]], processes: int) -> None:
        self._modules = modules
        self._loading: dict[str, Future[None]] = {}
        cold = list(dict.fromkeys(module for needed in modules for module in needed))[1:]  # the first is ours
        self._pool = None
        if cold and processes > 0:
            kernel_cache.announce()
            self._pool = ProcessPoolExecutor(min(processes, len(cold)), get_context("spawn"))
            self._loading = {module: self._pool.submit(load, module) for module in cold}

    def ready(self, contender: int) -> None:
        """Return when this process has the contender's loop and its kernel, from the cache or compiled.

        What could not be compiled elsewhere is compiled here.
        """
        for module in self._modules[contender]:
            if module in self._loading:
                with suppress(Exception):
                    self._loading[module].result(PATIENCE_S)
            load(module)

    def end(self) -> None:
        """Let the processes go."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def load(module: str) -> None:
    """Import a kernel module, which compiles it, or the module of a policy, and compile its rule."""
    policy = getattr(importlib.import_module(module), "policy", None)
    if policy is not None:
        compiled.kernel_of(policy())
