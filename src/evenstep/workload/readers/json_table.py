"""Reads JSON lines, one object a line, as a `Table`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evenstep.errors import InputError
from evenstep.workload import files
from evenstep.workload.table import MISSING, Table

_KEY = re.compile(rb'"([A-Za-z_][A-Za-z0-9_ ]*)"\s*:')


def keys(head: bytes) -> set[str]:
    """The top-level field names of the first object; empty if the head does not begin with a JSON object.

    If that object's line is longer than the head, or holds NaN, they are all names in the text that look like fields.
    """
    import orjson

    stripped = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not stripped.startswith(b"{"):
        return set()
    line, newline, _ = stripped.partition(b"\n")
    try:
        first = orjson.loads(line)
        return set(first) if isinstance(first, dict) else set()
    except orjson.JSONDecodeError:
        found = {m.decode() for m in _KEY.findall(line)}
        return found if not newline or b"NaN" in line else set()


def objects(path: Path, *, blank_lines: bool = False) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Yield each line's number, from 1, with its object; or with text that shows the line, if it is not an object.

    `blank_lines` skips blank lines, which still count; else they yield "a blank line". A bad file is an `InputError`.
    """
    import orjson

    for number, line in enumerate(files.lines(path), 1):
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            if not line.strip():
                if not blank_lines:
                    yield number, "a blank line"
                continue
            try:
                row = json.loads(line)  # which allows NaN, so that the field can be named
            except (ValueError, RecursionError):
                yield number, line.strip()[:60].decode("utf-8", "replace")
                continue
        yield number, row if isinstance(row, dict) else json.dumps(row)[:60]


def table(
    path: Path,
    fields: Mapping[str, tuple[str, ...]],
    needed: Sequence[str] = (),
    *,
    skip_bad_rows: bool,
    blank_lines: bool = False,
) -> Table:
    """The wanted fields of every line as columns of Python values, `MISSING` where a row lacks the field.

    Args:
        fields: field -> the names it may have in the file; in each row the first one found is taken. A field that no row has
            is left out of the table.
        needed: fields that some row must have; `Table.whole` and others check each row.
        skip_bad_rows: mark lines that are no JSON object as bad rows instead of stopping at the first.
        blank_lines: skip blank lines; else such a line is a bad row.

    Raises:
        InputError: a line that is no JSON object (unless skipped), no line left, or a needed field that no row has.
    """
    lines: list[int] = []
    wrong: list[str] = []
    raw: list[dict[str, Any]] = []
    known = {alias for aliases in fields.values() for alias in aliases}
    for number, row in objects(path, blank_lines=blank_lines):
        lines.append(number)
        wrong.append(row if isinstance(row, str) else "")
        raw.append({} if isinstance(row, str) else {name: row[name] for name in row if name in known})
    present = set[str]().union(*raw)
    columns: dict[str, Any] = {}
    for field, aliases in fields.items():
        names = [alias for alias in aliases if alias in present]
        if not names:
            continue
        column = [row.get(names[0], MISSING) for row in raw]
        for name in names[1:]:
            column = [row.get(name, MISSING) if v is MISSING else v for v, row in zip(column, raw, strict=True)]
        columns[field] = column
    built = Table(path.name, columns, np.array(lines, np.int64), len(lines), skip=skip_bad_rows)
    bad = np.fromiter((bool(w) for w in wrong), np.bool_, len(wrong))
    built.reject("line", bad, "one JSON object", shown=wrong)
    built.require_rows()
    for field in needed:
        if not built.has(field):
            raise InputError(path.name, field, "missing", f"one of {', '.join(fields[field])} in every row")
    return built
