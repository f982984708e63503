"""Requests, and traces of requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from evenstep.errors import InputError, check_known, check_range
from evenstep.wording import counted

F8: TypeAlias = NDArray[np.float64]
I8: TypeAlias = NDArray[np.int64]

#: What an absent column means for one request.
ABSENT: dict[str, Any] = {
    "arrival_s": 0.0,
    "request_class": 0,
    "output_low": 0,
    "output_high": 0,
    "max_tokens": 0,
    "prompt_key": 0,
    "session": -1,
    "after": -1,
    "think_s": 0.0,
}


@dataclass(frozen=True, slots=True)
class Request:
    """One request: a row of a trace."""

    request_id: int  # running number, unique in its trace; key of every random draw for this request
    arrival_s: float  # seconds since the start of the trace; 0 if the trace has no times
    prompt_tokens: int  # tokens of the prompt, >= 1
    output_tokens: int  # true output length, >= 1; hidden from every policy that is not an oracle
    request_class: int = 0  # class or tenant number; 0 is the default class
    output_low: int = 0  # lower bound of the output length if one is known, else 0
    output_high: int = 0  # upper bound of the output length if one is known, else 0
    max_tokens: int = 0  # cap the client asked for; 0 = none
    prompt_key: int = 0  # hash of prompt or template; 0 = unknown
    session: int = -1  # session the request belongs to; -1 = none
    after: int = -1  # request_id that must end first; -1 = none
    think_s: float = 0.0  # seconds between the end of `after` (or the session's start) and this request


def offsets_of(counts: Any) -> I8:
    """int64[N+1], running sums of N row lengths, from 0: laid end to end, row i is at ``offsets[i] : offsets[i+1]``."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, dtype=np.int64, out=offsets[1:])
    return offsets


