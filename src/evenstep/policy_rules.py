"""Generates the compiled door of a policy, the kernel by which hosts call the rule of its file; for routing and scheduling.

A rule reads its view, its options and its working space by name. `Work` declares that space, each array with its length::

    class Work(NamedTuple):
        key: Annotated[Floats, "waiting"]
        gap: Annotated[Table, "workers, options.levels"]

A length is an expression of the door's `Door.sizes` and of `options`, with two numbers for a table. A file may state the
lengths of all its arrays, in their order, by a function `room` instead. A field of `Work` may be a struct of arrays.
"""

from __future__ import annotations

import linecache
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any, TypeVar, cast, get_type_hints

import numpy as np

from evenstep import compiled, kernel_cache
from evenstep.compiled import ArrayOf, part
from evenstep.errors import PolicyError

F = TypeVar("F", bound=Callable[..., Any])
#: Guard words after every array that a compiled door may write, to detect writes past its end.
_GUARD, _INT, _FLOAT = 8, -77777, -77777.5


@dataclass(frozen=True, slots=True, eq=False)
class Door:
    """Settings for generating the doors of one kind of policy.

    Args:
        text: source of the door's function, with places ``{lengths}`` and ``{work}`` to fill in. It has the arguments
            `parameters`, `scratch_i` and `scratch_f`.
        signature: of the function, as numba's type.
        scope: the names that the text uses.
        work: working space of a file that declares none.
        given: the expression of each array that working space begins with; they take no room in the scratch arrays.
        made: structs that the text makes itself -> the expression for each.
        taken: number of entries at the start of `scratch_i` (int64), and of `scratch_f` (float64), that the text uses
            itself.
        sizes: names that lengths may use, as ``waiting`` -> the expression for each in the text.
    """

    text: str
    signature: Any
    scope: Mapping[str, Any]
    work: type
    given: tuple[str, ...] = ()
    made: Mapping[type, str] = field(default_factory=dict[type, str])
    taken: tuple[int, int] = (0, 0)
    sizes: Mapping[str, str] = field(default_factory=dict[str, str])


def rule_of_file(door: Door, function: F) -> F:
    """Register `function`, ``(view, options, work)``, as the rule of policies of its file (`compiled.has_rule`).

    Its ``Work`` is the one above it, else the one that the file binds when a door is first made; ``room`` is read then, too.
    Returns the function as a `compiled.part`.
    """
    made = part(function)
    work = function.__globals__.get("Work")  # the next cell of a notebook may bind another
    if work is not None and _stands_below(function.__code__):
        work = None  # of the run before: the file is loaded again, or the cell
    compiled.has_rule(function, cache(partial(_entry, door, made, work)))
    return made


def _stands_below(rule: CodeType) -> bool:
    """True if the source of a rule's file or cell has ``class Work`` below the rule only; False if no source is known."""
    linecache.checkcache(rule.co_filename)
    at = [n for n, line in enumerate(linecache.getlines(rule.co_filename), 1) if re.match(r"class Work\b", line)]
    return bool(at) and at[0] > rule.co_firstlineno


def ruled_door(policy: object) -> Any:
    """The compiled door of a policy (`compiled.door_of`); a `PolicyError` if no file of its classes has a rule."""
    door = compiled.door_of(policy)
    if door is None:
        name, where = type(policy).__name__, "in its file; in a notebook of several policies it says options: "
        raise PolicyError(f"{name} has no rule; expected a function marked with @rule {where}{name}")
    return door


def _entry(door: Door, made: Any, work: type | None, policy: type) -> Any:
    """Make the door of a policy class (`_door_of`). A user's rule that cannot be made or compiled is a `PolicyError`."""
    try:
        return _door_of(door, made, work, policy)
    except Exception as error:
        file = Path(getattr(made, "py_func", made).__code__.co_filename)
        if file.is_relative_to(kernel_cache.ROOT) or isinstance(error, MemoryError):
            raise  # the user is not at fault
        raise PolicyError(f"{file.name}: the rule of {policy.__name__} is refused: {_said(error, file.name)}") from error


