"""The only file that imports numba, and the only one that sets its flags.

Kernels are plain functions marked with `jit`, `part` and their like, or `declared` for one signature. A policy's door has
one, so the simulators' loops are compiled once and kept in the disk cache. Without numba, or with
``EVENSTEP_PLAIN=1``, they run as plain Python, and `mode()` says so to banners and manifests: never silently.

``EVENSTEP_CHECKED=1`` compiles the checked build: an index outside its array raises an IndexError. Its code has a cache of
its own, so that the two builds never mix.
"""

from __future__ import annotations

import collections
import ctypes
import dataclasses
import functools
import math
import os
import re
import sys
import types
import warnings
from collections.abc import Callable
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from evenstep import kernel_cache
from evenstep.kernel_locks import locks
from evenstep.late import Late, change

if "1" in (os.environ.get("EVENSTEP_PLAIN"), os.environ.get("NUMBA_DISABLE_JIT")):
    numba: Any = None
else:
    try:
        import numba  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:  # pragma: no cover - exercised by EVENSTEP_PLAIN in the tests
        numba = None

#: Whether this is the checked build.
CHECKED = numba is not None and kernel_cache.is_checked()
_BEGINS_PLAIN = numba is not None and kernel_cache.begins_plain
change.is_compiled = numba is not None and not _BEGINS_PLAIN

# No fastmath, no parallel: same bits everywhere. No run-time memory: a kernel allocates nothing, and numba then leaves out
# the counting of references to arrays, which costs more than most kernels' own work.
_FLAGS: dict[str, Any] = {
    "fastmath": False,
    "parallel": False,
    "error_model": "numpy",
    "_nrt": False,
    "boundscheck": CHECKED,
}

F = TypeVar("F", bound=Callable[..., Any])


def mode() -> str:
    """How kernels run now, in words for banners: ``numba <version>``, with ``, checked (slow)`` in the checked build.

    ``plain Python (slow)`` without numba; ``until they are compiled`` is added before this process changes over (`late`).
    """
    if numba is None:
        return "plain Python (slow)"
    if not change.is_compiled:
        return "plain Python (slow) until they are compiled"
    return f"numba {numba.__version__}{', checked (slow)' if CHECKED else ''}"


def _type_of(made: Any) -> Any:
    """The type by which compiled code knows a kernel."""
    from numba.core.registry import cpu_target  # pyright: ignore[reportMissingTypeStubs]

    context: Any = cpu_target.typing_context
    context.refresh()
    return context.resolve_value_type(made)


def _later(plain: Callable[..., Any], make: Callable[[], Any], **what: bool) -> Any:
    """A kernel, or its plain text: for now where this process begins so, for ever without numba."""
    if numba is None:
        return plain
    return make() if change.is_compiled else Late(plain, make, _type_of, **what)


def _made(function: F, flags: dict[str, Any]) -> F:
    """A kernel that is compiled when it is called, and kept in the cache if there is one."""
    return _later(function, lambda: _cached(function, flags), is_door="no_cpython_wrapper" not in flags)


def _cached(function: Callable[..., Any], flags: dict[str, Any]) -> Any:
    made = numba.njit(**flags)(function)
    made._cache = _cache_of(function)
    return made


def jit(function: F) -> F:
    """Compile a kernel helper at its first call with arguments of new types, cached on disk; same bits on every machine.

    It may not allocate arrays (`allocating` may). Without numba it stays plain Python, as with all decorators of this file.
    """
    return _made(function, _FLAGS)


def allocating(function: F) -> F:
    """Compile a helper as `jit` does, and let it allocate arrays: for working space whose size only the data know."""
    return _made(function, {**_FLAGS, "_nrt": True})


def inlined(function: F) -> F:
    """Mark a helper whose text numba puts into its callers, for pieces of a loop that pass many arrays. Not cached alone."""
    return _later(function, lambda: numba.njit(inline="always", **_FLAGS)(function))