@dataclass(frozen=True, slots=True, eq=False)
class PrefixBlocks:
    """The KV blocks of every row's prompt, as ids that stand for their content; traces for prefix caches have them."""

    ids: I8  # int64[total], block ids of all rows, one row after the other, in prefix order
    offsets: I8  # int64[N+1], row i owns ``ids[offsets[i]:offsets[i+1]]``
    block_tokens: int  # tokens in one block
    #: ``global`` if equal ids mean equal content in all sessions, ``session`` if only inside one session
    scope: Literal["session", "global"] = "global"

    def row(self, index: int) -> I8:
        """The block ids of one row's prompt, in prefix order; a view, not a copy."""
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def take(self, rows: I8) -> PrefixBlocks:
        """A copy with the blocks of the rows at these positions, in this order: row i of the copy is ``rows[i]`` here."""
        counts = np.diff(self.offsets)[rows]
        offsets = offsets_of(counts)
        index = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - self.offsets[rows], counts)
        return replace(self, ids=self.ids[index], offsets=offsets)


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Requests as columns, in order of arrival, or in any order if there are no times.

    ``trace[i]`` is a `Request`. An absent column is None: absent, not zero. `request_id` is the row's position, 0..N-1;
    `after` refers to it. A wrong index raises IndexError or TypeError, as that of a list does.

    Args:
        prompt_tokens, output_tokens: int64[N], tokens, all >= 1.
        arrival_s: float64[N], seconds since the trace's start, ascending; None for plain length lists. Narrower floats, here
            and in `think_s`, are converted exactly.
        request_class .. think_s: fields of `Request`, int64[N] (`think_s` float64[N]) or None.
        prefix_blocks: KV blocks of the prompts, or None.
        name: file or generator the rows come from.
        format: name of the reader or ``synthetic``.
        synthetic: True if each replicate of an experiment draws new requests; False if it rotates these.
        notes: sentences on rows the reader dropped, sorted, spread or assumed; every host prints them.

    Raises:
        InputError: a column that is no NumPy array, or has not one value for each request.
    """

    prompt_tokens: I8
    output_tokens: I8
    arrival_s: F8 | None = None
    request_class: I8 | None = None
    output_low: I8 | None = None
    output_high: I8 | None = None
    max_tokens: I8 | None = None
    prompt_key: I8 | None = None
    session: I8 | None = None
    after: I8 | None = None
    think_s: F8 | None = None
    prefix_blocks: PrefixBlocks | None = None
    name: str = ""
    format: str = ""
    synthetic: bool = False
    notes: tuple[str, ...] = ()

    @classmethod
    def from_columns(
        cls,
        prompt_tokens: Any,
        output_tokens: Any,
        arrival_s: Any = None,
        *,
        unit: Literal["s", "ms", "us", "ns"] = "s",
        name: str = "columns",
        **others: Any,
    ) -> Trace:
        """Make a trace from lists, arrays, or columns of a table. Rows are checked.

        With times, rows are sorted by them, and the first arrives at 0 s. Else they keep their order.

        Args:
            prompt_tokens, output_tokens: whole numbers >= 1.
            arrival_s: numbers in `unit`, text with date and time of day such as ``2026-03-01 18:15:46.25``, or
                datetime64; None = lengths only.
            unit: of numbers in `arrival_s`.
            name: what reports call the workload.
            others: further fields of `Request` by name; classes and sessions may be text.

        Raises:
            InputError: an unknown field, columns of different lengths, or a value that does not fit (with its row).
        """
        import evenstep  # by its public name, since this file may not import readers

        columns = {"prompt_tokens": prompt_tokens, "output_tokens": output_tokens, "arrival_s": arrival_s}
        return evenstep.trace_of_columns({**columns, **others}, unit=unit, name=name)

    def __repr__(self) -> str:
        return f"<trace of {counted(len(self), 'request')}{f' from {self.name}' if self.name else ''}>"

    def __post_init__(self) -> None:
        rows = np.size(self.prompt_tokens)
        shapes = {name: (np.shape(getattr(self, name)), rows) for name in COLUMNS if getattr(self, name) is not None}
        if self.prefix_blocks is not None:
            shapes["prefix_blocks.offsets"] = np.shape(self.prefix_blocks.offsets), rows + 1
        for name, (shape, size) in shapes.items():  # compiled loops read columns unchecked
            column = getattr(self, name, None)
            if column is not None and not isinstance(column, np.ndarray):
                hint = "Trace.from_columns takes columns of any kind."
                raise InputError(self.name or "trace", name, type(column).__name__, "a NumPy array", hint)
            if shape != (size,):
                expected = f"shape ({size},), " + ("one value a request" if size == rows else "one more than requests")
                raise InputError(self.name or "trace", name, shape, expected)
            if column is not None and column.dtype in (np.float32, np.float16):  # sums of such times would be rounded
                object.__setattr__(self, name, column.astype(np.float64))

    def __len__(self) -> int:
        return int(self.prompt_tokens.size)

    @property
    def request_id(self) -> I8:
        """int64[N], the row numbers 0..N-1."""
        return np.arange(len(self), dtype=np.int64)

    @overload
    def __getitem__(self, index: int) -> Request: ...

    @overload
    def __getitem__(self, index: slice) -> Trace: ...

    def __getitem__(self, index: int | slice) -> Request | Trace:
        if isinstance(index, slice):
            return self.take(np.arange(len(self), dtype=np.int64)[index])
        row = range(len(self))[index]
        given = {name: getattr(self, name) for name in COLUMNS}
        return Request(row, **{name: ABSENT[name] if c is None else c[row].item() for name, c in given.items()})

    def __iter__(self) -> Iterator[Request]:
        return (self[i] for i in range(len(self)))

    def column(self, name: str) -> Any:
        """A column by its name in `COLUMNS`: the array of the trace; if it is absent, a new array of the `ABSENT` value.

        `InputError` for any other name.
        """
        check_known(self.name or "trace", "column", name, COLUMNS, "a column of a trace")
        present = getattr(self, name)
        if present is not None:
            return present
        return np.full(len(self), ABSENT[name], np.float64 if name.endswith("_s") else np.int64)

    def take(self, rows: I8) -> Trace:
        """A new trace of the rows at these positions, in this order, renumbered from 0. Arrival times are kept as they are.

        `after` gets the new number of the row that it refers to, -1 if that row is left out. `InputError` if `rows` has
        another number than 0 to N - 1, or several dimensions; a mask of bools is no positions.
        """
        at = np.asarray(rows)
        if at.ndim != 1 or (at.size and (at.dtype.kind not in "iu" or at.min() < 0 or at.max() >= len(self))):
            expected = f"whole numbers from 0 to {len(self) - 1}, in one dimension"
            raise InputError(self.name or "trace", "rows", at, expected)
        rows = at.astype(np.int64, copy=False)
        given = {name: getattr(self, name) for name in COLUMNS}
        changes: dict[str, Any] = {name: np.ascontiguousarray(c[rows]) for name, c in given.items() if c is not None}
        if self.after is not None:
            place = np.full(len(self) + 1, -1, np.int64)
            place[rows] = np.arange(rows.size)
            changes["after"] = place[changes["after"]]  # -1 reads the extra last entry, which stays -1
        if self.prefix_blocks is not None:
            changes["prefix_blocks"] = self.prefix_blocks.take(rows)
        return replace(self, **changes)

    def head(self, rows: int) -> Trace:
        """The trace of the first `rows` rows; the trace itself if it has no more. `InputError` unless an integer >= 0."""
        check_range(self.name or "trace", "a whole number >= 0", low=0, rows=rows)
        return self if rows >= len(self) else self.take(np.arange(rows, dtype=np.int64))

    def with_notes(self, *notes: str) -> Trace:
        """A trace with the same columns, not copied, and these notes after its own."""
        return replace(self, notes=(*self.notes, *notes))


#: The columns of a trace, in the order of `Request`.
COLUMNS: tuple[str, ...] = tuple(f.name for f in fields(Request) if f.name != "request_id")
