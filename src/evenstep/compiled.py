"""The only file that imports numba, and the only one that sets its flags.

Kernels are plain functions marked with `jit` (helpers) or `route_kernel` (a routing policy's kernel, which has one
declared signature so that the simulator's loop is compiled once and kept in the disk cache). Without numba, or with
``EVENSTEP_PLAIN=1``, they run as plain Python, and `mode()` says so to banners and manifests: never silently.
"""

from __future__ import annotations

import ctypes
import dataclasses
import importlib
import math
import os
import re
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

if os.environ.get("EVENSTEP_PLAIN") == "1":
    numba: Any = None
else:
    try:
        import numba  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:  # pragma: no cover - exercised by EVENSTEP_PLAIN in the tests
        numba = None

# No fastmath, no parallel: same bits everywhere. No run-time memory: a kernel allocates nothing, and numba then leaves out
# the counting of references to arrays, which costs more than most kernels' own work.
_FLAGS: dict[str, Any] = {"fastmath": False, "parallel": False, "error_model": "numpy", "_nrt": False}

F = TypeVar("F", bound=Callable[..., Any])


def mode() -> str:
    """``numba <version>``, or ``plain Python (slow)`` where kernels are not compiled."""
    return f"numba {numba.__version__}" if numba is not None else "plain Python (slow)"


def jit(function: F) -> F:
    """Compile a kernel helper at its first call, cached on disk; no fastmath, no parallel: same bits everywhere."""
    if numba is None:
        return function
    return numba.njit(cache=True, **_FLAGS)(function)


def allocating(function: F) -> F:
    """As `jit`, for a helper that has to allocate working space whose size only the data know."""
    if numba is None:
        return function
    return numba.njit(cache=True, **{**_FLAGS, "_nrt": True})(function)


def inlined(function: F) -> F:
    """A helper that becomes part of its caller's code: for pieces of a loop that pass many arrays."""
    if numba is None:
        return function
    return numba.njit(inline="always", **_FLAGS)(function)


#: Flags of helpers that only compiled code calls: no references counted, no way in from Python to compile.
_BORROWING: dict[str, Any] = {
    "cache": True, "fastmath": False, "parallel": False, "error_model": "numpy",
    "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
}  # fmt: skip


def borrowing(function: F) -> F:
    """A helper that only borrows arrays: it may not allocate or slice, counts no references, is called by kernels only.

    For loops that pass many arrays, where counting would cost more than the work.
    """
    return function if numba is None else numba.njit(**_BORROWING)(function)


def borrowing_inlined(function: F) -> F:
    """`borrowing`, and always part of its caller's machine code: for the small pieces of such loops."""
    return function if numba is None else numba.njit(forceinline=True, **_BORROWING)(function)


def external(name: str, signature: str) -> Any:
    """A function of the system's C library for kernels to call; None where nothing is compiled.

    Args:
        name: its symbol.
        signature: numba's types, ``intp(int32, uintp)``; addresses are ``uintp``.
    """
    if numba is None:
        return None
    arguments, result = numba.core.sigutils.normalize_signature(signature)
    return numba.types.ExternalFunction(name, result(*arguments))


def _array_at(address: int, size: int, dtype: Any) -> NDArray[Any]:
    count = int(size) * np.dtype(dtype).itemsize
    held: Any = (ctypes.c_char * count).from_address(int(address))
    return np.frombuffer(held, dtype)


