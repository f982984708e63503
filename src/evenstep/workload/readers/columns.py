"""Reads any CSV file with a header, and columns in memory: a column for each field, times in s to ns or dates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from evenstep.errors import InputError, check_known, nearest
from evenstep.request import ABSENT, COLUMNS, F8, I8, Trace
from evenstep.wording import counted
from evenstep.workload import files
from evenstep.workload.checks import check_trace
from evenstep.workload.readers import csv_table, links
from evenstep.workload.readers.azure import nanoseconds
from evenstep.workload.readers.lengths import OUTPUT, PROMPT, first_of
from evenstep.workload.table import Bool, Table, as_number, codes, session_numbers

Unit: TypeAlias = Literal["s", "ms", "us", "ns"]
#: Units in one second.
_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
#: Fields that are text or a number in a file; the others are numbers, times maybe dates.
_NAMED = ("request_class", "session")
#: Other columns that a file may have, under the names of our fields.
_OPTIONAL = tuple(name for name in COLUMNS if name not in ("prompt_tokens", "output_tokens", "arrival_s", *_NAMED))
#: Whole numbers from here on do not all fit into a float.
_EXACT = 2**53
_TIME_TEXT = "a finite number >= 0, or a time such as 2026-03-01 18:15:46.25"


def recognises(head: bytes, name: str) -> bool:
    """True if the first line names both lengths (any name in `lengths`) and another field of a request by our own name."""
    first = csv_table.header(head)
    own = set(first) & set(COLUMNS)
    return bool(first_of(first, PROMPT) and first_of(first, OUTPUT) and own - {"prompt_tokens", "output_tokens"})


def read(
    path: Path,
    *,
    prompt: str = "",
    output: str = "",
    time: str = "",
    unit: Unit = "s",
    request_class: str = "",
    session: str = "",
    max_tokens: str = "",
    skip_bad_rows: bool = False,
) -> Trace:
    """Read a CSV file whose first line names its columns.

    A field whose column is not named here is looked for under its own name (``arrival_s`` for `time`), token counts under
    any name in `lengths`. Rows need not be in order of time: they are sorted, and the notes count those below a later one.
    If there are sessions and no column `after`, a request follows the one before it in its session.

    Args:
        prompt, output: columns of token counts.
        time: column of arrival times: numbers, or dates with a time of day.
        unit: of `time` where it holds numbers.
        request_class, session, max_tokens: columns of these fields; classes and sessions may be text.

    Raises:
        InputError: no such column, a unit without a column of numbers, or a bad row (file, line, field, value).
    """
    head = files.head(path)
    first = csv_table.header(head)
    asked = {
        "prompt_tokens": prompt,
        "output_tokens": output,
        "arrival_s": time,
        "request_class": request_class,
        "session": session,
        "max_tokens": max_tokens,
    }
    places = _places(path.name, first, asked)
    if unit != "s" and "arrival_s" not in places:
        raise InputError(path.name, "unit", unit, "no unit without a column of times", "Name the column with time=COLUMN.")
    clock = _kind_of(csv_table.cells(head, places["arrival_s"])) if "arrival_s" in places else float
    if unit != "s" and clock is str:
        raise InputError(path.name, "unit", unit, "numbers in the column of times", "Dates need no unit.")
    kinds: dict[str, type] = {**dict.fromkeys(_NAMED, str), "think_s": float, "arrival_s": clock}
    types = {column: kinds.get(name, int) for name, column in places.items()}
    build = partial(_trace, places=places, per_second=_PER_SECOND[unit], name=path.name)
    trace = csv_table.parse(path, types, build, skip_bad_rows=skip_bad_rows)
    if time and unit == "s" and clock is not str:
        return trace.with_notes(f"Times in column {time!r} are read as seconds; unit=ms, us or ns reads others.")
    return trace


def trace_of_columns(columns: Mapping[str, Any], *, unit: Unit = "s", name: str = "columns") -> Trace:
    """Make a checked trace of columns in memory, by field of `Trace`; None = absent. Rows are sorted by time, from 0 s on.

    Raises:
        InputError: an unknown field or unit, no lengths, columns of different lengths, or a value that does not fit (with
            its row, from 0).
    """
    where = "Trace.from_columns"
    if unknown := [field for field in columns if field not in COLUMNS]:
        raise InputError(where, "column", unknown[0], "a field of a request", nearest(unknown[0], COLUMNS))
    check_known(where, "unit", unit, _PER_SECOND)
    given = {field: _plain(field, values) for field, values in columns.items() if values is not None}
    for field in ("prompt_tokens", "output_tokens"):
        if field not in given:
            raise InputError(where, field, "missing", "a column of token counts")
    rows = len(given["prompt_tokens"])
    for field, values in given.items():
        if len(values) != rows:
            raise InputError(where, field, counted(len(values), "value"), f"{rows}, as many as prompt_tokens")
    if rows == 0:
        raise InputError(where, "prompt_tokens", "empty", "at least one request")
    table = Table(where, given, np.arange(rows, dtype=np.int64), rows, skip=False)
    return check_trace(_trace(table, {field: field for field in given}, _PER_SECOND[unit], name), where)


def _places(where: str, first: list[str], asked: Mapping[str, str]) -> dict[str, str]:
    """The file's column for each field that it has: the one asked for (if not empty), else one with a known name.

    `first` is the header.

    Raises:
        InputError: a column that the header does not have, or no column of lengths.
    """
    places: dict[str, str] = {}
    for field, column in asked.items():
        if column and column not in first:
            raise InputError(where, "header", ",".join(first), f"a column {column!r}", csv_table.hint(column, first))
        if column:
            places[field] = column
    for field, known, key in (("prompt_tokens", PROMPT, "prompt"), ("output_tokens", OUTPUT, "output")):
        column = places.get(field) or first_of(first, known)
        if not column:
            hint = csv_table.hint("", first) or f"Name it: --columns {key}=COLUMN."
            raise InputError(where, "header", ",".join(first), f"a column of {field}", hint)
        places[field] = column
    taken = set(places.values())
    for field in ("arrival_s", *_NAMED, *_OPTIONAL):
        if field not in places and field in first and field not in taken:
            places[field] = field
    return places


def _kind_of(times: Iterable[Any]) -> type:
    """The type of a column of times, by its first cell that is a time: `str` for dates, `float` for numbers.

    It is `int` for a whole number from 2^53 on, which a float may not hold exactly, and `float` if no cell is a time.
    """
    for cell in times:
        if nanoseconds(cell) is not None:
            return str
        if (number := as_number(cell)) is not None:
            return int if number >= _EXACT and number.is_integer() else float
    return float


def _trace(table: Table, places: Mapping[str, str], per_second: float, name: str) -> Trace:
    """The trace of a table, rows in order of time. `places` maps fields to columns; a second has `per_second` time units."""
    found: dict[str, Any] = {field: table.whole(places[field]) for field in ("prompt_tokens", "output_tokens")}
    if "arrival_s" in places:
        found["arrival_s"] = _seconds(table, places["arrival_s"], per_second)
    for field in _OPTIONAL:
        if field in places:
            found[field] = _optional(table, field, places[field])
    notes: list[str] = []
    if "request_class" in places:
        found["request_class"], said = _classes(table, places["request_class"])
        notes += said
    if "session" in places:
        found["session"] = _sessions(table, places["session"])
    if "after" in places:
        found["after"] = _links(table, places["after"], found)
    table.require_rows()
    trace, said = _in_order(links.keep_rows(Trace(**found), ~table.bad))
    notes += said
    if "session" in places and "after" not in places:  # each request of a session follows the one above it
        after = links.previous_in_session(trace.column("session"))
        if trace.think_s is None and trace.arrival_s is not None:
            trace = replace(trace, think_s=links.gaps_after(after, trace.arrival_s))
            notes.append("Think times are the gaps between requests of a session, the model's time included.")
        trace = replace(trace, after=after)
    if "arrival_s" not in places:
        notes.append("Lengths only: there are no arrival times in the columns.")
    return replace(trace, name=name, format="columns", notes=(*table.notes(), *notes))


def _seconds(table: Table, column: str, per_second: float) -> F8:
    """float64[N], seconds after the earliest good row, from dates or numbers."""
    raw = table.column(column)
    if not isinstance(raw, np.ndarray) and _kind_of(raw) is str:
        stamps = [nanoseconds(value) for value in raw]
        table.reject(column, np.fromiter((s is None for s in stamps), np.bool_, len(stamps)), _TIME_TEXT)
        return _from_first(np.array([s or 0 for s in stamps], np.int64), table.bad) / 1e9
    is_text = not isinstance(raw, np.ndarray) and bool(raw) and isinstance(raw[0], str)
    times = table.number(column, low=0.0, expected=_TIME_TEXT if is_text else "")
    whole = _whole(raw, table.bad) if times.max(initial=0.0) >= _EXACT else None
    return _from_first(times if whole is None else whole, table.bad) / per_second


def _from_first(times: I8 | F8, bad: Bool) -> F8:
    """float64[N], times since the earliest good one; subtract before any division, as seconds since 1970 lack digits."""
    return (times - times[~bad].min(initial=times.max(initial=0))).astype(np.float64)


def _whole(raw: Any, bad: Bool) -> I8 | None:
    """int64[N], a column as whole numbers, 0 in bad rows; None unless good rows are digits alone, below 2^63."""
    good = ~bad
    if isinstance(raw, np.ndarray):
        fits = raw.dtype.kind == "i" or (raw.dtype.kind == "u" and raw.max(initial=0) < 2**63)
        return np.where(good, raw, 0).astype(np.int64) if fits else None
    texts = [str(value).strip() if ok else "0" for value, ok in zip(raw, good.tolist(), strict=True)]
    if not all(text.isascii() and text.isdigit() and int(text) < 2**63 for text in texts):
        return None
    return np.array([int(text) for text in texts], np.int64)


def _optional(table: Table, field: str, column: str) -> Any:
    """A field that a row may leave empty: float64[N] if it is seconds, else int64[N]; `ABSENT[field]` where it is empty."""
    raw = table.column(column)
    if not isinstance(raw, np.ndarray):
        table.columns[column] = [None if isinstance(v, str) and not v.strip() else v for v in raw]
    if field.endswith("_s"):
        return table.number(column, low=0.0, absent=ABSENT[field])
    return table.whole(column, low=min(0, ABSENT[field]), absent=ABSENT[field])


def _classes(table: Table, column: str) -> tuple[I8, list[str]]:
    """int64[N], the class of each row, and notes. Numbers stay; with any other cell all are renumbered, as a note says."""
    texts = [text.strip() for text in table.texts(column)]
    if all(map(_is_number, texts)):
        return np.array([int(text) for text in texts], np.int64), []
    numbers, known = codes(texts)
    return numbers, [links.classes(known)]


def _sessions(table: Table, column: str) -> I8:
    """int64[N], the session of each row: its number, or if some are names, a new one from 0; -1 for an empty cell or -1."""
    texts = ["" if text.strip() == "-1" else text.strip() for text in table.texts(column)]
    if all(text == "" or _is_number(text) for text in texts):
        return np.array([int(text or -1) for text in texts], np.int64)
    table.columns[column] = texts
    return session_numbers(table, column)


def _links(table: Table, column: str, found: Mapping[str, Any]) -> I8:
    """`after` of each row, int64[N], from the columns `found` so far; rows that cannot follow that row are rejected.

    A row that names a bad row is judged by the good row that it follows instead (`links.relinked`).
    """
    rows = np.arange(table.rows)
    far = found["after"] >= rows.size
    table.reject(column, far, f"the number of a row, 0 to {table.rows - 1}, or -1")
    after: I8 = np.where(far | (table.bad & (found["after"] >= rows)), -1, found["after"])  # bad rows lead in no circle
    place = rows
    if "arrival_s" in found:
        place = np.empty_like(rows)
        place[np.argsort(found["arrival_s"], kind="stable")] = rows
    session = found.get("session", np.full(rows.size, -1))
    while True:
        before, _ = links.relinked(after, np.zeros(rows.size), ~table.bad)
        follows = (before >= 0) & ~table.bad
        late, other = follows & (place[before] >= place), follows & (session[before] != session)
        if not (late | other).any():
            return after
        table.reject(column, late, "a row above, or with times a row before it")
        table.reject(column, other, "a row of the same session")
        after[late | other] = -1


def _is_number(text: str) -> bool:
    """True if a text is a whole number >= 0 of at most 15 digits."""
    return text.isascii() and text.isdigit() and len(text) < 16


def _in_order(trace: Trace) -> tuple[Trace, list[str]]:
    """A copy with its rows in order of time, the first at 0 s; and a note that counts rows below a later one, if any."""
    times = trace.column("arrival_s")
    order, late = np.argsort(times, kind="stable").astype(np.int64), links.late(times)
    trace = trace.take(order)
    if trace.arrival_s is None:
        return trace, []
    moved = counted(late, "row was not in order of time and was", "rows were not in order of time and were")
    said = [f"{moved} sorted."] if late else []
    return replace(trace, arrival_s=trace.arrival_s - trace.arrival_s[0]), said


def _plain(field: str, values: Any) -> Sequence[Any] | np.ndarray[Any, Any]:
    """A column in memory as an array of numbers, or as a list if it holds anything else.

    Values of datetime64 become seconds from the earliest. Masked values, and except in fields of seconds also nan, NaT and
    NA, become None, as an empty cell of a file. Any but one dimension is an `InputError`.
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        values = values.tolist()  # None where it is masked
    try:
        found = np.asarray(values)
    except ValueError:  # lists inside, of different lengths
        found = np.asarray(values, object)
    if found.dtype.kind == "U" and not isinstance(values, np.ndarray):
        found = np.asarray(values, object)  # else nan among texts is the text "nan"
    if found.ndim != 1:
        raise InputError("Trace.from_columns", "column", f"{found.ndim} dimensions", "one value a request")
    if found.dtype.kind == "M":
        stamps = found.astype("datetime64[ns]")
        found = (stamps - stamps[:1]) / np.timedelta64(1, "s")  # nan where there is no date
        found = found - np.nanmin(found) if found.size and not np.isnan(found).all() else found
    is_time = field.endswith("_s")
    if found.dtype.kind in "iu" or (found.dtype.kind == "f" and (is_time or not np.isnan(found).any())):
        return np.ascontiguousarray(found)
    plain = (value.item() if isinstance(value, np.number) else value for value in found.tolist())
    return [None if not is_time and _is_missing(value) else value for value in plain]


def _is_missing(value: Any) -> bool:
    """True if a value is nan or NaT, or the NA of pandas."""
    if isinstance(value, float | np.floating | np.datetime64):
        return bool(np.isnan(value))
    return type(value).__name__ in {"NAType", "NaTType"}
