"""Traps around a policy call: they detect calls from Python code that reach outside its view, under any name."""

from __future__ import annotations

import contextlib
import cProfile
import datetime
import gc
import random
import sys
import threading
from collections.abc import Generator
from functools import cache
from types import FrameType
from typing import Any

_CLOCK, _CHANCE, _PEEK, _SYSTEM = "clock", "chance", "peek", "system"
_FRAMES = {"_getframe", "_current_frames", "_getframemodulename", "_current_exceptions"}
_MODULES = {"time": _CLOCK, "gc": _PEEK, "posix": _SYSTEM, "nt": _SYSTEM, "_socket": _SYSTEM, "select": _SYSTEM}
_EVENTS = {"open": _SYSTEM, "subprocess.Popen": _SYSTEM, "socket.connect": _SYSTEM, "socket.__new__": _SYSTEM}

_watchers: list[tuple[int, list[tuple[str, str]]]] = []  # thread id, and the list that collects its calls


@contextlib.contextmanager
def watching() -> Generator[list[tuple[str, str]]]:
    """Context manager that collects ``(kind, what)`` of forbidden calls in its block, and prevents none.

    `what` names the call. The kinds are ``clock``, ``chance`` (random numbers), ``peek`` (the host's frames and objects) and
    ``system`` (files, sockets, processes). Read the list after the block, whose end may add a last entry.

    A profile hook sees calls of built-in functions from Python code; an audit hook sees frames reached through a traceback,
    and files and sockets. Draws from the global generators of `random` and NumPy are detected by their state. Garbage
    collection is off in the block, and other threads are ignored.
    """
    _install()
    found: list[tuple[str, str]] = []
    before = _global_chance()
    old, collects = sys.getprofile(), gc.isenabled()
    gc.disable()
    _watchers.append((threading.get_ident(), found))
    sys.setprofile(_profile)
    try:
        yield found
    finally:
        sys.setprofile(old if callable(old) else None)
        if isinstance(old, cProfile.Profile):  # `sys.setprofile` does not accept a profiler in C
            old.enable()
        _watchers.pop()
        if collects:
            gc.enable()
    if _global_chance() != before and not any(kind == _CHANCE for kind, _ in found):
        found.append((_CHANCE, "a global random generator"))


@cache
def _install() -> None:
    """Install the audit hook in this process, once. It cannot be removed; outside `watching` it records nothing."""
    sys.addaudithook(_audit)


def _global_chance() -> tuple[Any, ...]:
    """The states of the global generators of `random` and NumPy, to be compared later."""
    import numpy as np

    state: Any = np.random.get_state(legacy=False)  # compared, not used
    return random.getstate(), state["state"]["pos"], state["state"]["key"].tobytes()


def _profile(frame: FrameType, event: str, function: Any) -> None:
    """Profile hook of `sys.setprofile`: records a forbidden call of a built-in function for the innermost `watching`."""
    if event != "c_call" or not _watchers:
        return
    _, seen = _watchers[-1]
    module, name = getattr(function, "__module__", None), getattr(function, "__name__", "")
    owner = getattr(function, "__self__", None)
    if module in _MODULES:
        kind = _CHANCE if name == "urandom" else _MODULES[module]
        seen.append((kind, f"{'os' if module in ('posix', 'nt') else module}.{name}"))
    elif module == "sys" and name in _FRAMES:
        seen.append((_PEEK, f"sys.{name}"))
    elif isinstance(owner, type) and issubclass(owner, datetime.date) and name in {"now", "utcnow", "today"}:
        seen.append((_CLOCK, f"datetime.{name}"))


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Audit hook: records files, sockets, processes and frames that the thread of the innermost `watching` reaches."""
    if not _watchers:
        return
    thread, seen = _watchers[-1]
    if thread != threading.get_ident():
        return
    if event in _EVENTS:
        seen.append((_EVENTS[event], event))
    elif event == "object.__getattr__" and arguments[1] in {"tb_frame", "gi_frame", "f_back"}:
        seen.append((_PEEK, f"frames through {arguments[1]}"))
