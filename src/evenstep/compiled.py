"""The door to numba: every other file gets its kernels here. `numba_internals` has what numba does not document.

A kernel is a plain function marked with `jit`, `part` and their like, or with `declared`, which fixes one signature. All
compiled policies of one kind share a signature, so a simulator's loop is compiled once and kept in the disk cache. Without
numba, or with ``EVENSTEP_PLAIN=1``, kernels run as plain Python; `mode()` reports this, and banners and manifests show it.

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
from enum import EnumMeta
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from evenstep import kernel_cache
from evenstep.late import Late, change

numba: Any = None
internals: Any = None
if "1" not in (os.environ.get("EVENSTEP_PLAIN"), os.environ.get("NUMBA_DISABLE_JIT")):
    with suppress(ImportError):
        import numba  # pyright: ignore[reportMissingTypeStubs]

        from evenstep import numba_internals as internals

#: True in the checked build.
CHECKED = numba is not None and kernel_cache.is_checked()
change.is_compiled = numba is not None and not kernel_cache.begins_plain

F = TypeVar("F", bound=Callable[..., Any])


def mode() -> str:
    """How kernels run now, as text for banners: ``numba <version>``, in the checked build followed by ``, checked (slow)``.

    Without numba ``plain Python (slow)``; until this process changes over (`late`), with ``until they are compiled`` added.
    """
    if numba is None:
        return "plain Python (slow)"
    if not change.is_compiled:
        return "plain Python (slow) until they are compiled"
    return f"numba {numba.__version__}{', checked (slow)' if CHECKED else ''}"


def _later(plain: Callable[..., Any], make: Callable[[], Any], **what: bool) -> Any:
    """`plain` without numba; before this process changes over (`late`), a `Late` with options `what`; else `make()`."""
    if numba is None:
        return plain
    return make() if change.is_compiled else Late(plain, make, **what)


def jit(function: F) -> F:
    """Compile a kernel at its first call with arguments of new types, cached on disk; same bits on every machine.

    It may not allocate arrays (`allocating` may). Without numba it stays plain Python, as with all decorators of this file.
    """
    return _later(function, lambda: internals.kept(function, internals.KERNEL))


def allocating(function: F) -> F:
    """Compile a kernel at its first call, as `jit` does, but let it allocate arrays whose size only the data tell."""
    return _later(function, lambda: internals.kept(function, internals.ALLOCATING))


def inlined(function: F) -> F:
    """Mark a helper that numba copies into its callers, and caches only as part of them: for helpers with many arrays."""
    return _later(function, lambda: numba.njit(inline="always", **internals.KERNEL)(function))


def part(function: F) -> F:
    """Mark a piece of a rule or loop, to be compiled into the code of its callers, so that passing structs costs nothing.

    It is cached on disk only with its callers. Python cannot call the compiled form.
    """
    return _later(function, lambda: numba.njit(**internals.PART)(function), is_door=False)


def borrowing(function: F) -> F:
    """Compile a kernel as `jit` does, without counting references to arrays. Only kernels may call it; it may not slice."""
    return _later(function, lambda: internals.kept(function, internals.INNER), is_door=False)


def callback(name: str, function: Callable[..., float], *takes: type[float]) -> Any:
    """Register a Python function under a symbol name; returns an object that kernels call like the function.

    Register the same name in each process before it loads a kernel that calls it. Without numba the result is `function`.

    Args:
        name: the symbol, unique in the whole program.
        function: returns a float, and must not raise; it is kept until the process ends.
        takes: types of its arguments, int or float.
    """
    if numba is None:
        return function
    from llvmlite.binding import add_symbol  # pyright: ignore[reportMissingTypeStubs]

    kinds = {int: ctypes.c_int64, float: ctypes.c_double}
    made = ctypes.CFUNCTYPE(ctypes.c_double, *(kinds[one] for one in takes))(function)
    _kept.append(made)
    add_symbol(name, ctypes.cast(made, ctypes.c_void_p).value)
    return numba.types.ExternalFunction(name, signature(float, *takes))


_kept: list[object] = []  # functions of `callback`, so that they are never freed


def declared(signature: Any) -> Callable[[F], F]:
    """Return a decorator that compiles a kernel, or loads it from disk, when it is defined, for this signature only.

    `signature` is the result of `signature()`. In compiled code, numbers of other types are converted, and other arguments
    that do not fit raise a TypeError. Before this process changes over, the kernel is made when first needed (`late`).
    """

    def wrap(function: F) -> F:
        def make() -> Any:
            made = internals.kept(function, internals.KERNEL)
            made.compile(signature)
            made.disable_compile()
            return made

        return _later(function, make, is_declared=True)

    return wrap


def entry(kernel: Any) -> Any:
    """The compiled code of a `declared` kernel, as a function. Arguments must have the declared types, which nothing checks.

    Without numba the result is the kernel itself.
    """
    if numba is None:
        return kernel
    if isinstance(kernel, Late) and not change.is_compiled:
        return _later(kernel.py_func, lambda: entry(kernel.made), is_declared=kernel.is_declared)
    return internals.entry_of(kernel)


_plain_texts: dict[Any, Any] = {}


def as_plain(kernel: Any) -> Any:
    """The plain Python form of a kernel, which calls the plain forms of the kernels it uses; for other objects the object.

    The kernels it uses are found if its file defines them, imports them by name, or calls them as ``module.kernel``. The
    same kernel always gives the same function.
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
    """The plain form of a global of a kernel: `as_plain`, or for a module with kernels a namespace of the `used` names."""
    if not isinstance(value, types.ModuleType):
        return as_plain(value)
    attributes = {name: getattr(value, name) for name in used if hasattr(value, name)}
    if not any(hasattr(one, "py_func") for one in attributes.values()):
        return value
    return types.SimpleNamespace(**{name: as_plain(one) for name, one in attributes.items()})


