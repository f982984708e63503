"""The results of a leaderboard, a cell for each policy and workload that ran; stored as one Parquet file, a row per run."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evenstep.measure.comparison import Interval, interval_of, paired_difference
from evenstep.measure.parquet import read_columns, write_columns

#: Metrics a board keeps of every run.
METRICS = (
    "idle_time_share",
    "idle_share",
    "imbalance_envelope_tokens",
    "full_slot_tokens_per_s",
    "tokens_per_s",
    "tpot_mean_s",
    "mean_wait_s",
    "oldest_wait_s",
)


@dataclass(frozen=True, slots=True)
class Cell:
    """The results of one policy on one workload."""

    workload: str  # its name
    policy: str  # as the board lists it
    predictor: str  # that it was given, or empty
    oracle: bool  # it was shown true lengths, which no live policy is
    digests: tuple[str, ...]  # digest of each replicate
    values: Mapping[str, tuple[float | None, ...]]  # for each of `METRICS` one a replicate, None where a run has no value

    def interval(self, metric: str) -> Interval | None:
        """Mean and 95 % interval over replicates; None if a replicate has no value."""
        return interval_of(self.values[metric])

    def versus(self, other: Cell, metric: str) -> Interval | None:
        """Mean of own minus `other`'s value over common replicates, with its 95 % interval; None if a value is missing."""
        pairs = [*zip(self.values[metric], other.values[metric], strict=False)]
        ours, theirs = [a for a, _ in pairs if a is not None], [b for _, b in pairs if b is not None]
        return paired_difference(ours, theirs) if len(ours) == len(theirs) == len(pairs) else None


@dataclass(frozen=True, slots=True)
class WorkloadLine:
    """The description of a workload for a page."""

    name: str  # as in the board's file
    about: str  # as in the board's file
    metric: str  # the ranking metric, one of `METRICS`; lower is better
    predictor: str  # the predictor that ``predictor=live`` means here
    command: str  # ``evenstep compare`` with its settings; append ``--policy`` to run a policy again


@dataclass(frozen=True, slots=True)
class Origin:
    """How a board was made."""

    date: str  # day it was made, as in 2026-05-31
    commit: str  # of the sources, or empty outside a repository
    command: str  # exact command line
    seeds: int  # most replicates of a policy; replicate r has the seed of the workload's settings plus r
    versions: Mapping[str, str]  # version by component


@dataclass(frozen=True, slots=True)
class Table:
    """A whole leaderboard."""

    workloads: tuple[WorkloadLine, ...]  # in the order of the board's file
    cells: tuple[Cell, ...]  # workload by workload
    picture: tuple[str, ...]  # names of the workloads that the picture shows
    origin: Origin  # the date, command and versions that made it

    def of(self, workload: str) -> list[Cell]:
        """The cells of one workload, by its name; empty if it is unknown."""
        return [cell for cell in self.cells if cell.workload == workload]

    @property
    def policies(self) -> tuple[str, ...]:
        """Names of all policies, oracles included, in order of first appearance in `cells`."""
        return tuple(dict.fromkeys(cell.policy for cell in self.cells))


def write_table(table: Table, path: Path) -> int:
    """Write the table to a Parquet file, a row for each run, cell by cell; returns the number of rows.

    Workloads, picture and origin are in the file's head. The file is replaced whole; `InputError` if it cannot be written.
    """
    import pyarrow as pa

    rows = [(cell, index) for cell in table.cells for index in range(len(cell.digests))]
    columns: dict[str, Any] = {
        name: [getattr(cell, name) for cell, _ in rows] for name in ("workload", "policy", "predictor", "oracle")
    }
    columns["replicate"] = [index for _, index in rows]
    columns["digest"] = [cell.digests[index] for cell, index in rows]
    for name in METRICS:
        columns[name] = pa.array([cell.values[name][index] for cell, index in rows], pa.float64())
    about = {
        "workloads": [asdict(line) for line in table.workloads],
        "picture": table.picture,
        "origin": {**asdict(table.origin), "versions": dict(table.origin.versions)},
    }
    return write_columns(columns, path, "leaderboard", about)


def read_table(path: Path) -> Table:
    """Read a file of `write_table`; a metric that it lacks is None. `InputError` for an unreadable or other file."""
    read, head = read_columns(path, ["leaderboard"], "a leaderboard", "a leaderboard's Parquet file")
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in read.to_pylist():
        groups.setdefault((row["workload"], row["policy"]), []).append(row)
    return Table(
        workloads=tuple(WorkloadLine(**line) for line in head["workloads"]),
        cells=tuple(cell_of(rows) for rows in groups.values()),
        picture=tuple(head["picture"]),
        origin=Origin(**head["origin"]),
    )


def cell_of(rows: Sequence[Mapping[str, Any]]) -> Cell:
    """The cell of one policy and workload, from its rows, one a replicate: names, ``digest``, metrics; other keys pass."""
    workload, policy, predictor, oracle = (rows[0][name] for name in ("workload", "policy", "predictor", "oracle"))
    digests = tuple(row["digest"] for row in rows)
    return Cell(workload, policy, predictor, oracle, digests, {m: tuple(row.get(m) for row in rows) for m in METRICS})


def commit_of(folder: Path) -> str:
    """Ten digits of the commit, and `` with local changes`` if tracked files differ; empty without a checkout or git."""
    commit = _git(folder, "rev-parse", "--short=10", "HEAD")
    if commit and _git(folder, "status", "--porcelain", "--untracked-files=no"):
        return f"{commit} with local changes"
    return commit


def day_of(folder: Path) -> int | None:
    """The date of a checkout's last commit in whole days since 1970 (UTC), which selects the part that a check runs.

    None without a checkout or git.
    """
    seconds = _git(folder, "log", "-1", "--format=%ct")
    return int(seconds) // 86_400 if seconds else None


def _git(folder: Path, *words: str) -> str:
    """The stripped output of a git command in `folder`; empty if it fails or git is missing."""
    try:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
