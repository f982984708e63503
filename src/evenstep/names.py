"""Finds policies, predictors, laws and other members of rooms (folders of evenstep) by name: the name is the file.

``br-h`` is ``br_h.py`` in ``routing/`` or one folder below. The file binds its class to ``policy``; each room has its own
word (`BINDINGS`). A name may also be ``package.module:Thing``, ``mine.py:Thing``, ``mine.py`` (its binding), or an entry
point of another package in the group ``evenstep.<room>``. Such a package is imported only when its name is used. There is no
registry.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import importlib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any, cast, get_args, get_origin, get_type_hints

from evenstep.config.messages import expectation
from evenstep.config.number import numeral
from evenstep.errors import MOST, EvenstepError, InputError, nearest

#: The name a member of each room binds, in `workload` next to others: there the module itself is the member.
BINDINGS: dict[str, str] = {
    "routing": "policy",
    "scheduling": "policy",
    "predict": "predictor",
    "cost": "law",
    "batch": "batch_law",
    "workload": "read",
    "cli": "command",
    "experiments": "experiment",
    "engines": "adapter",
}
#: What a member has, once made; rooms that are not here make none.
_PARTS = {
    "routing": ("route",),
    "scheduling": ("form_batch",),
    "predict": ("predict", "learn"),
    "cost": ("local_seconds", "table", "overhead_seconds"),
    "batch": ("seconds", "table"),
    "engines": ("dialect", "health_path", "metrics_path", "rank_header", "samples"),
}
#: The word for a member in errors, if it is not the word that it binds.
_NOUNS = {
    "scheduling": "scheduling policy",
    "batch": "batch-time law",
    "workload": "trace format",
    "engines": "engine",
}
#: Start of the names of modules loaded from users' files; a hash of the path is their end.
USER_MODULE = "evenstep_user_"
_ROOT = Path(__file__).parent
_guests: set[Path] = set()  # files, and folders of packages, of others' code that was found by a name
_PLACES = {"experiments": "experiments.papers", "batch": "cost"}  # where members lie, if not in the room's own folder


@cache
def members(room: str) -> tuple[str, ...]:
    """Sorted names of all members of a room: its own files that bind ``BINDINGS[room]``, and entry points of other packages.

    `room` is a key of `BINDINGS`; any other is a KeyError. The answer is kept until the process ends.
    """
    return tuple(sorted({*built_in(room), *(e.name for e in _offered(room))}))


def built_in(room: str) -> dict[str, str]:
    """Sorted names of evenstep's own members of a room, each with its full name, which no other package can take."""
    word = BINDINGS[room]
    return {_name(file.stem): f"{_module(file)}:{word}" for file in sorted(_files(room)) if _binds(file, word)}


def find(room: str, name: str) -> Any:
    """The member of a room that a name stands for: usually a class, which is not called here; a module for ``workload``.

    A user's file is executed when it is first named, and again after it has changed.

    Args:
        room: a key of `BINDINGS`; ``batch`` has the batch-time laws.
        name: a file's name with dashes, ``package.module:Thing``, ``mine.py[:Thing]`` or an entry point's name.

    Raises:
        InputError: no such name (the nearest are offered), two owners of it, or a file, module or entry point that cannot be
            loaded.
    """
    word = BINDINGS[room]
    place, _, thing = name.rpartition(":") if ":" in name else (name, "", "")
    if place.endswith(".py"):
        return _member(room, _load_file(place), thing or word, name)
    if thing and place in members(room):
        raise InputError(name, "option", thing, "key=value", f"Write {place}:key=value,key=value.")
    if thing:
        return _member(room, _import(place, name), thing, name)
    own = [file for file in _files(room) if _name(file.stem) == name and _binds(file, word)]
    others = [e for e in _offered(room) if e.name == name]
    if len(own) + len(others) > 1:
        owners = [*(f"evenstep.{room}" for _ in own), *(e.value for e in others)]
        raise InputError(room, "name", name, "one owner", f"It is claimed by {' and '.join(owners)}; name one in full.")
    if own:
        return _member(room, importlib.import_module(_module(own[0])), word, name)
    if others:
        try:
            thing = others[0].load()
            _note_guest(others[0].value.partition(":")[0])
            return thing
        except (Exception, SystemExit) as error:
            said = f"{type(error).__name__}: {error}."
            raise InputError(name, "entry point", others[0].value, "one that loads", said) from error
    hint = _elsewhere(room, name) or nearest(name, members(room))
    raise InputError(_noun(room), "name", name, f"a known {_noun(room)}", hint)