def address_of(kernel: Any) -> Any:
    """Wrap the code address of a `declared` kernel with one signature, to pass it to an `entry` as an argument.

    It spares the search for the kernel's code at each call of the `entry`, and makes each call of the kernel slightly
    slower. Python cannot call the result. Without numba it is the kernel itself.
    """
    return kernel if numba is None else internals.Address(kernel)


@dataclasses.dataclass(frozen=True)
class ArrayOf:
    """Mark in an `Annotated` field of a `struct`: the field is a C-contiguous array of this compiled type."""

    dtype: str  # a NumPy scalar type by name, as ``int64``
    dimensions: int = 1  # number of axes
    writable: bool = False  # True if a rule may write the array


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
    """A row of named fields, each int or float, that loops read and write in place: ``slot.row``, ``now.waiting += 1``.

    A subclass declares the fields as annotations and nothing else. Do not call it: `one` makes a record, `rows` a table of
    them. Both are passed to compiled code as fields of a `struct`.
    """

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        for place, name in enumerate(cls.__annotations__):
            setattr(cls, name, property(itemgetter(place), _setter(place)))


R = TypeVar("R", bound=Record)


def _setter(place: int) -> Any:
    """A function that writes the field at index `place` of a record."""

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
    """The NumPy structured type of a `Record` class: int64 for int, float64 for float."""
    kinds = get_type_hints(shape)
    return np.dtype((shape, [(name, np.int64 if kinds[name] is int else np.float64) for name in kinds]), align=True)


@functools.cache
def _plain_record(shape: type) -> type:
    """A class with the same fields, for plain Python, where it is read ten times as fast as a NumPy record."""
    return type(shape.__name__, (), {"__slots__": tuple(get_type_hints(shape))})


def rows(shape: type[R], count: int, **words: float) -> Rows[R]:
    """A new table of `count` records of the class `shape`; `words`: field -> value in all records. Other fields are 0."""
    if numba is not None:
        table: Any = np.zeros(count, _dtype(shape))
        if words and count:
            fill(table[:1], **words)
            table[1:] = table[0]  # faster than filling column after column
        return cast("Rows[R]", table)
    made = Rows[R](_plain_record(shape)() for _ in range(count))
    made.shape = shape
    fill(made, **dict.fromkeys(get_type_hints(shape), 0) | words)
    return made


def one(shape: type[R]) -> R:
    """A new record of the class `shape`; every field is 0."""
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
    """A new table of `count` records, which must not be fewer than `table` has: those of `table`, then records of zeros.

    With numba the first are copies; without, they are the same records. Do not use `table` afterwards.
    """
    if _is_list(table):
        made = rows(table.shape, count)
        made[: len(table)] = table
        return made
    found: Any = np.zeros(count, cast("Any", table).dtype)
    found[: len(table)] = table
    return found