def _said(error: Exception, file: str) -> str:
    """What an error says in its first line; if it is numba's, also the line of the file that does not compile, if known."""
    text = re.sub(r"\x1b\[\d*m", "", str(error))
    lines = [line.strip() for line in text.splitlines()]
    said = next((line for line in lines if line and not line.startswith("Failed in nopython mode")), "")
    places = re.findall(rf'File "(?:[^"]*/)?{re.escape(file)}", line (\d+)', text)[:-1]  # the last is the generated door's
    return f"{f'line {places[0]}: ' if places else ''}{type(error).__name__}: {said.rstrip(' :')}"


def _door_of(door: Door, made: Any, work: type | None, policy: type) -> Any:
    """Make the door of a policy class: an object with the compiled function under its name, and ``scratch``.

    ``scratch(*sizes, parameters)`` gives the (int64, float64) entries of working space that the function needs. A TypeError
    if `Work` does not begin with the arrays that it is given, or an array declares no length and the file has no `room`.
    """
    module: dict[str, Any] = getattr(made, "py_func", made).__globals__
    work = work or cast("type", module.get("Work", door.work))
    names = module if work.__module__ == policy.__module__ else None  # two users' files may have one name
    read = _reader(policy)
    arrays, first = list(_arrays(work, names, door)), [one.partition("[")[0] for one in door.given]
    begins = [name for name, *_ in arrays[: len(first)]]
    if begins != first:
        said = f"begins with other arrays ({', '.join(begins)})"
        raise TypeError(f"{work.__name__} {said}; expected {', '.join(first)} first, in this order")
    kinds = arrays[len(first) :]
    room = module.get("room") or _room(work, kinds, door)
    scope: dict[str, Any] = {**door.scope, "rule": made, "read": part(read), "room": part(room)}
    windows, lines = list(door.given), []
    ends = {"scratch_i": str(door.taken[0]), "scratch_f": str(door.taken[1])}
    if kinds:
        lines = [f"lengths = room({', '.join(door.sizes.values())}, options)"]
    for k, (_, buffer, dimensions, _) in enumerate(kinds):
        length = f"lengths[{k}]" if dimensions == 1 else f"lengths[{k}][0] * lengths[{k}][1]"
        lines.append(f"end{k} = {ends[buffer]} + {length}")
        shape = f".reshape(lengths[{k}])" if dimensions == 2 else ""
        windows.append(f"{buffer}[{ends[buffer]} : end{k}]{shape}")
        ends[buffer] = f"end{k}"
    filled = _filled(work, names, door, iter(windows), scope)
    source = door.text.format(lengths="\n    ".join(lines), work=filled)

    def scratch(*given: Any) -> tuple[int, int]:
        *sizes, parameters = given
        lengths = room(*sizes, read(parameters)) if kinds else ()
        numbers = [int(math.prod(length) if isinstance(length, tuple) else length) for length in lengths]
        ints = sum(n for n, (_, buffer, *_) in zip(numbers, kinds, strict=True) if buffer == "scratch_i")
        return door.taken[0] + ints, door.taken[1] + sum(numbers) - ints

    function = compiled.generated(source, scope, made, door.signature)
    return SimpleNamespace(**{function.__name__: function, "scratch": scratch})


def _reader(policy: type) -> Any:
    """A function that makes the options of a policy class, by name, from its vector of parameters."""
    options, lines = compiled.options_of(policy)
    return _function("def read(parameters):\n    " + "\n    ".join([*lines, "return options"]), {"Options": options})


def _room(work: type, kinds: list[tuple[str, str, int, str]], door: Door) -> Any:
    """A function of the door's sizes and of options that returns all declared lengths; an array without one: TypeError."""
    for name, *_, length in kinds:
        if not length:
            said = f'Annotated[Ints, "2 * {next(iter(door.sizes))}"]'
            raise TypeError(f"{work.__name__}.{name} has no length; expected one, as {said}")
    lengths = "".join(f"({length}), " for *_, length in kinds)
    return _function(f"def room({', '.join(door.sizes)}, options):\n    return ({lengths})", {})


