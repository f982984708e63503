"""Reads CSV files as a `Table`: in a fast pass in C++ or, if anything is doubtful, in a slow one that names the bad row."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from evenstep.errors import InputError, nearest
from evenstep.request import Trace
from evenstep.wording import counted
from evenstep.workload import files
from evenstep.workload.table import Doubt, Table

_END = "\0"  # the row after the last; `files.decoded` refuses a file that holds this letter
csv.field_size_limit(2**31 - 1)  # of this process; its default, 128 KiB, is less than the text of a long prompt


def cells(head: bytes, column: str) -> Iterator[str]:
    """Yield the cells of a column in a file's first bytes, until a row is not UTF-8 or CSV; nothing without that column."""
    rows = _rows(head)
    names = _names(next(rows, []))
    if column in names:
        place = names.index(column)
        yield from (row[place] for row in rows if place < len(row))


def _rows(head: bytes) -> Iterator[list[str]]:
    """Yield the rows in a file's first bytes, the header included, until one is not UTF-8 or not CSV."""
    lines = (line.decode("utf-8" if number else "utf-8-sig") for number, line in enumerate(io.BytesIO(head)))
    with suppress(UnicodeDecodeError, csv.Error):
        yield from csv.reader(lines)


def header(head: bytes) -> list[str]:
    """The column names in a file's first row, without spaces and quotes around them; [] if it is not UTF-8 or CSV."""
    return _names(next(_rows(head), []))


def _names(row: list[str]) -> list[str]:
    return [name.strip().strip('"') for name in row]


def hint(field: str, first: list[str]) -> str:
    """The hint for an error about a missing column: another separator than commas, or the nearest name in `first`.

    Empty if neither applies. An empty `field` asks only about the separator.
    """
    for mark, name in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if len(first) == 1 and mark in first[0]:
            return f"The columns are separated by {name}; separate them by commas."
    return nearest(field, first) if field else ""


def parse(
    path: Path,
    fields: Mapping[str, Any],
    build: Callable[[Table], Trace],
    *,
    skip_bad_rows: bool,
    names: list[str] | None = None,
    limit: int | None = None,
) -> Trace:
    """Read a CSV file and let `build` make a trace of its columns.

    `build` gets a fast table. If Arrow cannot read the file safely, or then a row is bad, `build` is called with a slow
    table, whose rows have line numbers.

    Args:
        fields: the type of each needed column: int, float, str or an Arrow type. Other columns of the file are ignored. The
            slow table holds the needed ones as text; in the fast one a timestamp is int64 in its Arrow unit.
        build: makes the trace of a table's columns; it has to check every field by the table's methods.
        skip_bad_rows: leave out and count bad rows; the fast table skips none.
        names: column names of a file without a header line.
        limit: read only so many first rows, if no bad ones are left out; for formats whose later rows change no earlier one.

    Raises:
        InputError: a file that cannot be read, a missing or double column, a short or long row unless skipped, or what
            `build` rejects.
    """
    lines = None if limit is None or skip_bad_rows else int(limit) + (names is None)
    data = files.content(path, lines=lines)
    if lines is not None and b'"' in data:  # a quoted cell may have several lines
        data = files.content(path)
    first = names or header(data[: files.HEAD_BYTES])
    _require(path, fields, first)
    try:
        return build(_fast(path, data, fields, names))
    except Doubt:
        return build(_slow(path, data, fields, names, skip_bad_rows))


def _require(path: Path, fields: Mapping[str, Any], first: list[str]) -> None:
    """Raise an `InputError` unless each of the needed `fields` is exactly once in the header `first`."""
    for field in fields:
        if field not in first:
            raise InputError(path.name, "header", ",".join(first), f"a column {field!r}", hint(field, first))
        if first.count(field) > 1:
            raise InputError(path.name, "header", ",".join(first), f"one column {field!r}", "Rename or delete the others.")


def _fast(path: Path, data: bytes, fields: Mapping[str, Any], names: list[str] | None) -> Table:
    """The needed columns as arrays or lists of text, without line numbers; `Doubt` if Arrow cannot read them safely."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    if b"0x" in data or b"0X" in data:  # which it would read as hexadecimal
        raise Doubt
    if data.count(b'"') % 2:  # an open quote, after which it would read no row
        raise Doubt
    plain = {int: pa.int64(), float: pa.float64(), str: pa.string()}
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(data),
            read_options=arrow_csv.ReadOptions(column_names=names),
            parse_options=arrow_csv.ParseOptions(ignore_empty_lines=False),
            convert_options=arrow_csv.ConvertOptions(
                column_types={field: plain.get(kind, kind) for field, kind in fields.items()},
                include_columns=list(fields),
                null_values=[],
                strings_can_be_null=False,
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError):  # the latter: it keeps spaces around a column's name
        raise Doubt from None
    columns: dict[str, Any] = {}
    for field in fields:  # `to_numpy` imports pandas, where that is installed: half a second in which Ctrl-C can be lost
        column = table.column(field).combine_chunks()
        if pa.types.is_string(column.type):
            columns[field] = column.to_pylist()
        elif pa.types.is_timestamp(column.type):
            columns[field] = np.from_dlpack(column.cast(pa.int64()))
        else:
            columns[field] = np.from_dlpack(column)
    built = Table(path.name, columns, None, table.num_rows, skip=False)
    built.require_rows()
    return built


def _slow(path: Path, data: bytes, fields: Mapping[str, Any], names: list[str] | None, skip: bool) -> Table:
    """The needed columns as text, in a table with line numbers; rows with too few or too many columns are rejected."""
    text = io.StringIO(files.decoded(path, data), newline="")
    reader = csv.reader(chain(text, [_END]))  # an open quote takes this last row into its cell
    columns: dict[str, list[Any]] = {field: [] for field in fields}
    widths: list[str] = []
    lines: list[int] = []
    try:
        first = names or _names(next(reader))
        _require(path, fields, first)
        ended = [0, reader.line_num]  # last line of each row, the header included
        places = {field: first.index(field) for field in fields}
        for row in reader:
            if row == [_END]:
                break
            lines.append(reader.line_num)
            widths.append("" if len(row) == len(first) else counted(len(row), "column") if row else "a blank line")
            for field, place in places.items():
                columns[field].append(row[place] if place < len(row) else "")
        else:
            line = [*ended, *lines][-2] + 1
            raise InputError(f"{path.name}:{line}", "row", "damaged", "comma-separated text", "A quote is never closed.")
    except csv.Error as error:
        raise InputError(f"{path.name}:{reader.line_num}", "row", "damaged", "comma-separated text", f"{error}.") from None
    table = Table(path.name, dict(columns), np.array(lines, np.int64), len(lines), skip=skip)
    wrong = np.fromiter((bool(w) for w in widths), np.bool_, len(widths))
    table.reject("row", wrong, counted(len(first), "column"), shown=widths)
    table.require_rows()
    return table