def struct(shape: type[tuple[Any, ...]]) -> Any:
    """The compiled type of a `NamedTuple`, for code that reads its fields by name, as plain Python does; None without numba.

    A field is an int, float, bool, bytes, an array (`ReadInts` .. `IntTable`), a record, a table of records, a struct, or a
    tuple of such types, as ``tuple[int, int]``. A field of another type raises a TypeError.
    """
    if numba is None:
        return None
    hints = get_type_hints(shape, include_extras=True)
    return numba.types.NamedTuple([_field_type(shape, name, hint) for name, hint in hints.items()], shape)


def signature(returns: Any, *arguments: Any) -> Any:
    """numba's signature of a function from the types `arguments` to `returns`, for `declared`; None without numba.

    Each type is one that a field of a `struct` may have, or a type of numba's own; another type raises a TypeError.
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
    """numba's type for the type `hint` of the field `name` of `shape`; for other types a TypeError that names the field."""
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
    """A read-only view of an array, not a copy: a write raises a ValueError, or does not compile. In kernels it is free."""
    window = array.view()
    window.flags.writeable = False
    return window


def generated(source: str, scope: dict[str, Any], beside: Callable[..., Any], signature: Any) -> Any:
    """Compile the text of a function for one signature. The kernel is cached on disk as if it stood in the file of `beside`.

    Args:
        source: the text of one function.
        scope: the global names that it uses; it may not shadow builtins.
        beside: a function whose file gives the kernel its place in the cache. A change of that file drops the cached code.
        signature: result of `signature()`; None without numba.

    Returns:
        The kernel, compiled for this signature only (`declared`).
    """
    names: dict[str, Any] = {"__name__": beside.__module__, **scope}
    home = getattr(beside, "py_func", beside).__code__.co_filename
    exec(compile(source, home, "exec"), names)
    (name,) = re.findall(r"^def (\w+)", source, re.MULTILINE)
    return declared(signature)(names[name])


@jit
def check(holds: Any) -> None:
    """Raise an IndexError if `holds` is false, but only in the checked build (``EVENSTEP_CHECKED=1``)."""
    if CHECKED and not holds:
        raise IndexError("compiled code used an index outside its table")


# Compiled 64-bit integers wrap silently; NumPy scalars wrap too, but warn at every draw.
warnings.filterwarnings("ignore", "overflow encountered in scalar", RuntimeWarning, r"evenstep\.draws")
if numba is not None:
    if kernel_cache.place().is_beside:
        kernel_cache.drop_stale(kernel_cache.ROOT)
    internals.listen()
    internals.compile_sealed(sealed)
    # Compiled policies are functions passed as values; numba warns at every use that this is experimental.
    warnings.filterwarnings("ignore", category=numba.NumbaExperimentalFeatureWarning)


def _types() -> tuple[Any, ...]:
    """The ten numba types that are bound to `INT` .. `BATCH_TYPE` below; all None without numba."""
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

    Booleans become 0 or 1, ``None`` becomes nan, a choice becomes its index in the field's ``Literal``, from 0, and a tuple
    of numbers its length and the numbers. Text that is no such choice raises a TypeError.
    """
    values: list[float] = []
    for field in dataclasses.fields(policy):  # type: ignore[arg-type]
        value = getattr(policy, field.name)
        if isinstance(value, tuple):
            values += [len(value), *value]
        elif isinstance(value, str):
            values.append(_choice(_hints_of(type(policy))[field.name], value))
        else:
            values.append(math.nan if value is None else value)
    return np.array(values, dtype=np.float64)


@functools.cache
def _hints_of(policy: type) -> dict[str, Any]:
    """The types of a class's fields. To read them takes longer than many a decision; callers leave the dict as it is."""
    return get_type_hints(policy)


