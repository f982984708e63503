"""Reads any trace file; its format is given by name, or recognised from the file."""

from __future__ import annotations

import inspect
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_origin, get_type_hints

from evenstep import names
from evenstep.config.messages import expectation
from evenstep.errors import EvenstepError, InputError, check_known, check_range_if_given, nearest
from evenstep.request import Trace
from evenstep.workload import files
from evenstep.workload.checks import check_trace
from evenstep.workload.log_parts import first_left
from evenstep.workload.readers import csv_table

_COMMON = {"path", "skip_bad_rows", "seed", "limit", "prefix_blocks"}  # given by the caller, not as options
_SAMPLE = "sample:"
_SAMPLES = Path(__file__).parent / "samples"


def source_of(
    path: Path,
    format: str | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    skip_bad_rows: bool = False,
    limit: int | None = None,
    seed: int = 0,
) -> Any:
    """Open a trace file as a source of replicates: a `Trace`, read and checked, or ServeGen's generator (`replicate.Drawn`).

    A `format` of None is recognised from the file; `options` are those of the format. ``sample:`` is not resolved (`file_of`
    does that). `limit` is the most rows. `skip_bad_rows`, `seed` do nothing for a generator. Raises what `read_trace` does,
    but for a generator neither for `limit` nor for an empty window.
    """
    module, known = _chosen(path, format, options or {})
    if hasattr(module, "source"):
        known.pop("prefix_blocks", None)
        return module.source(path, limit=limit, **known)
    return _read(path, module, known, skip_bad_rows=skip_bad_rows, limit=limit, seed=seed)


def read_trace(
    path: str | Path,
    format: str | None = None,
    *,
    skip_bad_rows: bool = False,
    limit: int | None = None,
    seed: int = 0,
    **options: Any,
) -> Trace:
    """Read a trace file, plain or gzip.

    Args:
        path: the file, or ``sample:azure-conv`` for a bundled sample.
        format: a name (``azure``, ``mine.py``), maybe with options (``mooncake:ticks=keep``); None = recognised (`detect`).
        skip_bad_rows: leave out rows that cannot be read and count them in the notes, instead of stopping (not ServeGen).
        limit: keep at most this many rows, from the start.
        seed: key of what a reader draws at random (Mooncake's ticks, ServeGen's requests); others ignore it.
        options: of the format, by name, such as ``ticks="keep"``; any format takes ``prefix_blocks=False``: no block ids.

    Returns:
        The trace; its `notes` say what was dropped, sorted, spread or assumed.

    Raises:
        InputError: the file cannot be read, no format or several recognise it, an unknown format or option, a limit below
            1, or a bad row (which names file, line, field and value).
    """
    place = file_of(path)
    module, known = _chosen(place, format, options)
    return _read(place, module, known, skip_bad_rows=skip_bad_rows, limit=limit, seed=seed)


def _read(path: Path, module: ModuleType, options: dict[str, Any], *, limit: int | None, **common: Any) -> Trace:
    """The checked trace of `module.read`, cut to `limit` rows; `read` gets those `common` arguments that it takes."""
    check_range_if_given("read_trace", "a whole number >= 1", low=1, limit=limit)
    common |= {"limit": limit, "prefix_blocks": options.pop("prefix_blocks", True)}
    taken = {key: common[key] for key in common.keys() & inspect.signature(module.read).parameters}
    with _own_faults(module, path):
        trace = module.read(path, **taken, **options)
        if not isinstance(trace, Trace):
            raise TypeError(f"It returned {type(trace).__name__}")
    if not common["prefix_blocks"]:
        trace = replace(trace, prefix_blocks=None)
    checked = check_trace(trace, path.name)
    return checked if limit is None else checked.head(limit)


@contextmanager
def _own_faults(module: ModuleType, path: Path) -> Generator[None]:
    """Context manager: an exception of a user's reader becomes an `InputError` about it and the file that it reads."""
    try:
        yield
    except Exception as error:
        if isinstance(error, EvenstepError | MemoryError) or getattr(module, "__name__", "").startswith("evenstep."):
            raise
        hint = f"{type(error).__name__}: {error}."
        raise InputError(
            path.name, "reader", getattr(module, "__file__", module), "one that reads this file to a Trace", hint
        ) from error