def _function(text: str, scope: dict[str, Any]) -> Any:
    """Execute the source text of one function with the names in `scope`, and return the function."""
    exec(text, scope)
    return scope[text.partition("(")[0].removeprefix("def ")]


def _is_struct(hint: Any) -> bool:
    """True if a type is a class of tuples, such as a NamedTuple."""
    return isinstance(hint, type) and issubclass(hint, tuple)


def _arrays(work: type, names: dict[str, Any] | None, door: Door) -> Iterator[tuple[str, str, int, str]]:
    """Yield name, scratch array, dimensions and declared length ("" = none) of each array, also inside structs.

    `names` resolve the annotations of `work`. A field that is neither a struct nor a writable array raises a TypeError.
    """
    if work in door.made:
        return
    for name, hint in get_type_hints(work, names, include_extras=True).items():
        if _is_struct(hint):
            yield from _arrays(hint, None, door)
            continue
        marks = getattr(hint, "__metadata__", ())
        array = next((mark for mark in marks if isinstance(mark, ArrayOf) and mark.writable), None)
        if array is None:
            raise TypeError(f"{work.__name__}.{name} is {hint}; expected Ints, Floats or Table")
        length = next((mark for mark in marks if isinstance(mark, str)), "")
        yield name, "scratch_i" if array.dtype == "int64" else "scratch_f", array.dimensions, length


def _filled(work: type, names: dict[str, Any] | None, door: Door, windows: Iterator[str], scope: dict[str, Any]) -> str:
    """Source text that makes working space from the texts of its arrays (`windows`); adds its classes to `scope`."""
    if work in door.made:
        return door.made[work]
    scope[work.__name__] = work
    fields = [
        _filled(hint, None, door, windows, scope) if _is_struct(hint) else next(windows)
        for hint in get_type_hints(work, names, include_extras=True).values()
    ]
    return f"{work.__name__}({', '.join(fields)})"


@dataclass(frozen=True, slots=True, eq=False)
class KernelCall:
    """One call of a compiled rule, prepared but not made: the view as arguments, and arrays that the call writes.

    Args:
        function: the kernel.
        arguments: all its arguments, in order.
        answer: makes the decision from the number that the kernel returns, and from the arrays that it wrote.
        guarded: the arrays that it may write, by name, each with guard words at its end, which it may not write.
    """

    function: Any
    arguments: tuple[Any, ...]
    answer: Callable[[float], Any]
    guarded: dict[str, Any]

    def in_plain(self) -> KernelCall:
        """The same call of the rule in plain Python. Both calls write the same arrays: make only one of them."""
        return replace(self, function=compiled.as_plain(self.function))

    def decision(self) -> Any:
        """Make the call and return the decision; once only, as it writes arrays. An invalid answer is a `PolicyError`."""
        return self.answer(float(self.function(*self.arguments)))

    def overrun(self) -> str:
        """A sentence on the first array that `decision` has written beyond its end; empty if there is none."""
        for name, array in self.guarded.items():
            if np.any(array[..., -_GUARD:] != (_INT if array.dtype == np.int64 else _FLOAT)):
                return f"the kernel writes beyond the end of {name}"
        return ""


def guarded(**shapes: Any) -> tuple[dict[str, Any], list[Any]]:
    """Make arrays for a kernel to write, filled with the guard word, with guard words after the last column of each.

    ``scratch_f`` is float64, every other array int64. `shapes`: name -> shape without the guard words, a number or a tuple.

    Returns:
        The arrays by name, and views of them without the guard words, in the same order.
    """
    arrays: dict[str, Any] = {}
    for name, shape in shapes.items():
        *rows, columns = np.atleast_1d(shape).tolist()
        arrays[name] = np.full((*rows, columns + _GUARD), _FLOAT if name == "scratch_f" else _INT)
    return arrays, [array[..., :-_GUARD] for array in arrays.values()]
