"""Recorded steps of a barrier group, read back: the same step of every rank side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from evenstep.errors import InputError
from evenstep.plugins.vllm.step_file import COLUMNS
from evenstep.request import F8, I8


@dataclass(frozen=True, slots=True, eq=False)
class GroupSteps:
    """K steps of G ranks that share a barrier, in order, without steps in which no rank ran anything."""

    rank: I8  # int64[G], numbers of the ranks, ascending
    start_s: F8  # float64[K, G], Unix time at which each rank began the step
    seconds: F8  # float64[K, G], duration of the step on each rank
    running: I8  # int64[K, G], requests that hold memory
    load: F8  # float64[K, G], KV tokens while the step ran
    produced: I8  # int64[K, G], tokens of answers that the step made
    alone: int  # number of steps that not every rank recorded and that are left out

    def between(self, first_s: float, last_s: float) -> GroupSteps:
        """The steps that begin on their last rank at `first_s` or later and before `last_s`, Unix times; `alone` stays."""
        begins = self.start_s.max(axis=1)
        kept = (begins >= first_s) & (begins < last_s)
        columns = ("start_s", "seconds", "running", "load", "produced")
        return replace(self, **{name: getattr(self, name)[kept] for name in columns})


def read_steps(folder: str | Path) -> GroupSteps:
    """Read the step files of one barrier group, and match the steps of its ranks.

    `folder` holds the ``steps-<rank>.csv`` of the group's ranks and no others. Raises InputError if it has no such file, or
    one without steps or not as `StepFile` writes it.
    """
    paths = sorted(Path(folder).glob("steps-*.csv"), key=lambda path: (len(path.name), path.name))
    if not paths:
        raise InputError(str(folder), "content", "no steps-*.csv", "the step files of a barrier group")
    tables = [_read(path) for path in paths]
    keyed = [dict(zip(_keys(table), range(len(table)), strict=True)) for table in tables]
    shared = [key for key in keyed[0] if all(key in other for other in keyed[1:])]
    rows = [table[[places[key] for key in shared]] for table, places in zip(tables, keyed, strict=True)]
    every = np.stack(rows, axis=1)  # [K, G, columns]
    every = every[every[:, :, COLUMNS.index("running")].sum(axis=1) > 0]
    alone = len(set[tuple[int, int, int]]().union(*keyed)) - len(shared)

    def column(name: str) -> F8:
        return np.ascontiguousarray(every[:, :, COLUMNS.index(name)])

    ranks = np.array([table[0, 0] for table in tables]).astype(np.int64)
    running, produced = (column(name).astype(np.int64) for name in ("running", "produced"))
    return GroupSteps(ranks, column("start_s"), column("seconds"), running, column("kv_tokens"), produced, alone)


def _read(path: Path) -> F8:
    """float64[K, columns], the steps of one file. Raises InputError for an invalid line, or without steps."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    if not lines or lines[0] != ",".join(COLUMNS):
        raise InputError(f"{path} line 1", "header", lines[0] if lines else "", f"'{','.join(COLUMNS)}'")
    rows: list[dict[str, float]] = []
    for number, line in enumerate(lines[1:], 2):
        try:
            row: dict[str, float] = dict(zip(COLUMNS, map(float, line.split(",")), strict=True))
            if not all(map(math.isfinite, row.values())):
                raise ValueError
            rows.append(row)
        except ValueError:
            raise InputError(f"{path} line {number}", "line", line, f"{len(COLUMNS)} finite numbers") from None
    if not rows:
        raise InputError(str(path), "steps", 0, "at least one")
    return np.array([[*row.values()] for row in rows])


def _keys(table: F8) -> list[tuple[int, int, int]]:
    """A key for each line: life, wave, step. The life begins at 0 and grows when the other two do not: a new process."""
    life, last, found = 0, (-1, -1), list[tuple[int, int, int]]()
    for wave, step in table[:, 1:3].astype(np.int64).tolist():
        life += (wave, step) <= last
        last = (wave, step)
        found.append((life, wave, step))
    return found
