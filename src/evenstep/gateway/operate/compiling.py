"""Compiles and loads the kernels that decisions need, while the gateway's own process goes on.

The first start on a machine compiles for up to a minute. A separate process does it, because the compiler holds the
interpreter's lock and much memory. This process, unless it is the checked build, decides in plain Python meanwhile; then it
loads the kernels from disk.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import mmap
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

from evenstep import compiled, kernel_cache, late, names
from evenstep.dispatch.core import Dispatcher
from evenstep.dispatch.warming import warm
from evenstep.engines.streams.template import warm as warm_quick
from evenstep.errors import PolicyError
from evenstep.gateway.operate.kept_kernels import is_compiled, note_compiled

COMPILE = "import sys; from evenstep.gateway.operate.compiling import compile_all; compile_all(*sys.argv[1:])"
_log = logging.getLogger("evenstep.gateway")
_LOOK_S = 1.0  # between two checks whether another policy is in force
_NICE = 5  # niceness of the compiling process: under full load it gets a quarter of the time
_MAPS = Path("/proc/self/maps")
_KERNELS = (
    "dispatch/rounds/projecting.py",
    "dispatch/rounds/showing.py",
    "dispatch/rounds/slots.py",
    "dispatch/steps/lockstep.py",
    "engines/streams/usual_events.py",
)


async def compile_and_warm(rules: Callable[[], tuple[str, str]]) -> None:
    """Compile and load the kernels that decisions need; returns when this process decides by compiled code.

    If the process began in plain Python, a reload may bring another policy meanwhile: its kernels are compiled, too, before
    compiled code decides. If that fails, it logs the error and waits for the next policy. Without numba, the function only
    checks that policy and predictor can be built.

    Args:
        rules: returns the policy and the predictor in force, each as ``NAME[:key=value,...]``; called on this loop.

    Raises:
        InputError: an unknown policy, predictor or option.
        PolicyError: the policy, or a module it imports, exits Python.
        Exception: the kernels for the first policy and predictor cannot be compiled.
    """
    first = found = rules()
    if not begins_plain():
        await compile_beside(*found)
        await _in_thread(_load, *found)
        return
    while True:
        try:
            await _compile_elsewhere(*found)
            await _in_thread(_load, *found)
        except Exception as error:
            if found == first:
                raise
            _log.exception("a reloaded policy cannot be compiled; plain Python decides until another is set", exc_info=error)
            while rules() == found:
                await asyncio.sleep(_LOOK_S)
        if rules() == found:
            break
        found = rules()
    late.change_over()


def begins_plain() -> bool:
    """Whether this process decides in plain Python now, because its kernels are not compiled yet. False without numba."""
    return compiled.numba is not None and not late.change.is_compiled


async def try_plain(policy: str, predictor: str) -> None:
    """Check, in a thread, that a policy and a predictor can be built; both as ``NAME[:key=value,...]``.

    Raises InputError for an unknown policy, predictor or option, and PolicyError if loading the policy exits Python.
    """
    await _in_thread(_build, policy, predictor)


async def compile_beside(policy: str, predictor: str) -> None:
    """Compile the kernels that are not on disk yet in a separate process, and wait for it; its failure is ignored.

    It does nothing while this process decides in plain Python, since `compile_and_warm` compiles then. It loads nothing into
    this process, and checks few names: `build_or_warm` does both. It may raise InputError for an unknown policy or option.
    """
    if not begins_plain() and not is_compiled(policy, predictor) and not _is_on_disk(policy):
        await _compile_elsewhere(policy, predictor)


def _is_on_disk(policy: str) -> bool:
    """Whether the kernels of a policy, of the dispatcher and of streams are on disk, judged by their folders."""
    own = compiled.kernel_file(names.build("routing", names.parse(policy)))
    files, place = (*(kernel_cache.ROOT / name for name in _KERNELS), own), kernel_cache.place()
    return all(file is None or place.has(file) for file in files)


async def _compile_elsewhere(policy: str, predictor: str) -> None:
    """Compile in a separate process, and wait for it; ignores its failure. Does nothing if no kernels are kept on disk."""
    if not kernel_cache.place().is_kept:
        return
    _log.info("compiling what decisions need, up to a minute")
    nowhere = asyncio.subprocess.DEVNULL
    command = (sys.executable, "-c", COMPILE, policy, predictor)
    process = await asyncio.create_subprocess_exec(*command, stdout=nowhere, stderr=nowhere)
    try:
        with suppress(AttributeError, OSError):  # Windows; it has ended already
            os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
        await process.wait()  # if it fails, this process compiles
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()


async def _in_thread(work: Callable[[str, str], None], policy: str, predictor: str) -> None:
    """Call `work` in a daemon thread, and await it. Raises its exception, or PolicyError if it exits Python."""
    done: Future[None] = Future()
    done.set_running_or_notify_cancel()  # cancelling the wait does not stop the thread

    def run() -> None:
        try:
            work(policy, predictor)
        except SystemExit as stop:  # it would end only this thread, and silently
            done.set_exception(PolicyError(f"a policy, or a module it imports, exits Python with {stop.code!r}"))
        except Exception as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    threading.Thread(target=run, name="evenstep-warming", daemon=True).start()
    await asyncio.wrap_future(done)


def _load(policy: str, predictor: str) -> None:
    """Load or compile all kernels, run them once, and unload the compiler; without numba, only build a dispatcher."""
    if compiled.numba is None:
        _build(policy, predictor)
        return
    with late.in_compiled_code():
        compile_all(policy, predictor)
    unload_compiler()


def unload_compiler() -> int:
    """Release the memory of the compiler's code; the system reads it from its file again on demand.

    This is safe, because these pages are never written.

    Returns:
        Bytes of address space released; 0 if the system does not report what is in memory.
    """
    if not _MAPS.exists() or not hasattr(mmap, "MADV_DONTNEED"):
        return 0
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    shed = 0
    for line in _MAPS.read_text(encoding="utf-8", errors="replace").splitlines():
        place, rights, *_, path = line.split(maxsplit=5)
        if rights == "r-xp" and "llvmlite" in path:
            begin, end = (int(part, 16) for part in place.split("-"))
            if advise(begin, end - begin, mmap.MADV_DONTNEED) == 0:
                shed += end - begin
    return shed


def build_or_warm(policy: str, predictor: str) -> None:
    """Check that a dispatcher can be built with a policy and a predictor; if compiled code runs, also load its kernels.

    Loaded kernels are noted on disk as compiled. It blocks for up to seconds, or while kernels are compiled. Raises
    InputError for an unknown policy, predictor or option.
    """
    if begins_plain():
        _build(policy, predictor)
    else:
        warm(policy, predictor)
        if compiled.numba is not None:
            note_compiled(policy, predictor)


def _build(policy: str, predictor: str) -> None:
    """Build a dispatcher, as a check, and drop it."""
    Dispatcher(policy, predictor=predictor)


def compile_all(policy: str, predictor: str) -> None:
    """Load or compile the kernels for decisions and streams, and note on disk that all of them are there.

    It blocks meanwhile. In a process that begins in plain Python, call it inside `late.in_compiled_code`. Raises InputError
    for an unknown policy, predictor or option.
    """
    warm_quick()
    warm(policy, predictor)
    note_compiled(policy, predictor)
