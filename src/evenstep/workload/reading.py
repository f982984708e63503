"""Reading any trace: the format is asked of the file, or given by name."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_origin, get_type_hints

from evenstep import names
from evenstep.config import expectation
from evenstep.errors import InputError, check_known, check_range_if_given, nearest
from evenstep.request import Trace
from evenstep.workload import files
from evenstep.workload.checks import check_trace
from evenstep.workload.readers import csv_table

_COMMON = {"path", "skip_bad_rows", "seed", "limit", "prefix_blocks"}  # given by the caller, not as options
_SAMPLE = "sample:"
_SAMPLES = Path(__file__).parent / "samples"


def source_of(path: Path, format: str | None = None, *, limit: int | None = None, **options: Any) -> Any:
    """The origin of a file's replicates: a recorded trace, or the generator a format describes (ServeGen).

    Args:
        path: a file; `file_of` resolves ``sample:`` first.
        format, limit, options: as `read_trace`; `seed` and `skip_bad_rows` do nothing for a generator.

    Returns:
        A `Trace`, or the generator (`replicate.Drawn`) that the format's function ``source`` returns.

    Raises:
        InputError: as `read_trace`.
    """
    bare = {key: value for key, value in options.items() if key not in ("skip_bad_rows", "seed")}
    name, module, known = chosen(path, format, bare)
    if hasattr(module, "source"):
        known.pop("prefix_blocks", None)
        return module.source(path, limit=limit, **known)
    kept = {key: value for key, value in options.items() if key not in bare}
    return read_trace(path, name, limit=limit, **kept, **known)


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
        format: name of the format (``azure``, ``mooncake``, ..., ``mine.py``), maybe with options
            (``mooncake:ticks=keep``); None asks every format.
        skip_bad_rows: leave out rows that cannot be read and count them in the notes, instead of stopping.
        limit: keep at most this many rows, from the start.
        seed: key of all draws of a reader (Mooncake's ticks, ServeGen's requests).
        options: options of the format by name, for instance ``ticks="keep"`` for Mooncake. ``prefix_blocks=False``
            leaves block ids out of any format.

    Returns:
        The trace; its `notes` say what was dropped, sorted, spread or assumed.

    Raises:
        InputError: the file cannot be read, no format or several recognise it, an unknown option, or a bad row (which
            names file, line, field and value).
    """
    place = file_of(path)
    check_range_if_given("read_trace", "a whole number >= 1", low=1, limit=limit)
    _, module, options = chosen(place, format, options)
    keep_blocks = bool(options.pop("prefix_blocks", True))
    known = inspect.signature(module.read).parameters
    asked = {"skip_bad_rows": skip_bad_rows, "seed": seed, "limit": limit, "prefix_blocks": keep_blocks}
    common = {key: value for key, value in asked.items() if key in known}
    trace = module.read(place, **common, **options)
    if not keep_blocks:
        trace = replace(trace, prefix_blocks=None)
    checked = check_trace(trace, place.name)
    return checked if limit is None else checked.head(limit)


def detect(path: Path) -> str:
    """Name of the format of a file: the only one that recognises its name and its first `files.HEAD_BYTES` bytes.

    Raises:
        InputError: no format recognises it, or more than one does; or as `files.head`.
    """
    head = files.head(path)
    found = [name for name in names.members("workload") if names.find("workload", name).recognises(head, path.name)]
    if len(found) == 1:
        return found[0]
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


def chosen(path: Path, format: str | None, options: dict[str, Any]) -> tuple[str, ModuleType, dict[str, Any]]:
    """Find the format of a file, as asked for or recognised.

    Args:
        path: the file; it is read only if `format` is None.
        format: a name, maybe with options (``mooncake:ticks=keep``); None = as `detect`.
        options: further options by name; one that `format` gives too wins over it.

    Returns:
        The format's name, its reader module, and all its options converted to their types.

    Raises:
        InputError: as `detect`, an unknown format, an unknown option (with the nearest), or a value that does not fit.
    """
    import msgspec

    spec: dict[str, Any] = names.parse(format) if format is not None else {"name": detect(path)}
    name = str(spec.pop("name"))
    module: ModuleType = names.find("workload", name)
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
            said = f"a value of type {expected}"
            if get_origin(types.get(key)) is Literal:
                said = expectation(str(error), types[key])
            raise InputError(name, key, value, said) from None
    return name, module, converted


def file_of(path: str | Path) -> Path:
    """The path, with ``sample:NAME`` resolved to the bundled sample; another file need not exist.

    Raises:
        InputError: no such sample, or an object that is not a path.
    """
    text = str(path)
    if text.startswith(_SAMPLE):
        return sample_path(text.removeprefix(_SAMPLE))
    try:
        return Path(path)
    except TypeError:
        hint = "For columns in memory, use Trace.from_columns."
        raise InputError("read_trace", "path", type(path).__name__, "a path, or sample:NAME", hint) from None


def sample_path(name: str) -> Path:
    """The file of the bundled sample of this name, given without ``sample:``.

    Raises:
        InputError: no such sample, with the nearest.
    """
    known = _bundled()
    check_known("samples", "sample", name, known, "a bundled sample")
    return known[name]


def samples() -> tuple[str, ...]:
    """Names of the bundled samples, in the order of their files; ``sample:NAME`` takes one."""
    return tuple(_bundled())


def _bundled() -> dict[str, Path]:
    return {file.name.split(".")[0].replace("_", "-"): file for file in sorted(_SAMPLES.glob("*.gz"))}