def detect(path: Path) -> str:
    """Name of the format of a file: the only one that recognises its name and its first `files.HEAD_BYTES` bytes.

    Raises:
        InputError: no format recognises it, or more than one does; or it cannot be read (`files.head`).
    """
    head, found, unusable = files.head(path), list[str](), list[InputError]()
    for name in names.members("workload"):
        try:
            module: ModuleType = names.find("workload", name)
            with _own_faults(module, path):
                if module.recognises(head, path.name):
                    found.append(name)
        except InputError as error:  # of another package; the file may be of another format
            unusable.append(error)
    if len(found) == 1:
        return found[0]
    if unusable and not found:
        raise unusable[0]
    known = ", ".join(names.members("workload"))
    if found:
        raise InputError(path.name, "format", " and ".join(found), "one format", "Name it with --format-name.")
    first = head.lstrip()[:60].split(b"\n")[0].decode("utf-8", "replace")
    hint = "Name it with --format-name if it is one of these."
    header = csv_table.header(head)
    if header and not first.startswith(("{", "[")):
        if len(header) > 1:
            hint = "Name the columns of any CSV file: --columns prompt=...,output=...,time=...,unit=ms."
        hint = csv_table.hint("", header) or hint
    raise InputError(path.name, "format", first, f"one of {known}", hint)


def _chosen(path: Path, format: str | None, options: Mapping[str, Any]) -> tuple[ModuleType, dict[str, Any]]:
    """The module of a file's format, and the options for its `read`, converted to their types; as `read_trace` says.

    The file is read only if `format` is None. `options` win over those in `format`. An unknown format or option, or a value
    that does not fit, raises an `InputError`.
    """
    import msgspec

    given: Any = format
    if not isinstance(given, str | None):
        raise InputError("read_trace", "format", format, "the name of a format, or None")
    spec: dict[str, Any] = names.parse(format) if format is not None else {"name": detect(path)}
    name = str(spec.pop("name"))
    module: ModuleType = names.find("workload", name)
    if not callable(getattr(module, "read", None)):
        raise InputError(name, "read", "missing", "a function read(path) that returns a Trace")
    with _own_faults(module, path):
        types = get_type_hints(module.read)
    known = [key for key in inspect.signature(module.read).parameters if key not in _COMMON]
    converted: dict[str, Any] = {}
    for key, value in {**spec, **options}.items():
        if key not in known and key != "prefix_blocks":
            raise InputError(name, "option", key, "a known option", nearest(key, known) or f"{name} takes none.")
        try:
            converted[key] = msgspec.convert(value, types.get(key, bool), strict=False)
        except msgspec.ValidationError as error:
            expected = str(error).removeprefix("Expected ").partition(", got")[0].replace("`", "")
            is_choice = get_origin(types.get(key)) is Literal
            said = expectation(str(error), types[key]) if is_choice else f"a value of type {expected}"
            raise InputError(name, key, value, said) from None
    return module, converted


def file_of(path: str | Path) -> Path:
    """The path of a trace file: ``sample:NAME`` is that of the bundled sample, any other path need not exist.

    If it does not, and later parts of a decision log of this name are there, it is that of the earliest of them.

    Raises:
        InputError: no such sample, or an object that is not a path.
    """
    text = str(path)
    if text.startswith(_SAMPLE):
        name, known = text.removeprefix(_SAMPLE), _bundled()
        check_known("samples", "sample", name, known, "a bundled sample")
        return known[name]
    try:
        return first_left(Path(path))
    except TypeError:
        hint = "For columns in memory, use Trace.from_columns."
        raise InputError("read_trace", "path", type(path).__name__, "a path, or sample:NAME", hint) from None


def samples() -> tuple[str, ...]:
    """Names of the bundled samples, in alphabetical order of their files; ``sample:NAME`` takes one."""
    return tuple(_bundled())


def _bundled() -> dict[str, Path]:
    return {file.name.split(".")[0].replace("_", "-"): file for file in sorted(_SAMPLES.glob("*.gz"))}