def guest_line(error: BaseException) -> str:
    """``FILE, line N`` of others' code if that, not ours, raised the error or its cause, even elsewhere; else empty."""
    link: BaseException | None = error
    while link is not None:
        told = "".join(traceback.format_exception(link, chain=False))  # a note has the traceback of another process
        for file, line in reversed(re.findall(r'File "(.+?)", line (\d+)', told)):
            owner = next((place for place in (Path(file), *Path(file).parents) if place == _ROOT or place in _guests), None)
            if owner == _ROOT:
                break
            if owner is not None:
                return f"{file}, line {line}"
        link = link.__cause__
    return ""


def parse(text: str) -> dict[str, str]:
    """``"bf-io:horizon=20,discount=0.9"`` as ``{"name": "bf-io", "horizon": "20", "discount": "0.9"}``.

    What follows the first colon belongs to the name if it has no ``=`` (``mine.py:Thing``). Dashes in option names become
    underscores; values stay text. A later option without ``=``, or one given twice, raises an `InputError`.
    """
    name, colon, tail = text.partition(":")
    if colon and "=" not in tail.partition(":")[0].partition(",")[0]:  # mine.py:Thing, maybe with options
        thing, _, tail = tail.partition(":")
        name = f"{name}:{thing}"
    spec = {"name": name}
    for part in filter(None, tail.split(",")):
        key, equals, value = part.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key:
            raise InputError(text, "option", part, "key=value", "Write name:key=value,key=value.")
        if key in spec:
            raise InputError(text, "option", key, "each option once")
        spec[key] = value.strip()
    return spec


def options(text: str, where: str) -> dict[str, str]:
    """``"kv-tokens=20000,token-budget=512"`` as ``{"kv_tokens": "20000", "token_budget": "512"}``; empty for empty text.

    Values stay text. An option without ``=``, or given twice, raises an `InputError` that names `where`.
    """
    if text and "=" not in text.partition(",")[0]:  # `parse` would take it for the name of a thing
        raise InputError(where, "option", text.partition(",")[0], "key=value", "Write key=value,key=value.")
    spec = parse(f"{where}:{text}" if text else where)
    del spec["name"]
    return spec


def build(room: str, spec: Mapping[str, Any] | str) -> Any:
    """Make an instance of the member of a room called ``name`` in `spec`, with all other keys of `spec` as its options.

    A `spec` as text is parsed first (`parse`).

    Raises:
        InputError: an unknown name, unknown options (all at once, with the nearest name), a value that does not fit, or a
            class without the methods of the room's members.
    """
    options = dict(parse(spec) if isinstance(spec, str) else spec)
    name = str(options.pop("name"))
    made, parts = make(find(room, name), options, name), _PARTS.get(room, ())
    if not all(hasattr(made, part) for part in parts):
        raise InputError(name, _noun(room), type(made).__name__, f"a class with {', '.join(parts)}")
    return made


