"""Links requests of a session to the request that they follow, and keeps the links right when rows are dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evenstep.request import F8, I8, Trace
from evenstep.wording import counted
from evenstep.workload.table import Bool, Table

_NAMED = 30  # names of classes in a note


def trace(table: Table, format: str, rows: I8, notes: Sequence[str] = (), **columns: Any) -> Trace:
    """A trace of these rows of a table, named after the table's file.

    Args:
        table, format: the parsed file, and the name of its reader.
        rows: int64[N], rows of the table, in the order of the trace.
        notes: added to the notes of the table.
        columns: by field of `Trace`, arrays as long as the table, or None if absent. Arrival times are shifted so that the
            first is 0. Do not pass `after`, which would not be renumbered: set it on the result.
    """
    taken: dict[str, Any] = {name: None if column is None else column[rows] for name, column in columns.items()}
    if taken.get("arrival_s") is not None:
        taken["arrival_s"] = taken["arrival_s"] - taken["arrival_s"][0]
    return Trace(**taken, name=table.where, format=format, notes=(*table.notes(), *notes))


def by_time(table: Table, times: F8, moved: str) -> tuple[I8, list[str]]:
    """The good rows of a table in order of time, int64[N], and notes; rows of equal time keep their order.

    If some rows stand below a later one, the only note is their number and `moved`: ``2 rows stood below ...``.
    """
    rows = table.good
    count = late(times[rows])
    return rows[np.argsort(times[rows], kind="stable")], [f"{counted(count, 'row')} {moved}"] if count else []


def late(times: F8) -> int:
    """Number of rows that stand below a row with a later time."""
    return int((times < np.maximum.accumulate(times)).sum())


def classes(names: Sequence[str]) -> str:
    """A note that says which name each request class number stands for; `names` are in order of the numbers.

    Of more than 30 names it has the first 30, and how many follow.
    """
    shown = ", ".join(f"{number} = {name or 'empty'}" for number, name in enumerate(names[:_NAMED]))
    more = f", and {len(names) - _NAMED:,} more in the order of their names" if len(names) > _NAMED else ""
    return f"Request classes: {shown}{more}."


def previous_in_session(session: I8) -> I8:
    """int64[N], for each row the nearest row above it of the same session; -1 for the first and for session -1."""
    order = np.argsort(session, kind="stable")
    after = np.full(session.size, -1, np.int64)
    same = (session[order[1:]] == session[order[:-1]]) & (session[order[1:]] >= 0)
    after[order[1:][same]] = order[:-1][same]
    return after


def gaps_after(after: I8, times: F8) -> F8:
    """float64[N], time from each row's predecessor to the row, at least 0, in the unit of `times`; 0 where `after` is -1."""
    return np.where(after >= 0, np.maximum(times - times[np.maximum(after, 0)], 0.0), 0.0)


def relinked(after: I8, think_s: F8, keep: Bool) -> tuple[I8, F8]:
    """Copies of `after` and `think_s` in which no kept row follows a dropped row; rows keep their numbers.

    A kept row whose predecessor is dropped follows the dropped row's predecessor; the think times on the way add up.

    Args:
        after: int64[N], predecessor of each row, a row above it, or -1.
        think_s: float64[N], seconds.
        keep: bool[N], rows that stay; only theirs have a meaning in the copies.
    """
    after, think_s = after.copy(), think_s.copy()
    while True:
        broken = np.flatnonzero((after >= 0) & ~keep[np.maximum(after, 0)])
        if broken.size == 0:
            return after, think_s
        dropped = after[broken]
        think_s[broken] += think_s[dropped]
        after[broken] = after[dropped]


def keep_rows(trace: Trace, keep: Bool) -> Trace:
    """The trace of the rows where `keep`, bool[N], is True, renumbered; the same trace if all are kept.

    A kept row that followed a dropped row now follows the nearest kept predecessor of the dropped row (`relinked`).
    """
    if bool(keep.all()):
        return trace
    if trace.after is not None:
        after, think_s = relinked(trace.after, trace.column("think_s"), keep)
        trace = replace(trace, after=after, think_s=think_s)
    return trace.take(np.flatnonzero(keep).astype(np.int64))


def without(trace: Trace, dropped: Bool, why: str, table: Table, one: str = "row") -> Trace:
    """The trace of the rows where `dropped`, bool[N], is False, renumbered; links skip the others (`keep_rows`).

    Arrival times then count from the first row left. The same trace if none is dropped.

    Args:
        why: what dropped rows have, for a note that is added if any is dropped; `one` is the word for a row.
        table: where the trace is from, for the error.

    Raises:
        InputError: no row is left.
    """
    if bool(dropped.all()):
        table.bad[:] = True
        table.require_rows()
    if not dropped.any():
        return trace
    number, rows = int(dropped.sum()), counted(len(trace), one)
    has, was = ("has", "was") if number == 1 else ("have", "were")
    kept = keep_rows(trace, ~dropped).with_notes(f"{number:,} of {rows} {has} {why} and {was} dropped.")
    return kept if kept.arrival_s is None else replace(kept, arrival_s=kept.arrival_s - kept.arrival_s[0])