#: Flags of helpers that only compiled code calls: no references counted, no way in from Python to compile.
_BORROWING: dict[str, Any] = {**_FLAGS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def part(function: F) -> F:
    """Mark a piece of a rule or loop: compiled into its callers' code, so that passing structs costs nothing.

    It is kept on disk as a part of them, not by itself. Python cannot call the compiled form.
    """
    return _later(function, lambda: numba.njit(forceinline=True, **_BORROWING)(function), is_door=False)


def borrowing(function: F) -> F:
    """Mark a helper that only borrows arrays: no allocation, no slices, no reference counts.

    Compiled and cached as with `jit`, but only kernels can call the compiled form. For loops that pass many arrays,
    where counting would cost more than the work.
    """
    return _made(function, _BORROWING)


def callback(name: str, signature: str, function: Callable[..., Any]) -> Any:
    """Register a Python function under a symbol name; returns an object that kernels call like the function.

    Kernels from the disk cache find it in any process that has registered it first. Without numba the result is the
    function itself.

    Args:
        name: the symbol, unique in the whole program.
        signature: result and arguments as ``float64(int64, float64)``; int64 and float64 are the only types.
        function: what is called, kept until the process ends; it must not raise.
    """
    if numba is None:
        return function
    import llvmlite.binding  # pyright: ignore[reportMissingTypeStubs]

    kinds = {numba.types.int64: ctypes.c_int64, numba.types.float64: ctypes.c_double}
    arguments, result = numba.core.sigutils.normalize_signature(signature)
    made = ctypes.CFUNCTYPE(kinds[result], *(kinds[argument] for argument in arguments))(function)
    _kept.append(made)
    llvmlite.binding.add_symbol(name, ctypes.cast(made, ctypes.c_void_p).value)
    return numba.types.ExternalFunction(name, result(*arguments))


_kept: list[object] = []  # functions that compiled code calls


def declared(signature: Any) -> Callable[[F], F]:
    """Return a decorator that compiles a kernel, or loads it from disk, when it is defined, for this signature only.

    A call with arguments of other types raises a TypeError. `signature` is numba's, as `signature()` makes it.
    """

    def wrap(function: F) -> F:
        def make() -> Any:
            made = _cached(function, _FLAGS)
            made.compile(signature)
            made.disable_compile()
            return made

        return _later(function, make, is_declared=True)

    return wrap


def entry(kernel: Any) -> Any:
    """The compiled code of a `declared` kernel, as a function that skips the search for a signature at each call.

    Pass exactly the declared types. Without numba the result is the kernel itself.
    """
    if numba is None:
        return kernel
    if isinstance(kernel, Late) and not change.is_compiled:
        return _later(kernel.py_func, lambda: entry(kernel.made), is_declared=kernel.is_declared)
    (only,) = kernel.overloads.values()
    return only.entry_point


_plain_texts: dict[Any, Any] = {}


def as_plain(kernel: Any) -> Any:
    """A kernel as a plain Python function that calls the plain forms of the kernels it uses.

    That holds for kernels that its file defines, imports by name, or calls as ``module.kernel``. The same kernel always
    gives the same function. Any other object is returned unchanged.
    """
    text = getattr(kernel, "py_func", None)
    if text is None:
        return kernel
    if text not in _plain_texts:
        scope, used = dict(text.__globals__), text.__code__.co_names
        _plain_texts[text] = types.FunctionType(text.__code__, scope, text.__name__, text.__defaults__)
        scope.update({name: _in_plain(scope[name], used) for name in used if name in scope})
    return _plain_texts[text]


def _in_plain(value: Any, used: tuple[str, ...]) -> Any:
    """A global of a kernel for its plain form; of a module with kernels, the attributes with the names it uses."""
    if not isinstance(value, types.ModuleType):
        return as_plain(value)
    attributes = {name: getattr(value, name) for name in used if hasattr(value, name)}
    if not any(hasattr(one, "py_func") for one in attributes.values()):
        return value
    return types.SimpleNamespace(**{name: as_plain(one) for name, one in attributes.items()})


class _Address:
    """A compiled function as the address of its code: numba asks for nothing else."""

    def __init__(self, address: int, kept: Any) -> None:
        self.address, self.kept = address, kept

    def __wrapper_address__(self) -> int:
        return self.address


def address_of(kernel: Any) -> Any:
    """Wrap the code address of a `declared` kernel with one signature, to pass it to an `entry` as an argument.

    If the kernel itself is passed, numba looks its code up at each call of the `entry`. With the address it does not, but
    each call of the kernel takes slightly longer. Python cannot call the result. Without numba it is the kernel itself.
    """
    if numba is None:
        return kernel
    (only,) = kernel.overloads.values()
    return _Address(only.library.get_pointer_to_function(only.fndesc.llvm_cfunc_wrapper_name), kernel)


@dataclasses.dataclass(frozen=True)
class ArrayOf:
    """Mark, in an `Annotated` field of a `struct`, that gives the compiler's type of the array, which is C-contiguous.

    Args:
        dtype: a NumPy scalar type by name, as ``int64``.
        dimensions: number of axes.
        writable: whether a rule may write the array.
    """

    dtype: str
    dimensions: int = 1
    writable: bool = False


#: Arrays of a struct that a rule may only read: a rule that writes one does not compile. C-contiguous.
ReadInts: TypeAlias = Annotated[NDArray[np.int64], ArrayOf("int64")]
ReadFloats: TypeAlias = Annotated[NDArray[np.float64], ArrayOf("float64")]
ReadTable: TypeAlias = Annotated[NDArray[np.float64], ArrayOf("float64", dimensions=2)]
#: Arrays of a struct that a rule writes: its answer, its memory, its working space.
Ints: TypeAlias = Annotated[NDArray[np.int64], ArrayOf("int64", writable=True)]
Floats: TypeAlias = Annotated[NDArray[np.float64], ArrayOf("float64", writable=True)]
Table: TypeAlias = Annotated[NDArray[np.float64], ArrayOf("float64", dimensions=2, writable=True)]
Octets: TypeAlias = Annotated[NDArray[np.uint8], ArrayOf("uint8", writable=True)]
IntTable: TypeAlias = Annotated[NDArray[np.int64], ArrayOf("int64", dimensions=2, writable=True)]


class Record(np.void):
    """A row of named words, each int or float, that loops read and write in place: ``slot.row``, ``now.waiting += 1``.

    A subclass declares the words as annotations and nothing else. Do not call it: `one` makes a record, `rows` a table of
    them. Both are passed to compiled code as fields of a `struct`.
    """

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        for place, name in enumerate(cls.__annotations__):
            setattr(cls, name, property(itemgetter(place), _setter(place)))


R = TypeVar("R", bound=Record)


def _setter(place: int) -> Any:
    def put(record: Any, value: Any) -> None:
        record[place] = value

    return put


class Rows(list[R], Generic[R]):
    """A table of records, made by `rows`: a NumPy structured array with numba, else a list, which is faster there.

    Both have indices, ``len`` and `size`, the number of records. `column`, `fill`, `cut` and `widened` work on both.
    """

    shape: type[R]

    @property
    def size(self) -> int:
        return len(self)


@functools.cache
def _dtype(shape: type) -> Any:
    kinds = get_type_hints(shape)
    return np.dtype((shape, [(name, np.int64 if kinds[name] is int else np.float64) for name in kinds]), align=True)


@functools.cache
def _plain_record(shape: type) -> type:
    """A class with the same words, for plain Python: reading one is ten times as fast as from an array."""
    return type(shape.__name__, (), {"__slots__": tuple(get_type_hints(shape))})


def rows(shape: type[R], count: int, **words: float) -> Rows[R]:
    """A new table of `count` records of the class `shape`. A given word has its value in all records; every other is 0."""
    if numba is not None:
        table: Any = np.zeros(count, _dtype(shape))
        if words and count:
            fill(table[:1], **words)
            table[1:] = table[0]  # in one pass; a column at a time would be one for each
        return cast("Rows[R]", table)
    made = Rows[R](_plain_record(shape)() for _ in range(count))
    made.shape = shape
    fill(made, **dict.fromkeys(get_type_hints(shape), 0) | words)
    return made


def one(shape: type[R]) -> R:
    """A new record of the class `shape`; every word is 0."""
    return rows(shape, 1)[0]


def _is_list(table: object) -> bool:
    return isinstance(table, Rows)


def cut(table: Rows[R], start: int, end: int) -> Rows[R]:
    """The records from index `start` to before `end` as a table: the same records, so a write changes `table` too."""
    found: Any = table[start:end]
    if _is_list(table):
        found = Rows[R](found)
        found.shape = table.shape
    return found


def column(table: Rows[Any], name: str) -> NDArray[Any]:
    """Array of one field of every record, in order: a view of the table with numba, a copy without. Write with `fill`."""
    return np.array([getattr(row, name) for row in table]) if _is_list(table) else cast("Any", table)[name]


def fill(table: Rows[Any], **words: Any) -> None:
    """Set the named fields of all records in place: to one value for all, or to a sequence with one for each record."""
    for name, values in words.items():
        if _is_list(table):
            for row, value in zip(table, np.broadcast_to(values, len(table)).tolist(), strict=True):
                setattr(row, name, value)
        else:
            cast("Any", table)[name] = values


def widened(table: Rows[R], count: int) -> Rows[R]:
    """A new table of `count` records, not fewer than `table` has: those of `table` first, then records of zeros.

    With numba the first are copies; without, they are the same records. Use `table` no more.
    """
    if _is_list(table):
        made = rows(table.shape, count)
        made[: len(table)] = table
        return made
    found: Any = np.zeros(count, cast("Any", table).dtype)
    found[: len(table)] = table
    return found


def struct(shape: type[tuple[Any, ...]]) -> Any:
    """The compiled type of a `NamedTuple` of int, float, bool, arrays (`ReadInts` .. `Table`), records and other structs.

    A field may also be bytes, or a tuple of such types, as ``tuple[int, int]``. Plain Python and compiled code read the same
    fields by name; None without numba.

    Raises:
        TypeError: a field of another type.
    """
    if numba is None:
        return None
    hints = get_type_hints(shape, include_extras=True)
    return numba.types.NamedTuple([_field_type(shape, name, hint) for name, hint in hints.items()], shape)


def signature(returns: Any, *arguments: Any) -> Any:
    """numba's signature of a function that returns `returns`, for `declared`; None without numba.

    Each type is one that a field of a `struct` may have, or a type of numba's own.

    Raises:
        TypeError: another type.
    """
    if numba is None:
        return None
    found, *given = (
        hint if isinstance(hint, numba.types.Type) else _field_type(object, "argument", hint)
        for hint in (returns, *arguments)
    )
    return found(*given)


def several(kind: Any, count: int) -> Any:
    """numba's type of a tuple of `count` values of numba's type `kind`, for a `signature`; None without numba."""
    return None if numba is None else numba.types.UniTuple(kind, count)


def _field_type(shape: type, name: str, hint: Any) -> Any:
    scalars = {int: numba.types.int64, float: numba.types.float64, bool: numba.types.boolean}
    if hint in scalars:
        return scalars[hint]
    if hint is bytes:
        return numba.types.Bytes(numba.types.uint8, 1, "C", readonly=True)
    if get_origin(hint) is tuple:
        return numba.types.Tuple([_field_type(shape, name, item) for item in get_args(hint)])
    if get_origin(hint) is Rows:
        return numba.types.Array(numba.from_dtype(_dtype(*get_args(hint))), 1, "C")
    if isinstance(hint, type) and issubclass(hint, Record):
        return numba.from_dtype(_dtype(hint))
    if isinstance(hint, type) and issubclass(hint, tuple):
        return struct(hint)
    for mark in get_args(hint):
        if isinstance(mark, ArrayOf):
            number = getattr(numba.types, mark.dtype)
            return numba.types.Array(number, mark.dimensions, "C", readonly=not mark.writable)
    raise TypeError(f"{shape.__name__}.{name} is {hint}; expected int, float, bool, a record, a struct or its array")


def sealed(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view of an array, not a copy; a write raises a ValueError. For plain Python; kernels use `read_only`."""
    window = array.view()
    window.flags.writeable = False
    return window


def _compiled_read_only() -> Any:
    from numba.extending import intrinsic  # pyright: ignore[reportMissingTypeStubs]

    def read_only(_typing: Any, array: Any) -> Any:
        def made(_context: Any, _builder: Any, _signature: Any, values: Any) -> Any:
            return values[0]

        return array.copy(readonly=True)(array), made

    found: Any = intrinsic(read_only)
    found.py_func = sealed
    return found


#: ``read_only(array)``: the same array as one that nothing may be written through. Costs nothing in compiled code.
read_only: Any = _later(sealed, _compiled_read_only, is_door=False)


def generated(source: str, scope: dict[str, Any], beside: Callable[..., Any], signature: Any) -> Any:
    """Compile one generated function for one declared signature, cached on disk next to the function it is made for.

    Args:
        source: the text of one function.
        scope: the names it uses; it may not shadow builtins.
        beside: a function of the file whose folder keeps the cache. A change of that file drops the cache.
        signature: numba's; None without numba.

    Returns:
        The kernel, as `declared` makes it.
    """
    names: dict[str, Any] = {"__name__": beside.__module__, **scope}
    home = getattr(beside, "py_func", beside).__code__.co_filename
    exec(compile(source, home, "exec"), names)
    (name,) = re.findall(r"^def (\w+)", source, re.MULTILINE)
    return declared(signature)(names[name])


_IMPORT = re.compile(r"^from evenstep\.([\w.]+) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)


def _imported(root: Path, source: Path) -> set[Path]:
    """Modules of ours that a source imports names or constants from."""
    found: set[Path] = set()
    for module, many, few in _IMPORT.findall(source.read_text(encoding="utf-8")):
        folder = root.joinpath(*module.split("."))
        found |= {folder.with_suffix(".py"), *(folder / f"{name}.py" for name in re.findall(r"\w+", many or few))}
    return {path for path in found if path.is_file()}


def drop_stale_caches(root: Path) -> None:
    """Delete the index of compiled kernels that are older than a source they may contain, so that they are compiled anew.

    These sources are their own file, all that it imports from evenstep, and this file. numba checks only the first.

    Args:
        root: the package's folder, where kernels are kept next to their sources.
    """
    for room in (root, *(path for path in root.rglob("*") if path.is_dir() and path.name != "__pycache__")):
        indices = list(room.glob("__pycache__/*.nbi"))
        if not indices:
            continue
        made = {room / f"{index.name.split('.')[0]}.py" for index in indices}
        sources, new = {root / "compiled.py"}, {path for path in made if path.is_file()}
        while new:
            sources |= new
            new = set[Path]().union(*(_imported(root, path) for path in new)) - sources
        newest = max(source.stat().st_mtime for source in sources)
        for index in indices:
            with suppress(OSError):
                if index.stat().st_mtime < newest:
                    index.unlink()


def _cache_of(function: Any) -> Any:
    """The disk cache of a kernel; nothing is kept where there is no folder for it."""
    from numba.core import caching  # pyright: ignore[reportMissingTypeStubs]

    is_ours = Path(function.__code__.co_filename).is_relative_to(kernel_cache.ROOT)
    try:
        return _cache_class(is_ours)(function)
    except RuntimeError:  # there is no folder
        return caching.NullCache()


@functools.cache
def _cache_class(is_ours: bool) -> Any:
    """numba's cache of one kernel, in our folder; a user's own kernel is kept where numba would, if it can be."""
    from numba.core import caching  # pyright: ignore[reportMissingTypeStubs]

    class Locator(caching.InTreeCacheLocator):
        def get_cache_path(self) -> str:
            return str(kernel_cache.place().folder_of(Path(self._py_file)))

        def ensure_cache_path(self) -> None:  # whether it can be written was seen once, and not for each kernel
            Path(self.get_cache_path()).mkdir(parents=True, exist_ok=True)

    where = kernel_cache.place()
    has_place = where.folder is not None or (is_ours and where.is_beside)
    usual = [] if is_ours else list(caching.CacheImpl._locator_classes)  # pyright: ignore[reportPrivateUsage]

    class Impl(caching.CompileResultCacheImpl):
        _locator_classes = [*usual, Locator] if has_place else usual

    class Kept(caching.FunctionCache):
        """A cache that is a help and never a hindrance: what a full disk does not take is compiled again next time.

        What it lacks is compiled under a lock, so that of two processes one compiles and the other loads.
        """

        _impl_class = Impl

        def _index_key(self, sig: Any, codegen: Any) -> Any:
            key: tuple[Any, ...] = super()._index_key(sig, codegen)
            # compiled code imports its module, and a user's file is another module here than in its own test
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

        @property
        def _lock_name(self) -> str:
            return f"{self._cache_path}/{self._impl.filename_base}"

        def _loaded(self, sig: Any, target_context: Any) -> Any:
            with suppress(OSError):
                return super().load_overload(sig, target_context)

    return Kept


def _listen() -> None:
    """Have it announced when a kernel is compiled that the cache does not have."""
    from numba.core import event  # pyright: ignore[reportMissingTypeStubs]

    class Compiling(event.Listener):
        def on_start(self, event: Any) -> None:
            kernel_cache.announce()

        def on_end(self, event: Any) -> None:
            kernel = event.data["dispatcher"]
            end = getattr(kernel._cache, "end_compiling", None)
            if end is not None and tuple(event.data["args"]) not in kernel.overloads:
                end()  # it failed; else `save_overload` follows

    event.register("numba:compile", Compiling())


@jit
def check(holds: Any) -> None:
    """Raise an IndexError if `holds` is false, in the checked build (``EVENSTEP_CHECKED=1``) only; else do nothing."""
    if CHECKED and not holds:
        raise IndexError("compiled code used an index outside its table")


# compiled 64-bit integers wrap silently; as plain scalars they do the same and say so at every draw
warnings.filterwarnings("ignore", "overflow encountered in scalar", RuntimeWarning, r"evenstep\.draws")
if numba is not None:
    if kernel_cache.place().is_beside:
        drop_stale_caches(kernel_cache.ROOT)
    _listen()
    # Functions as values are what a compiled policy is here; numba calls the feature experimental at every use.
    warnings.filterwarnings("ignore", category=numba.NumbaExperimentalFeatureWarning)


def _types() -> tuple[Any, ...]:
    """Scalars, arrays and the policies' signature as numba knows them; all None without numba."""
    if numba is None:
        return (None,) * 10
    i, f, array = numba.types.int64, numba.types.float64, numba.types.Array
    i1, f1, i2, f2 = array(i, 1, "C"), array(f, 1, "C"), array(i, 2, "C"), array(f, 2, "C")
    route = f(i, i, f, f, i, i, i2, f2, i2, f2, f2, f1, f2, i1, f1, i1, f1, i1)
    batch = f(i, i, f, i1, i1, i1, i, i1, array(i, 2, "F"), f1, i1, i1, f1, i1, f1, i2, i1)
    return i, f, i1, f1, i2, f2, route, numba.types.FunctionType(route), batch, numba.types.FunctionType(batch)


#: `ROUTE` is the signature of every compiled routing policy, `BATCH` of every engine scheduling policy; `routing.view` and
#: `scheduling.view` document the arguments.
INT, FLOAT, I1, F1, I2, F2, ROUTE, ROUTE_TYPE, BATCH, BATCH_TYPE = _types()
route_kernel = declared(ROUTE)
batch_kernel = declared(BATCH)


def parameters(policy: object) -> NDArray[np.float64]:
    """The fields of a policy or law as one float64 vector, in the order of declaration.

    Booleans become 0 or 1, ``None`` becomes nan, a choice becomes its index in the field's ``Literal``, from 0, and a
    tuple of numbers its length and the numbers. Text that is no choice is a TypeError.
    """
    hints = get_type_hints(type(policy))
    values: list[float] = []
    for field in dataclasses.fields(policy):  # type: ignore[arg-type]
        value = getattr(policy, field.name)
        if isinstance(value, tuple):
            values += [len(value), *value]
        elif isinstance(value, str):
            values.append(_choice(hints[field.name], value))
        else:
            values.append(math.nan if value is None else value)
    return np.array(values, dtype=np.float64)


def options_of(policy: type) -> tuple[type[tuple[Any, ...]], list[str]]:
    """Make the type by which a rule reads a policy's fields, and the source text that fills it from `parameters`.

    Booleans, ints and floats keep their kind. A field that may be ``None`` is a float, nan for None; a tuple is
    a float64 array. A choice becomes one boolean for each of its words: ``order: Literal["margin", "free-slots"]`` gives
    ``options.order_margin`` and ``options.order_free_slots``.

    Returns:
        A namedtuple class ``Options``; and lines of Python source that read a variable ``parameters``, as `parameters`
        makes it, and end with ``options = Options(...)``.
    """
    names: list[str] = []
    lines = ["at = 0"]
    hints = get_type_hints(policy)
    for field in dataclasses.fields(policy):
        hint, name = hints[field.name], field.name
        words = _words(hint)
        if words:
            found = [f"{name}_{re.sub(r'[^0-9a-zA-Z]', '_', word)}" for word in words]
            lines += [f"{one} = parameters[at] == {k}" for k, one in enumerate(found)]
        elif any(get_origin(one) is tuple for one in (hint, *get_args(hint))):  # also text that becomes one
            found = [name]
            lines += [f"{name} = parameters[at + 1 : at + 1 + int(parameters[at])]", f"at += {name}.size"]
        else:
            found = [name]
            read = {bool: "parameters[at] != 0.0", int: "int(parameters[at])"}.get(hint, "parameters[at]")
            lines.append(f"{name} = {read}")
        lines.append("at += 1")
        names += found
    options = collections.namedtuple("Options", names)  # type: ignore[misc]
    return options, [*lines, f"options = Options({', '.join(names)})"]


def _words(hint: object) -> tuple[str, ...]:
    """The words of a ``Literal`` of words; empty for every other hint."""
    options = get_args(hint) if get_origin(hint) is Literal else ()
    return options if all(isinstance(option, str) for option in options) else ()


def _choice(hint: object, value: str) -> float:
    options = [hint, *get_args(hint)]
    for option in options:
        if get_origin(option) is Literal and value in get_args(option):
            return float(get_args(option).index(value))
    raise TypeError(f"{value!r} is not a Literal of {hint}: a kernel needs choices it can number")


#: How to make the compiled door of a policy whose rule is in a module: by the module's name, with the module's names.
_ENTRIES: dict[str, list[tuple[dict[str, Any], Callable[[type], Any]]]] = {}


def has_rule(module: str, entry: Callable[[type], Any], scope: dict[str, Any]) -> None:
    """Register that policies of this module have a rule. A later registration for the same `scope` wins.

    Args:
        module: the module's name.
        entry: makes the compiled door of a policy class.
        scope: the module's globals. They identify the module, since two files of users may give theirs the same name.
    """
    _ENTRIES.setdefault(module, []).append((scope, entry))


def rule_of(policy: type) -> Callable[[type], Any] | None:
    """The function that makes the compiled door of a policy class from the rule of the file that defines the class.

    None if that file has no rule. A rule in the file of a base class does not count.
    """
    found = _ENTRIES.get(policy.__module__, [])
    own = [entry for scope, entry in found if scope.get(policy.__name__) is policy]
    return own[-1] if own else None


def door_of(policy: object) -> Any | None:
    """The compiled door for the rule of a policy's class, or of its nearest base class with one; None without a rule.

    The door is as in `kernel_of`.
    """
    for shape in type(policy).__mro__:
        entry = rule_of(shape)
        if entry is not None:
            return entry(shape)
    return None


def kernel_file(policy: object) -> Path | None:
    """The file of the rule that `kernel_of` finds for a policy; None without one, or if its module has no file."""
    home = getattr(sys.modules.get(type(policy).__module__), "__file__", None)
    return None if home is None or rule_of(type(policy)) is None else Path(home)


def kernel_of(policy: object) -> Any | None:
    """The compiled door of a policy, made from the rule in the file of its class; None without a rule there.

    A door has a kernel, `route_into` (routing) or `form_batch_into` (scheduling). Its ``scratch`` gives the sizes of the
    kernel's working space. A class is compiled once.
    """
    entry = rule_of(type(policy))
    return None if entry is None else entry(type(policy))
