"""Which request of a session waits for which: chains, and what happens to them when a row is dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evenstep.request import F8, I8, Trace
from evenstep.workload.table import Bool, Table


def trace(table: Table, format: str, rows: I8, notes: Sequence[str] = (), **columns: Any) -> Trace:
    """A trace of these rows of a table, named after the table's file.

    Args:
        rows: int64[N], rows of the table, in the order of the trace.
        format: name of the trace's format.
        notes: added to the notes of the table.
        columns: the full columns (as long as the table) by field of `Trace`, None if absent. Arrival times are shifted so
            that the first is 0. `after` would not be renumbered: set it on the result.
    """
    taken: dict[str, Any] = {name: None if column is None else column[rows] for name, column in columns.items()}
    if taken.get("arrival_s") is not None:
        taken["arrival_s"] = taken["arrival_s"] - taken["arrival_s"][0]
    return Trace(**taken, name=table.where, format=format, notes=(*table.notes(), *notes))


def by_time(table: Table, times: F8, moved: str) -> tuple[I8, list[str]]:
    """int64[N], the good rows in order of time, and notes; rows of equal time keep their order.

    `moved` is the only note, with a ``{}`` for the number of good rows that stand below a later one, if there are any.
    """
    rows = table.good
    count = late(times[rows])
    return rows[np.argsort(times[rows], kind="stable")], [moved.format(count)] if count else []


def late(times: F8) -> int:
    """How many rows stand below one of a later time."""
    return int((times < np.maximum.accumulate(times)).sum())


def classes(names: Sequence[str]) -> str:
    """A note that says what the numbers of the request classes mean."""
    return "Request classes: " + ", ".join(f"{number} = {name or 'empty'}" for number, name in enumerate(names)) + "."


def previous_in_session(session: I8) -> I8:
    """int64[N], for each row the nearest row above it of the same session; -1 for the first and for session -1."""
    order = np.argsort(session, kind="stable")
    after = np.full(session.size, -1, np.int64)
    same = (session[order[1:]] == session[order[:-1]]) & (session[order[1:]] >= 0)
    after[order[1:][same]] = order[:-1][same]
    return after


def gaps_after(after: I8, times: F8) -> F8:
    """float64[N], time from a row's predecessor to the row, in the unit of `times`.

    0 where `after` is -1 or the predecessor is later.
    """
    return np.where(after >= 0, np.maximum(times - times[np.maximum(after, 0)], 0.0), 0.0)


def relinked(after: I8, think_s: F8, keep: Bool) -> tuple[I8, F8]:
    """Copies of `after` and `think_s` whose links no longer pass through dropped rows, in the numbering of all N rows.

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
    """The trace without the rows that are not kept, bool[N], renumbered, its sessions relinked (`relinked`).

    If all rows are kept, it is the same trace.
    """
    if bool(keep.all()):
        return trace
    if trace.after is not None:
        after, think_s = relinked(trace.after, trace.column("think_s"), keep)
        trace = replace(trace, after=after, think_s=think_s)
    return trace.take(np.flatnonzero(keep).astype(np.int64))


def without(trace: Trace, dropped: Bool, note: str, table: Table) -> Trace:
    """As `keep_rows`, of the rows that are not dropped, bool[N]; arrival times count from the first row that is left.

    Args:
        note: added when any is dropped; it has a ``{}`` for their number, and a second one for that of all rows.
        table: where the trace is from, for the error.

    Raises:
        InputError: no row is left.
    """
    if bool(dropped.all()):
        table.bad[:] = True
        table.require_rows()
    if not dropped.any():
        return trace
    kept = keep_rows(trace, ~dropped).with_notes(note.format(int(dropped.sum()), len(trace)))
    return kept if kept.arrival_s is None else replace(kept, arrival_s=kept.arrival_s - kept.arrival_s[0])