def _compiled_array_at() -> Any:
    from numba.extending import intrinsic  # pyright: ignore[reportMissingTypeStubs]
    from numba.np.arrayobj import make_array, populate_array  # pyright: ignore[reportMissingTypeStubs]

    def array_at(_typing: Any, address: Any, size: Any, dtype: Any) -> Any:
        kind, number = numba.types.Array(dtype.dtype, 1, "C"), numba.types.int64

        def made(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            array = make_array(signature.return_type)(context, builder)
            item = context.get_constant(numba.types.intp, dtype.dtype.bitwidth // 8)
            populate_array(
                array, builder.inttoptr(values[0], array.data.type), [values[1]], [item], item, None
            )
            return array._getvalue()

        return kind(number, number, dtype), made

    return intrinsic(array_at)


#: ``array_at(address, size, dtype)``, so many numbers that lie at an address: for kernels that are told of many arrays by
#: one. Nothing is allocated or counted: whoever tells the address keeps the array.
array_at: Any = _array_at if numba is None else _compiled_array_at()


def declared(signature: Any) -> Callable[[F], F]:
    """Compile a kernel eagerly for one declared signature, cached on disk."""

    def wrap(function: F) -> F:
        if numba is None:
            return function
        return numba.njit(signature, cache=True, **_FLAGS)(function)

    return wrap


def entry(kernel: Any) -> Any:
    """The compiled code of a kernel `declared` with one signature, called without looking at the arguments' types."""
    if numba is None:
        return kernel
    (only,) = kernel.overloads.values()
    return only.entry_point


class _Address:
    """A compiled function as the address of its code: numba asks for nothing else."""

    def __init__(self, address: int, kept: Any) -> None:
        self.address, self.kept = address, kept

    def __wrapper_address__(self) -> int:
        return self.address


def address_of(kernel: Any) -> Any:
    """A kernel `declared` with one signature, to be handed to an `entry` as a value, again and again.

    The kernel itself may be handed over as well; numba then looks its code up at each call, which takes longer than a
    short call does. Called through the address it is a little slower.
    """
    if numba is None:
        return kernel
    (only,) = kernel.overloads.values()
    return _Address(only.library.get_pointer_to_function(only.fndesc.llvm_cfunc_wrapper_name), kernel)


_IMPORT = re.compile(r"^from evenstep\.([\w.]+) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)


def _imported(root: Path, source: Path) -> set[Path]:
    """Modules of ours that a source imports names or constants from."""
    found: set[Path] = set()
    for module, many, few in _IMPORT.findall(source.read_text(encoding="utf-8")):
        folder = root.joinpath(*module.split("."))
        found |= {
            folder.with_suffix(".py"),
            *(folder / f"{name}.py" for name in re.findall(r"\w+", many or few)),
        }
    return {path for path in found if path.is_file()}


def drop_stale_caches(root: Path) -> None:
    """Forget compiled kernels older than any source they may contain: numba looks at their own file alone.

    Args:
        root: the package's folder.
    """
    for room in (root, *(path for path in root.iterdir() if path.is_dir())):
        indices = list(room.glob("__pycache__/*.nbi"))
        if not indices:
            continue
        kernels = [*room.glob("*_kernel.py"), *room.glob("*_layout.py")]
        sources, new = {root / "compiled.py"}, set(kernels)
        while new:
            sources |= new
            parts = [path for path in new if path.stem.endswith(("_kernel", "_layout"))]
            new = set[Path]().union(*(_imported(root, path) for path in parts)) - sources
        newest = max(source.stat().st_mtime for source in sources)
        for index in indices:
            with suppress(FileNotFoundError):
                if index.stat().st_mtime < newest:
                    index.unlink()


if numba is None:
    # compiled 64-bit integers wrap silently; as plain scalars they do the same and say so at every draw
    warnings.filterwarnings(
        "ignore", "overflow encountered in scalar", RuntimeWarning, r"evenstep\.streams_kernel"
    )
if numba is not None:
    drop_stale_caches(Path(__file__).parent)
    # Functions as values are what a compiled policy is here; numba calls the feature experimental at every use.
    warnings.filterwarnings("ignore", category=numba.NumbaExperimentalFeatureWarning)


def _types() -> tuple[Any, ...]:
    """Scalars, arrays and the policies' signature as numba knows them; all None without numba."""
    if numba is None:
        return (None,) * 12
    i, f, array = numba.types.int64, numba.types.float64, numba.types.Array
    i1, f1, i2, f2 = array(i, 1, "C"), array(f, 1, "C"), array(i, 2, "C"), array(f, 2, "C")
    route = f(i, i, f, f, i, i, i2, f2, i2, f2, f2, f1, f2, i1, f1, i1, f1, i1)
    rows, more = array(i, 2, "F"), array(f, 2, "F")
    batch = f(i, i, f, i1, i1, i1, i, i1, rows, f1, i1, i1, f1, i1, f1, i2, i1)
    both = route, numba.types.FunctionType(route), batch, numba.types.FunctionType(batch)
    return i, f, i1, f1, i2, f2, *both, rows, more


#: `ROUTE` is the signature of every compiled routing policy, `BATCH` of every engine scheduling policy; `routing.view` and
#: `scheduling.view` document the arguments.
INT, FLOAT, I1, F1, I2, F2, ROUTE, ROUTE_TYPE, BATCH, BATCH_TYPE, ROWS_I, ROWS_F = _types()
route_kernel = declared(ROUTE)
batch_kernel = declared(BATCH)


def parameters(policy: object) -> NDArray[np.float64]:
    """The fields of a policy, law or the like as one float64 vector, in the order they are declared.

    Booleans become 0 or 1, ``None`` becomes nan, a choice becomes its index in the field's ``Literal``, and a tuple of
    numbers its length and the numbers.
    """
    hints = get_type_hints(type(policy))
    values: list[float] = []
    for field in dataclasses.fields(policy):  # type: ignore[arg-type]
        value = getattr(policy, field.name)
        if isinstance(value, tuple):
            numbers = cast("tuple[float, ...]", value)
            values += [float(len(numbers)), *map(float, numbers)]
        else:
            values.append(_choice(hints[field.name], value) if isinstance(value, str) else _number(value))
    return np.array(values, dtype=np.float64)


def _number(value: object) -> float:
    return math.nan if value is None else float(value)  # type: ignore[arg-type]


def _choice(hint: object, value: str) -> float:
    options = [hint, *get_args(hint)]
    for option in options:
        if get_origin(option) is Literal and value in get_args(option):
            return float(get_args(option).index(value))
    raise TypeError(f"{value!r} is not a Literal of {hint}: a kernel needs choices it can number")


def kernel_of(policy: object) -> Any | None:
    """The module that holds the compiled twin of a policy, found beside its file; None when there is none.

    ``routing/br_h.py`` has its kernel in ``routing/br_h_kernel.py``; ``mine.py`` in ``mine_kernel.py``.
    """
    module = type(policy).__module__
    neighbour = module + "_kernel"
    if neighbour in sys.modules:
        return sys.modules[neighbour]
    home = getattr(sys.modules.get(module), "__file__", None)
    if home is None:
        return None
    beside = Path(home).with_name(Path(home).stem + "_kernel.py")
    if not beside.exists():
        return None
    if "." in module:
        return importlib.import_module(neighbour)
    spec = importlib.util.spec_from_file_location(neighbour, beside)  # type: ignore[attr-defined]
    loaded = importlib.util.module_from_spec(spec)  # type: ignore[attr-defined]
    sys.modules[neighbour] = loaded
    spec.loader.exec_module(loaded)
    return loaded
