"""What evenstep uses of numba beyond its documented interface. Only `compiled` imports this file.

* Options of `njit` (`KERNEL` .. `PART`): by default numba counts references to arrays, and makes doors for Python and C,
  which costs more than most kernels' own work.
* A dispatcher's cache and the classes of `numba.core.caching` (`kept`): kernels go to the folder of `kernel_cache`, and of
  two processes one compiles.
* `get_overload` of a dispatcher (`entry_of`): a call need not look for the code of its arguments' types.
* The library of a compiled kernel (`Address`): code that calls another kernel often finds it once.
* Counts of references to arrays (`compile_sealed`): a kernel that allocates gives back each array that it got.
* The events ``numba:compile`` (`listen`): operators learn why a start takes long, and a failed compilation frees its lock.

Tried with numba 0.62.0, 0.63.1, 0.65.1, 0.67.0 and 0.68.1 (tests/test_numba_internals.py). If a numba lacks one of these, an
`EvenstepError` names it; numba itself names an option that it lacks, when it compiles the first kernel. With
``EVENSTEP_PLAIN=1`` evenstep runs without numba.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numba  # pyright: ignore[reportMissingTypeStubs]
import numpy as np

from evenstep import kernel_cache
from evenstep.errors import EvenstepError, InputError
from evenstep.kernel_locks import locks

#: Options of `njit` for a kernel. No fastmath, no parallel: same bits everywhere. A kernel allocates nothing, so there is no
#: run-time memory, and no counting of references to arrays. Without `_nrt`, a kernel does as its caller does.
KERNEL: dict[str, Any] = {
    "fastmath": False,
    "parallel": False,
    "error_model": "numpy",
    "boundscheck": kernel_cache.is_checked(),
    "_nrt": False,
}
ALLOCATING = KERNEL | {"_nrt": True}
#: Only compiled code calls it, so no wrappers for calls from Python and C are compiled.
INNER = KERNEL | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
#: LLVM inlines it into every caller.
PART = INNER | {"forceinline": True}

#: Variables that limit the threads of OpenBLAS.
_THREADS = ("OPENBLAS_NUM_THREADS", "OPENBLAS_DEFAULT_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")


@contextmanager
def _needing(what: str) -> Generator[None]:
    """In the block, raise an `EvenstepError` if this numba lacks `what`: not an `InputError`, as no setting is at fault."""
    try:
        yield
    except (AttributeError, ImportError, KeyError) as error:
        hint = "Install one of these, or set EVENSTEP_PLAIN=1 to run without numba (slow)."
        text = f"numba: version is {numba.__version__}; expected 0.62 to 0.68, which have {what}. {hint}"
        raise EvenstepError(text) from error


with _needing("numba.core.caching and numba.core.event"):
    from numba.core import caching, event  # pyright: ignore[reportMissingTypeStubs]


@_needing("Dispatcher.get_overload")
def entry_of(made: Any) -> Any:
    """The compiled code of a dispatcher with one signature, as a function that does not check its arguments."""
    (only,) = made.signatures
    return made.get_overload(only)


class Address:
    """A dispatcher with one signature, passed to compiled code by the address of its code, which stays alive.

    numba documents `__wrapper_address__`, the wrapper address protocol.
    """

    @_needing("the address of compiled code")
    def __init__(self, made: Any) -> None:
        (only,) = made.overloads.values()
        self._made, name = made, only.fndesc.llvm_cfunc_wrapper_name
        self._address = only.library.get_pointer_to_function(name)

    def __wrapper_address__(self) -> int:
        return self._address


def compile_sealed(sealed: Any) -> None:
    """Tell numba how to compile `compiled.sealed`: the same array, of a type that cannot be written."""
    from numba.extending import lower_builtin, type_callable  # pyright: ignore[reportMissingTypeStubs]

    def typed(_context: Any) -> Any:
        return lambda array: array.copy(readonly=True)  # pyright: ignore[reportUnknownLambdaType]

    def made(context: Any, builder: Any, signature: Any, arrays: Any) -> Any:
        if context.enable_nrt:
            context.nrt.incref(builder, signature.return_type, arrays[0])
        return arrays[0]

    type_callable(sealed)(typed)
    lower_builtin(sealed, numba.types.Array)(made)


def listen() -> None:
    """Announce to operators (`kernel_cache.announce`) each compilation that starts; free the kernel's lock if it fails."""

    class Compiling(event.Listener):
        def on_start(self, event: Any) -> None:
            kernel_cache.announce()

        def on_end(self, event: Any) -> None:
            kernel = event.data["dispatcher"]
            end = getattr(kernel._cache, "end_compiling", None)
            if end is not None and tuple(event.data["args"]) not in kernel.overloads:
                end()  # it failed; else `save_overload` follows

    event.register("numba:compile", Compiling())


