"""evenstep's own format: the columns, blocks and notes of a trace as one Parquet file."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from evenstep.errors import InputError
from evenstep.request import COLUMNS, PrefixBlocks, Trace, offsets_of
from evenstep.workload import files
from evenstep.workload.checks import LOWEST, check_trace
from evenstep.workload.readers import links
from evenstep.workload.table import Table

_KEY = b"evenstep"
_VERSION = 1
_BLOCKS = "prefix_blocks"
_OWN = {  # of the metadata: type and accepted values
    **dict.fromkeys(("name", "format"), (str, "text")),
    "synthetic": (bool, "true or false"),
    "notes": (list, "a list of sentences"),
    "block_tokens": (int, "an integer >= 1"),
    "scope": (str, "session or global"),
}


def recognises(head: bytes, name: str) -> bool:
    return head[:4] == b"PAR1"


def read(path: Path, *, skip_bad_rows: bool = False, prefix_blocks: bool = True) -> Trace:
    """Read a Parquet trace with the name, format and notes it was written with; rows have to be in order of time.

    `prefix_blocks` keeps the prompts' block ids.

    Raises:
        InputError: a damaged file, a missing column, another version, or a bad row (row from 1, column, value), which
            `skip_bad_rows` skips unless its blocks are bad, or its link is to another session.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(pa.BufferReader(files.content(path)))
        there = table.column_names  # decodes the names
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError, OSError) as error:
        raise InputError(path.name, "file", "damaged", "a whole Parquet file", f"{str(error).splitlines()[0]}.") from None
    about = _about(path, table.schema.metadata or {})
    for name in ("prompt_tokens", "output_tokens"):
        if name not in there:
            raise InputError(path.name, "columns", ", ".join(there), f"a column {name!r}")
    columns = {name: _values(path, table, name) for name in COLUMNS if name in there}
    rows = Table(path.name, columns, np.arange(1, table.num_rows + 1, dtype=np.int64), table.num_rows, skip=skip_bad_rows)
    checked: dict[str, Any] = {
        name: rows.number(name, LOWEST[name]) if name.endswith("_s") else rows.whole(name, LOWEST[name]) for name in columns
    }
    if "arrival_s" in checked:
        rows.ascending("arrival_s", checked["arrival_s"])
    if "after" in checked:  # a link that is not upwards could lead in a circle
        below = checked["after"] >= np.arange(rows.rows)
        rows.reject("after", below, "a row above")
        checked["after"] = np.where(below, -1, checked["after"])
    rows.require_rows()
    if prefix_blocks and _BLOCKS in there:
        checked[_BLOCKS] = _blocks(path, table.column(_BLOCKS), about)
    trace = Trace(
        **checked,
        name=about.get("name", path.name),
        format=about.get("format", "parquet"),
        synthetic=bool(about.get("synthetic", False)),
        notes=(*map(str, about.get("notes", ())), *rows.notes()),
    )
    trace = links.keep_rows(trace, ~rows.bad)
    if trace.arrival_s is not None:
        trace = replace(trace, arrival_s=trace.arrival_s - trace.arrival_s[0])
    return check_trace(trace, path.name)


def packed(trace: Trace) -> bytes:
    """The bytes of a Parquet file with a trace's columns and blocks, and its name, format and notes as metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {n: pa.array(getattr(trace, n)) for n in COLUMNS if getattr(trace, n) is not None}
    own = {name: getattr(trace, name) for name in ("name", "format", "notes")} | {"synthetic": bool(trace.synthetic)}
    about: dict[str, Any] = {"version": _VERSION, **own}
    if trace.prefix_blocks is not None:
        blocks = trace.prefix_blocks
        columns[_BLOCKS] = pa.LargeListArray.from_arrays(pa.array(blocks.offsets), pa.array(blocks.ids))
        about |= {"block_tokens": blocks.block_tokens, "scope": blocks.scope}
    table = pa.table(columns).replace_schema_metadata({_KEY: json.dumps(about).encode()})
    file = io.BytesIO()
    pq.write_table(table, file, compression="zstd")
    return file.getvalue()


def _about(path: Path, metadata: dict[bytes, bytes]) -> dict[str, Any]:
    """The metadata that evenstep wrote, {} if there is none.

    Raises an `InputError` if it is damaged, of another version, or has a value of another type.
    """
    try:
        about = json.loads(metadata.get(_KEY, b"{}"))
    except ValueError:
        about = None
    if not isinstance(about, dict):
        raise InputError(path.name, "evenstep", "damaged metadata", "JSON written by evenstep")
    if about and about.get("version") != _VERSION:
        raise InputError(path.name, "version", about.get("version"), str(_VERSION), "Update evenstep.")
    for name, (kind, expected) in _OWN.items():
        if name in about and type(about[name]) is not kind:
            raise InputError(path.name, name, about[name], expected)
    return about


def _values(path: Path, table: Any, name: str) -> Any:
    """One column as an array; `InputError` unless its type is a whole or a floating-point number."""
    import pyarrow as pa

    column = table.column(name).combine_chunks()
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise InputError(path.name, name, str(column.type), "a column of numbers")
    return column.to_numpy(zero_copy_only=False)


def _blocks(path: Path, column: Any, about: dict[str, Any]) -> PrefixBlocks:
    """The blocks of a column; `InputError` unless each row is a list of integers."""
    import pyarrow as pa

    lists, expected = column.combine_chunks(), "a list of block ids in every row"
    if not (pa.types.is_list(lists.type) or pa.types.is_large_list(lists.type)):
        raise InputError(path.name, _BLOCKS, str(lists.type), expected)
    found = lists.flatten()
    if len(found) and not pa.types.is_integer(found.type):
        raise InputError(path.name, _BLOCKS, str(lists.type), expected)
    if lists.null_count or found.null_count:
        raise InputError(path.name, _BLOCKS, "null", expected)
    ids = found.to_numpy(zero_copy_only=False)
    offsets = offsets_of(np.diff(lists.offsets.to_numpy(zero_copy_only=False)))
    size, scope = about.get("block_tokens", 16), about.get("scope", "global")
    return PrefixBlocks(np.ascontiguousarray(ids, np.int64), offsets, size, scope)
