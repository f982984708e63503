"""Columns of a trace file, checked field by field. A bad row is an error, or counted if the user asked to skip it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenstep.errors import InputError
from evenstep.request import F8, I8
from evenstep.wording import counted

Column: TypeAlias = "Sequence[Any] | NDArray[Any]"
Bool: TypeAlias = NDArray[np.bool_]
_LARGEST_FLOAT = 2**53  # whole numbers up to here survive a float
_LARGEST = 2**63  # those below fit a column


class Missing:
    """The type of `MISSING`, the value in a column where a row lacks the field; a null in the file is None."""

    def __repr__(self) -> str:
        return "missing"


MISSING = Missing()


class Doubt(Exception):  # noqa: N818  not an error: the signal to read again slowly and name the row
    """Raised if Arrow cannot read a file, or a row is bad in a table without lines; `csv_table.parse` then reads slowly."""


class Table:
    """The rows of one file as columns; `bad`, bool[rows], is True for the rows found bad so far.

    `whole`, `number`, `ascending` and `reject` set `bad`. A bad row keeps its position in every column.

    Args:
        where: the file's name, for messages.
        columns: values by field, one a row, as text or JSON left them (a list) or already converted (an array).
        lines: int64[rows], line of each row in the file; None in a fast table, which raises `Doubt` for a bad row.
        skip: count bad rows instead of stopping at the first.
    """

    def __init__(self, where: str, columns: dict[str, Column], lines: I8 | None, rows: int, *, skip: bool) -> None:
        self.where, self.columns, self.lines, self.rows, self.skip = where, columns, lines, rows, skip
        self.bad: Bool = np.zeros(rows, np.bool_)
        self._reasons: Counter[str] = Counter()
        self._first_line = 0

    @property
    def good(self) -> I8:
        """int64[M], positions of the rows not found bad so far, ascending from 0."""
        return np.flatnonzero(~self.bad).astype(np.int64)

    def has(self, field: str) -> bool:
        """True if the table has a column for this field; single rows may still lack a value."""
        return field in self.columns

    def whole(self, field: str, low: int = 1, absent: int | None = None) -> I8:
        """The field as int64[rows], whole numbers from `low` to below 2^63; text such as ``"12"`` and 12.0 count as 12.

        Any other value makes its row bad, and a bad row's number has no meaning. A missing or null value is bad too, or
        becomes `absent` if that is given. Raises for a missing column (`column`) and for a bad row (`reject`).
        """
        values, wrong = self._converted(field, _as_whole, np.int64, low, absent)
        self.reject(field, wrong, f"a whole number >= {low}", self._too_large(field, wrong))
        return values

    def _too_large(self, field: str, wrong: Bool) -> str:
        """The hint "It is too large." if the first wrong value of a column is 2^53 or more, else ""."""
        rows = np.flatnonzero(wrong & ~self.bad)
        value = self.column(field)[rows[0]] if rows.size else None
        number = as_number(value.item() if isinstance(value, np.generic) else value)
        return "It is too large." if number is not None and number >= _LARGEST_FLOAT else ""

    def number(self, field: str, low: float = -math.inf, absent: float | None = None, expected: str = "") -> F8:
        """The field as float64[rows], finite numbers of at least `low`, from numbers or text; other values make rows bad.

        A missing or null value becomes `absent` if that is given. `expected` is what the error of a bad value asks for; if
        empty, a finite number of at least `low`. Raises for a missing column (`column`) and for a bad row (`reject`).
        """
        values, wrong = self._converted(field, as_number, np.float64, low, absent)
        expected = expected or ("a finite number" if low == -math.inf else f"a finite number >= {low:g}")
        self.reject(field, wrong, expected)
        return values

    def texts(self, field: str) -> list[str]:
        """The column as text, one a row; "" where the value is missing or null. `InputError` without such a column."""
        return ["" if v is None or v is MISSING else str(v) for v in self.column(field)]

    def column(self, field: str) -> Column:
        """The column as it was read, before any check; the table's own list or array, not a copy.

        Raises:
            InputError: the table has no column for this field.
        """
        if field not in self.columns:
            raise InputError(self.where, field, "missing", f"a field {field!r} in every row")
        return self.columns[field]

    def reject(self, field: str, wrong: Bool, expected: str, hint: str = "", shown: Column | None = None) -> None:
        """Mark rows as bad and count them under this field for `notes`; without `skip`, raise for the first of them.

        Args:
            field: name in the error and in the notes; a column of the table unless `shown` is given.
            wrong: bool[rows], the rows to mark; rows that are bad already do not count again.
            expected, hint: for the error; the hint is a sentence on how to mend it, or empty.
            shown: values that the error shows, one a row; None = those of the field.

        Raises:
            InputError: a row is newly bad and `skip` is off; names file, line, field and value.
            Doubt: a row is newly bad and the table has no lines, with or without `skip`.
        """
        wrong = wrong & ~self.bad
        if not wrong.any():
            return
        if self.lines is None:
            raise Doubt
        first = int(np.flatnonzero(wrong)[0])
        if not self.skip:
            value = (self.columns[field] if shown is None else shown)[first]
            value = value.item() if isinstance(value, np.generic) else value
            raise InputError(f"{self.where}:{self.lines[first]}", field, value, expected, hint)
        count = int(wrong.sum())
        line = int(self.lines[first])
        self._first_line = min(self._first_line or line, line)
        self._reasons[field] += count
        self.bad |= wrong

    def ascending(self, field: str, times: F8 | I8, among: Bool | None = None) -> None:
        """Mark as bad the good rows whose time, in any unit, is before that of a good row above (`reject`, may raise).

        `among` is True for the rows that count; None = all.
        """
        good = self.good if among is None else np.flatnonzero(among & ~self.bad)
        wrong = np.zeros(self.rows, np.bool_)
        wrong[good] = times[good] < np.maximum.accumulate(times[good])
        self.reject(field, wrong, "a time not before the rows above", "Sort the rows by time.")

    def notes(self) -> tuple[str, ...]:
        """One sentence that counts the skipped rows by field and names the first line; () if no row was skipped."""
        if not self._reasons:
            return ()
        what = ", ".join(f"{field} {count:,}" for field, count in sorted(self._reasons.items()))
        skipped = counted(int(self.bad.sum()), "bad row was", "bad rows were")
        return (f"{skipped} skipped ({what}; the first in line {self._first_line}).",)

    def require_rows(self) -> None:
        """Raise an `InputError` if the table has no rows, or no good row."""
        if self.rows == 0:
            raise InputError(self.where, "rows", 0, "at least one row below the header", "The file holds no request.")
        if bool(self.bad.all()):
            raise InputError(self.where, "rows", 0, "at least one good row", "Every row was skipped.")

    def _converted(
        self, field: str, one: Callable[[Any], Any], kind: type, low: float, absent: Any
    ) -> tuple[NDArray[Any], Bool]:
        """The column as an array of `kind`; and bool[rows], True where `one` cannot convert the value, or it is below `low`.

        A missing or null value becomes `absent` if that is given, even if it is below `low`.
        """
        column, wrong = self.column(field), np.zeros(self.rows, np.bool_)
        if not isinstance(column, np.ndarray) and set(map(type, column)) <= ({int} if kind is np.int64 else {int, float}):
            with suppress(OverflowError):
                column = np.array(column, kind)
        if isinstance(column, np.ndarray):
            if kind is np.int64 and column.dtype.kind == "f":
                column = column.astype(np.promote_types(column.dtype, np.float32), copy=False)  # float16 ends below 2^63
                wrong = ~((np.abs(column) < 2.0**63) & (column == np.rint(column)))
                column = np.where(wrong, 0, column)
            values = column.astype(kind, copy=False)
            wrong = wrong | ~np.isfinite(values) | (values < low)
            return np.where(wrong, absent or 0, values).astype(kind, copy=False), wrong
        values = np.full(self.rows, absent or 0, kind)
        for row, value in enumerate(column):
            if absent is not None and (value is MISSING or value is None):
                continue
            if (converted := one(value)) is None or converted < low:
                wrong[row] = True
            else:
                values[row] = converted
        return values, wrong


def _as_whole(value: Any) -> int | None:
    """A whole number from text or JSON (``"12"``, 12 and 12.0), else None (12.5, True, nan)."""
    digits = value.strip().lstrip("+-") if isinstance(value, str) else ""
    if digits.isascii() and digits.isdigit():
        with suppress(ValueError):  # two signs, a control character next to them, thousands of digits
            value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        number = as_number(value)
        if number is None or not number.is_integer() or abs(number) >= _LARGEST_FLOAT:
            return None
        value = int(number)
    return value if abs(value) < _LARGEST else None


def as_number(value: Any) -> float | None:
    """A finite number from text or JSON, else None; True is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and "_" in value:
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def codes(values: Sequence[str]) -> tuple[I8, tuple[str, ...]]:
    """int64[N], the position of each value among the sorted distinct values; and these distinct values."""
    names = tuple(sorted(set(values)))
    place = {name: number for number, name in enumerate(names)}
    return np.fromiter((place[v] for v in values), np.int64, len(values)), names


def session_numbers(table: Table, field: str) -> I8:
    """int64[N], the session of each row: a number from 0 for each name in this field, in sorted order of the names as text.

    A row gets -1 where the name is empty, missing or null; all rows do if the table has no such column.
    """
    if not table.has(field):
        return np.full(table.rows, -1, np.int64)
    numbers, known = codes(table.texts(field))
    return numbers - 1 if known[0] == "" else numbers  # "" sorts first