def kept(function: Any, options: dict[str, Any]) -> Any:
    """The function as `njit` makes it, not compiled yet; its compiled code is kept on disk if there is a folder for it."""
    made: Any = numba.njit(**options)(function)
    is_ours = Path(function.__code__.co_filename).is_relative_to(kernel_cache.ROOT)
    with suppress(RuntimeError), _needing("caches that can be replaced"):  # RuntimeError: there is no folder
        made._cache = _cache_class(is_ours)(function)
    return made


@functools.cache
def _cache_class(is_ours: bool) -> Any:
    """The class of disk caches for evenstep's kernels (`is_ours`), in the folder of `kernel_cache`, or for users' kernels.

    A user's kernel goes to the folder that numba chooses, and only without one to that of `kernel_cache`.
    """
    where = kernel_cache.place()

    class Own(caching.InTreeCacheLocator):
        def get_cache_path(self) -> str:
            source = Path(self._py_file)
            return str(where.folder_of(source) or where.shipped_folder(source))

        def ensure_cache_path(self) -> None:  # `kernel_cache.place` has tested that it can be written
            Path(self.get_cache_path()).mkdir(parents=True, exist_ok=True)

    class BesideSources(caching.InTreeCacheLocator):
        def get_cache_path(self) -> str:
            return str(where.shipped_folder(Path(self._py_file)))

        def ensure_cache_path(self) -> None: ...

    has_place = where.folder is not None or (is_ours and (where.is_beside or where.reads_beside))
    usual = () if is_ours else tuple(caching.CacheImpl._locator_classes)  # pyright: ignore[reportPrivateUsage]

    locators = (*usual, Own) if has_place else usual

    def cache_at(*locators: type) -> Any:
        """The class of numba's caches at the first of these places that is usable."""
        kind = type("Impl", (caching.CompileResultCacheImpl,), {"_locator_classes": locators})
        return type("Cache", (caching.FunctionCache,), {"_impl_class": kind})

    class Kept(cache_at(*locators)):
        """A disk cache that ignores disk errors: a kernel that could not be saved is compiled again by the next process.

        A missing kernel is compiled under a lock, so that of two processes one compiles and the other loads.
        """

        def __init__(self, function: Any) -> None:
            super().__init__(function)
            code = function.__code__
            self._lock_name = f"{code.co_filename}:{code.co_firstlineno}:{code.co_qualname}"
            is_shipped = where.shipped_folder(Path(code.co_filename)) is not None
            self._shipped = cache_at(BesideSources)(function) if is_shipped else None

        def _index_key(self, sig: Any, codegen: Any) -> Any:
            key: tuple[Any, ...] = super()._index_key(sig, codegen)
            # compiled code imports its module, and a user's file may have several module names
            return key if is_ours else (*key, self._py_func.__module__, kernel_cache.text_of(self._py_func))

        def save_overload(self, sig: Any, data: Any) -> None:
            try:
                with suppress(OSError):
                    super().save_overload(sig, data)
            finally:
                self.end_compiling()

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            found = self._loaded(sig, target_context)
            if found is None:
                locks().take(self._lock_name)
                found = self._loaded(sig, target_context)  # another process may have compiled it by now
                if found is not None:
                    self.end_compiling()
            return found

        def end_compiling(self) -> None:
            locks().release(self._lock_name)

        def _loaded(self, sig: Any, target_context: Any) -> Any:
            _check_memory()
            with suppress(OSError):
                found = super().load_overload(sig, target_context)
                if found is None and self._shipped is not None:
                    found = self._shipped.load_overload(sig, target_context)
                return found

    return Kept


def _check_memory() -> None:
    """Raise an `InputError` if SciPy, which numba loads with the first kernel, would never end loading for want of memory.

    Its own OpenBLAS takes 40 MiB, with less of which numba does without SciPy, then 32 MiB for each thread and a stack for
    each but the first, and asks for ever if the limit of this process's memory refuses them. Other builds of SciPy, which
    may need less, are not checked.
    """
    if "scipy.linalg" in sys.modules or sys.platform != "linux":
        return
    import resource

    limit, stack = (resource.getrlimit(kind)[0] >> 20 for kind in (resource.RLIMIT_AS, resource.RLIMIT_STACK))
    if limit < 0 or not (Path(np.__file__).parents[1] / "scipy.libs").is_dir():
        return
    asked = [re.match(r"\s*\+?0*([1-9]\d*)", os.environ.get(name, "")) for name in _THREADS]
    threads = min(64, len(os.sched_getaffinity(0)), *(int(found[1]) for found in asked if found))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() >> 20
    needed = used + 40 + 32 * threads + max(stack, 0) * (threads - 1)
    if used + 40 <= limit < needed:
        hint = "Raise it, or set OPENBLAS_NUM_THREADS=1."
        raise InputError("evenstep", "limit of memory (ulimit -v)", f"{limit} MiB", f"at least {needed + 250} MiB", hint)