def make(kind: Any, options: Mapping[str, Any], where: str) -> Any:
    """Make an instance of a class from options by field name, converted to the fields' types and checked.

    Several values of a tuple field are written with slashes between them: ``class_weights=1/2/4``.

    Args:
        kind: a dataclass; any other class takes no options.
        options: field name -> value or text; fields that are left out keep their defaults.
        where: name of the class in errors.

    Raises:
        InputError: unknown options, a missing one, a value that does not fit, or `kind` is not a class. An exception of the
            constructor becomes an InputError unless it is an EvenstepError.
    """
    import msgspec

    check_class(kind, where)
    if not dataclasses.is_dataclass(kind):
        if options:
            raise InputError(where, "option", next(iter(options)), "no options", f"{where} takes none.")
        with _made(kind, where):
            return kind()
    fields = [f.name for f in dataclasses.fields(kind) if f.init]
    if unknown := [key for key in options if key not in fields]:
        hint = nearest(unknown[0], fields) or f"{where} takes none."
        raise InputError(where, "option", ", ".join(unknown), "a known option", hint)
    with _made(kind, where):
        hints = get_type_hints(kind)
    listed = {key: _listed(value, hints[key]) for key, value in options.items()}
    try:
        with _made(kind, where):
            made = msgspec.convert(listed, kind, strict=False)
    except msgspec.ValidationError as error:
        if error.__cause__ is not None:  # of the class's own checks
            raise InputError(where, "options", dict(options), f"options that {where} takes", f"{error}.") from error
        missing = re.search(r"missing required (?:field|argument) [`'](\w+)[`']", str(error))
        if missing:
            hint = f"Write {where}:{missing[1].replace('_', '-')}=..."
            raise InputError(where, missing[1], "missing", "a value", hint) from None
        field = str(error).partition(" - at `$")[2].strip("`.").partition("[")[0]
        expected = expectation(str(error), hints.get(field))
        raise InputError(where, field or "options", options.get(field, dict(options)), expected) from None
    for key in options:
        value = getattr(made, key)
        numbers = cast("tuple[Any, ...]", value if isinstance(value, tuple) else (value,))
        if any(isinstance(number, int) and abs(number) > MOST for number in numbers):  # compiled code has 64 bits
            raise InputError(where, key, options[key], f"an integer from {-MOST} to {MOST}")
    return made


def check_class(kind: Any, where: str) -> None:
    """Raise an `InputError` that names `where` if `kind`, the object found by a name, is not a class."""
    if not isinstance(kind, type):
        raise InputError(where, "thing", repr(kind), "a class", "Bind the class itself, not what it makes.")


def _listed(value: Any, hint: Any) -> Any:
    """An option's value: text of a tuple field is split at slashes, and numerals are respelled as JSON writes them."""
    if isinstance(value, str) and get_origin(hint) is tuple:
        return [numeral(part, get_args(hint)[0]) for part in value.split("/")] if value else []
    return numeral(value, hint)


@contextmanager
def _made(kind: Any, where: str) -> Generator[None]:
    """Context manager: errors from making a `kind` become `InputError`s, except EvenstepErrors and errors of msgspec."""
    import msgspec

    try:
        yield
    except (EvenstepError, msgspec.ValidationError):
        raise
    except Exception as error:
        said = str(error) or "no reason given"
        if isinstance(error, TypeError):
            raise InputError(where, "class", kind.__name__, "one that is made without arguments", f"{said}.") from error
        hint = f"{type(error).__name__}: {said}."
        raise InputError(where, "class", kind.__name__, "one that can be made", hint) from error


def _elsewhere(room: str, name: str) -> str:
    """A hint for the name of a scheduling policy that is looked for in routing, or the other way round; else empty."""
    if room == "routing" and name in members("scheduling"):
        return f"{name} schedules inside one engine: use evenstep compare --engine, or evenstep stability."
    if room == "scheduling" and name in members("routing"):
        return f"{name} routes requests to workers: use evenstep compare without --engine, or evenstep simulate."
    return ""


def _noun(room: str) -> str:
    """The word for a member of a room in errors, such as ``policy``."""
    return _NOUNS.get(room, BINDINGS[room])


def _name(stem: str) -> str:
    """The name of a member from the name of its file without suffix: ``br_h`` is ``br-h``."""
    return stem.replace("_", "-")


