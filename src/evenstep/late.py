"""Kernels that run as plain Python until this process switches to their compiled code; results are equal in bits.

A long-lived process can so begin at once on a machine that has no compiled kernels. It sets `kernel_cache.begins_plain`
before it imports `compiled`, and has another process compile. A thread then loads the compiled kernels (`in_compiled_code`),
and the process changes over between two decisions (`change_over`). What a kernel reads and writes is the same for both:
arrays, numbers, and tuples of them.

Kernels that only compiled code may call (`compiled.part` and its like) stay plain Python when Python calls them. So plain
Python that still runs at the change meets nothing that it cannot call.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import get_ident
from typing import Any


class Change:
    """Tells whether this process runs compiled code yet.

    Attributes:
        is_compiled: True if all threads run compiled code; always False without numba.
        threads: ids of threads that run compiled code before the others may (`in_compiled_code`).
    """

    __slots__ = ("is_compiled", "threads")

    def __init__(self) -> None:
        self.is_compiled = False
        self.threads: set[int] = set()


change = Change()


class Late:
    """A kernel of a process that begins in plain Python: a call runs `plain`, and compiled code once that is allowed.

    Args:
        plain: the kernel as a Python function.
        make: gives the kernel as numba's object; called when that is first needed.
        is_door: True if Python may call what `make` returned; else Python always runs `plain`.
        is_declared: True if `make` compiles it at once, for its one signature (`compiled.declared`).
    """

    def __init__(
        self, plain: Callable[..., Any], make: Callable[[], Any], *, is_door: bool = True, is_declared: bool = False
    ) -> None:
        functools.update_wrapper(self, plain)
        self.py_func, self._make = plain, make
        self.is_door, self.is_declared = is_door, is_declared
        _all.append(self)

    def __call__(self, *given: Any, **named: Any) -> Any:
        if self.is_door and (change.is_compiled or get_ident() in change.threads):
            return self.made(*given, **named)
        return self.py_func(*given, **named)

    @functools.cached_property
    def made(self) -> Any:
        """What `make` returned; the first use calls it: for a declared kernel it compiles or loads, which may take long."""
        return self._make()

    @property
    def _numba_type_(self) -> Any:
        """The kernel's numba type; numba reads this attribute when it compiles another kernel that names this one."""
        return self.made._numba_type_

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.made, name)


_all: list[Late] = []


@contextmanager
def in_compiled_code() -> Generator[None]:
    """Let this thread run compiled code in the block, before others may. First it loads or compiles all declared kernels."""
    change.threads.add(get_ident())
    try:
        for kernel in list(_all):
            if kernel.is_declared:
                assert kernel.made is not None
        yield
    finally:
        change.threads.discard(get_ident())


def change_over() -> None:
    """Let every thread run compiled code from now on; does nothing if no `Late` kernel exists.

    Names in evenstep's modules that hold a `Late` kernel are bound to its compiled kernel, if that was made and Python may
    call it. Other kernels that Python may call are made at their next call.
    """
    if not _all:
        return
    change.is_compiled = True
    for name, module in list(sys.modules.items()):
        if name == "evenstep" or name.startswith("evenstep."):
            for key, value in list(vars(module).items()):
                if isinstance(value, Late) and value.is_door and "made" in vars(value):
                    setattr(module, key, value.made)
