"""Ranks on a leaderboard: by workload, and their mean over workloads. Oracles are shown, but never ranked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evenstep.experiments.leaderboard.table import Cell, Table
from evenstep.measure.comparison import Interval


@dataclass(frozen=True, slots=True)
class Standing:
    """The position of a policy on one workload."""

    cell: Cell  # its runs
    # 1 = the best; one more than the number of live policies with a lower mean, so equal means share a rank; None for an
    # oracle, or without a value
    rank: int | None
    value: Interval | None  # mean and interval of the ranking metric; None if a replicate has no value
    # paired difference, this policy minus the best live one; None for that one itself, and without a value or a live policy
    behind: Interval | None

    @property
    def level(self) -> bool:
        """True if this is the best live policy, or its paired interval to that one contains 0; False without a rank."""
        return self.rank is not None and (self.behind is None or not self.behind.is_clear)


@dataclass(frozen=True, slots=True)
class Overall:
    """A policy over all workloads."""

    policy: str  # as the board lists it
    ranks: tuple[int | None, ...]  # its rank on each workload; None where it was not run, or a replicate has no value
    mean_rank: float  # over the workloads on which it has a rank
    level: int  # workloads on which it is the best live policy or statistically equal to it (`Standing.level`)

    @property
    def complete(self) -> bool:
        """True if the policy has a rank on every workload; otherwise its mean rank is over fewer, maybe easier, ones."""
        return None not in self.ranks


def standings(cells: Sequence[Cell], metric: str) -> list[Standing]:
    """One workload's standings by the ranking metric, best (lowest) first; oracles among them, cells without value last."""
    known = [(found.value, cell) for cell in cells if (found := cell.interval(metric)) is not None]
    ordered = sorted(known, key=lambda one: one[0])
    live = [(value, cell) for value, cell in ordered if not cell.oracle]
    rows: list[Standing] = []
    for value, cell in ordered:
        rank = None if cell.oracle else 1 + sum(other < value for other, _ in live)
        behind = cell.versus(live[0][1], metric) if live and cell is not live[0][1] else None
        rows.append(Standing(cell, rank, cell.interval(metric), behind))
    without = [cell for cell in cells if cell.interval(metric) is None]
    return rows + [Standing(cell, None, None, None) for cell in without]


def overall(table: Table) -> list[Overall]:
    """Live policies by mean rank over the workloads, best first. Policies that lack a rank on some workload come last.

    A policy without any rank is left out. Equal mean ranks keep the order of `table.policies`.
    """
    by_workload = [
        {one.cell.policy: one for one in standings(table.of(line.name), line.metric) if one.rank is not None}
        for line in table.workloads
    ]
    found: list[Overall] = []
    for policy in table.policies:
        places = [board.get(policy) for board in by_workload]
        ranks = tuple(place.rank if place is not None else None for place in places)
        known = [rank for rank in ranks if rank is not None]
        if known:
            level = sum(place is not None and place.level for place in places)
            found.append(Overall(policy, ranks, sum(known) / len(known), level))
    return sorted(found, key=lambda one: (not one.complete, one.mean_rank))


def alike(table: Table) -> list[tuple[str, ...]]:
    """Groups of two or more policies with the same digests, so the same decisions, in every run; in the table's order.

    Policies that ran on different workloads, or with different replicates, are never alike.
    """
    groups: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    known = {(cell.policy, cell.workload): cell.digests for cell in table.cells}
    for policy in table.policies:
        key = tuple(known.get((policy, line.name), ()) for line in table.workloads)
        groups.setdefault(key, []).append(policy)
    return [tuple(group) for group in groups.values() if len(group) > 1]