@cache
def _files(room: str) -> tuple[Path, ...]:
    """The Python files that may be a room's members: in the room's own folder, then in those one below."""
    if not _ROOT.is_dir():
        raise InputError(
            "evenstep", "place", str(_ROOT), "a folder", "It does not run from a zip file: install it with pip."
        )
    own = _ROOT.joinpath(*_PLACES.get(room, room).split("."))
    return (*own.glob("*.py"), *sorted(own.glob("*/*.py")))


def _module(file: Path) -> str:
    """The full name of the module in a file of ours."""
    return ".".join(("evenstep", *file.relative_to(_ROOT).with_suffix("").parts))


def _offered(room: str) -> tuple[EntryPoint, ...]:
    """The entry points that other packages offer for a room; searched once for each content of ``sys.path``."""
    return _scanned(f"evenstep.{room}", entry_points, tuple(sys.path))


@cache
def _scanned(group: str, look: Callable[..., Iterable[EntryPoint]], path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """The entry points of a group; `look` finds them, and `path` is only a key of the cache."""
    return tuple(look(group=group))


@cache
def _binds(file: Path, word: str) -> bool:
    """True if a file of evenstep defines or assigns the word at its top level; False for a file named ``_...``."""
    if file.stem.startswith("_"):
        return False
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == word:
            return True
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(t, ast.Name) and t.id == word for t in targets):
            return True
    return False


def _member(room: str, module: ModuleType, thing: str, name: str) -> Any:
    """The object that a module binds to `thing`, else an `InputError` about `name`. If members are modules, the module."""
    if room == "workload":  # a trace format is its module: `recognises` and `read`
        return module
    if not hasattr(module, thing):
        here = [n for n, v in vars(module).items() if isinstance(v, type) and v.__module__ == module.__name__]
        place = Path(str(module.__file__)).name if module.__name__.startswith(USER_MODULE) else module.__name__
        raise InputError(name, "thing", thing, f"a name bound in {place}", nearest(thing, here))
    return getattr(module, thing)


def _import(module: str, name: str) -> ModuleType:
    """Import a module by its full name; any exception of it becomes an `InputError` about `name`."""
    try:
        found = importlib.import_module(module)
        _note_guest(module)
        return found
    except (Exception, SystemExit) as error:  # of the module's own code, or of an invalid name
        said = f"{error}." if isinstance(error, ImportError) else f"{type(error).__name__}: {error}."
        raise InputError(name, "module", module, "an importable module", said) from error


def _note_guest(module: str) -> None:
    """Remember the code of an imported module: the folder of its package, or its file. Ours is left out."""
    for name in accumulate(module.split("."), "{}.{}".format):  # a namespace package has no file
        found = sys.modules.get(name)
        if file := getattr(found, "__file__", None):
            if name != "evenstep":
                _guests.add(Path(file).parent if hasattr(found, "__path__") else Path(file))
            return


def _load_file(place: str) -> ModuleType:
    """The module of a user's file, executed if new or changed; any exception is an `InputError` about `place`, its path."""
    path = Path(place)
    try:
        if path.is_file():
            return _load_version(path.resolve(), path.stat().st_mtime_ns)
    except (Exception, SystemExit) as error:
        raise InputError(place, "file", place, "a Python file that loads", f"{type(error).__name__}: {error}.") from error
    raise InputError(place, "file", place, "an existing Python file", "Check the path.")


@cache
def _load_version(path: Path, changed_ns: int) -> ModuleType:
    """Execute a file, once for each time of change; the module's name depends on the path alone, so caches find it again."""
    key = f"{USER_MODULE}{path.stem.replace('.', '_')}_{hashlib.sha256(os.fsencode(path)).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(key, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[key] = module
    _guests.add(path)
    exec(compile(path.read_bytes(), path, "exec", dont_inherit=True), vars(module))  # kept bytecode goes by whole seconds
    return module
