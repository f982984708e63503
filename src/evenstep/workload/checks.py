"""Checks the promises that every trace keeps, whichever reader made it, in this package or another."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep.errors import InputError
from evenstep.request import COLUMNS, Trace

#: The lowest value of each column.
LOWEST = dict.fromkeys(COLUMNS, 0) | {"prompt_tokens": 1, "output_tokens": 1, "session": -1, "after": -1}


def check_trace(trace: Trace, where: str) -> Trace:
    """Check the columns, links and blocks of a trace, and return the same trace.

    `where` names the trace in errors, which count rows from 0.

    Raises:
        InputError: no rows; a column of the wrong type, a value out of range, or times that go back; a row that
            waits for itself, a later row or another session; blocks whose offsets, size or scope are wrong.
    """
    rows = len(trace)
    if rows == 0:
        raise InputError(where, "rows", 0, "at least one row")
    for name in COLUMNS:
        column = getattr(trace, name)
        if column is not None:
            _check_column(column, name, where)
    if trace.arrival_s is not None:
        goes_back = np.diff(trace.arrival_s, prepend=trace.arrival_s[0]) < 0
        _reject(where, "arrival_s", goes_back, trace.arrival_s, "times in order")
    if trace.after is not None:
        _reject(where, "after", trace.after >= np.arange(rows), trace.after, "a row above")
        session = trace.column("session")
        linked = trace.after >= 0
        other = linked & (session[np.maximum(trace.after, 0)] != session)
        _reject(where, "after", other, trace.after, "a row of the same session")
    _check_blocks(trace, where)
    return trace


def _check_column(column: Any, name: str, where: str) -> None:
    """Raise an `InputError` unless a column has its dtype, finite values, and no value below `LOWEST`."""
    kind = np.float64 if name.endswith("_s") else np.int64
    if not isinstance(column, np.ndarray) or column.dtype != kind:
        shown = f"{getattr(column, 'dtype', type(column).__name__)}{list(getattr(column, 'shape', []))}"
        raise InputError(where, name, shown, f"{np.dtype(kind).name}[{np.size(column)}]")
    if kind is np.float64:
        _reject(where, name, ~np.isfinite(column), column, "a finite number")
    _reject(where, name, column < LOWEST[name], column, f"a number >= {LOWEST[name]}")


def _check_blocks(trace: Trace, where: str) -> None:
    blocks = trace.prefix_blocks
    if blocks is None:
        return
    offsets = blocks.offsets
    if offsets[0] != 0 or offsets[-1] != blocks.ids.size or bool((np.diff(offsets) < 0).any()):
        expected = f"{len(trace) + 1} ascending from 0 to the ids' number"
        raise InputError(where, "prefix_blocks.offsets", f"{offsets.size} offsets", expected)
    if blocks.block_tokens < 1:
        raise InputError(where, "prefix_blocks.block_tokens", blocks.block_tokens, "a whole number >= 1")
    if blocks.scope not in {"session", "global"}:
        raise InputError(where, "prefix_blocks.scope", blocks.scope, "session or global")


def _reject(where: str, field: str, wrong: Any, values: Any, expected: str) -> None:
    """Raise an `InputError` for the first row where `wrong`, bool[N], is True; `values` are those of the column `field`."""
    if bool(wrong.any()):
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(f"{where}, row {row}", field, values[row].item(), expected)
