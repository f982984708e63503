"""Small leaderboards for the tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evenstep.experiments.leaderboard.table import METRICS, Cell, Origin, Table, WorkloadLine

BOARD = """version: 1
seeds: 2
workloads:
  - {name: chat, about: a few chats, source: sample:azure-conv, settings: {workers: 2, slots: 4, pool: 8, limit: 60}}
  - name: timed
    source: sample:azure-conv
    settings: {workers: 2, slots: 4, load: 0.7, limit: 60}
policies: ["br-0:age_limit=0", "bf-io:horizon=4,predictor=live", "bf-io:horizon=4,predictor=oracle"]
slow:
  aco: {seeds: 2, leave_out: [timed]}
"""
#: Arguments that keep a board of `BOARD` small.
FEW = ["--policy", "jsq", "--policy", "br-0", "--policy", "bf-io:horizon=4,predictor=live", "--policy", "aco"]


def cell(workload: str, policy: str, values: Sequence[float], *, oracle: bool = False) -> Cell:
    """A cell with these values of every metric, and digests that follow from them and from the name before a slash."""
    kept = {name: tuple(values) for name in METRICS}
    return Cell(workload, policy, "", oracle, tuple(f"{policy.partition('/')[0]} {value}" for value in values), kept)


def table(cells: Mapping[str, Mapping[str, Sequence[float]]], oracles: Sequence[str] = ()) -> Table:
    """A leaderboard from workload to policy to values."""
    lines = tuple(WorkloadLine(name, "", "idle_time_share", "survival", "evenstep compare x") for name in cells)
    made = [cell(w, p, v, oracle=p in oracles) for w, found in cells.items() for p, v in found.items()]
    origin = Origin("2026-01-02", "abc", "evenstep leaderboard b.yaml", 3, {"evenstep": "0"})
    return Table(lines, tuple(made), (lines[0].name,), origin)