def options_of(policy: type) -> tuple[type[tuple[Any, ...]], list[str]]:
    """The type by which a rule reads the fields of a policy class, and source text that fills it from `parameters`.

    Booleans, ints and floats keep their kind. A field that may be ``None`` is a float, nan for None; a tuple is a float64
    array. A choice becomes one boolean for each of its words: ``order: Literal["margin", "free-slots"]`` gives
    ``options.order_margin`` and ``options.order_free_slots``.

    Returns:
        A namedtuple class ``Options``; and lines of Python source that read a variable ``parameters``, as `parameters` makes
        it, and end with ``options = Options(...)``.

    Raises:
        TypeError: a field is text that is no choice, or an Enum whose members are no numbers.
    """
    names: list[str] = []
    lines = ["at = 0"]
    hints = get_type_hints(policy)
    for field in dataclasses.fields(policy):
        hint, name = hints[field.name], field.name
        if hint is str or _is_wordy(hint):
            said = "any text" if hint is str else "an Enum"
            raise TypeError(f"option {name} is {said}; expected numbers, or the words that it may be, as a Literal")
        words = _words(hint)
        if words:
            found = [f"{name}_{re.sub(r'[^0-9a-zA-Z]', '_', word)}" for word in words]
            lines += [f"{one} = parameters[at] == {k}" for k, one in enumerate(found)]
        elif any(get_origin(one) is tuple for one in (hint, *get_args(hint))):  # also a union with text, converted to one
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


def _is_wordy(hint: object) -> bool:
    """True for an Enum whose members are no numbers."""
    return isinstance(hint, EnumMeta) and not issubclass(hint, int | float)


def _words(hint: object) -> tuple[str, ...]:
    """The words of a `Literal` of words; empty for any other type."""
    options = get_args(hint) if get_origin(hint) is Literal else ()
    return options if all(isinstance(option, str) for option in options) else ()


def _choice(hint: object, value: str) -> float:
    """The index, from 0, of `value` in the `Literal` that a type is or contains; a TypeError if it is not there."""
    options = [hint, *get_args(hint)]
    for option in options:
        if get_origin(option) is Literal and value in get_args(option):
            return float(get_args(option).index(value))
    raise TypeError(f"{value!r} is not a Literal of {hint}: a kernel needs choices it can number")


#: Module name -> the rules of all modules of that name, each with the function that makes its doors (`has_rule`).
_ENTRIES: dict[str, list[tuple[Any, Callable[[type], Any]]]] = {}


def has_rule(rule: Any, entry: Callable[[type], Any]) -> None:
    """Register a rule, ``(view, options, work)``, for policies of its module; the last one registered for a class counts.

    A rule is for the class that annotates its `options`, for subclasses of it, and for classes of its file that no rule
    names. In a notebook, whose cells share a module, it is not for a class while it names another, nor while it names none
    and there are several.

    Args:
        rule: a plain function. Its globals identify its module, since two files of users may have the same module name.
        entry: given a policy class, makes its compiled door (`kernel_of`).
    """
    _ENTRIES.setdefault(rule.__module__, []).append((rule, entry))


def rule_of(policy: type) -> Callable[[type], Any] | None:
    """The function that makes the door of a class; None if its file has no rule, or does not bind it at top level."""
    line = [shape.__name__ for shape in policy.__mro__]

    def distance(found: tuple[Any, Callable[[type], Any]]) -> int:
        """Classes between `policy` and the one that the rule names; more if it names none, and most if it names another."""
        hint = found[0].__annotations__.get("options", "")
        named = hint.strip("'\"") if isinstance(hint, str) else getattr(hint, "__name__", "")
        return line.index(named) if named in line else len(line) + dataclasses.is_dataclass(found[0].__globals__.get(named))

    found = [one for one in _ENTRIES.get(policy.__module__, []) if one[0].__globals__.get(policy.__name__) is policy]
    best = min(reversed(found), key=distance, default=None)
    if best is None or (distance(best) >= len(line) and _is_shared(best[0].__globals__, policy)):
        return None
    return best[1]


def _is_shared(scope: dict[str, Any], policy: type) -> bool:
    """True if `scope` is that of a notebook with a dataclass of the base of `policy`, as Ruled, outside its own line."""
    kinds = [one for one in scope.values() if isinstance(one, type) and one.__module__ == policy.__module__]
    beside = [one for one in kinds if not issubclass(one, policy) and not issubclass(policy, one)]
    bases = {*policy.__mro__[1:-1]}
    return "__file__" not in scope and any(dataclasses.is_dataclass(one) and bases & {*one.__mro__} for one in beside)


def door_of(policy: object) -> Any | None:
    """The compiled door of a policy, by the rule of its class or of the nearest base class with a rule; None without any."""
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
    """The compiled door of a policy, through which hosts call its rule; None if the file of its class has no rule.

    A door has a kernel, `route_into` (routing) or `form_batch_into` (scheduling), and ``scratch``, which gives the sizes of
    the kernel's working space. A class is compiled once.
    """
    entry = rule_of(type(policy))
    return None if entry is None else entry(type(policy))
