"""Checks a leaderboard by running a tenth of it again: selects the tenth, and finds the orders that flipped."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

from evenstep.experiments.leaderboard.table import Cell, Table
from evenstep.measure.comparison import Interval, below

#: Number of parts of a board; a check runs one of them again.
PARTS = 10


@dataclass(frozen=True, slots=True)
class Flip:
    """Two policies whose order reversed, with disjoint intervals before and after."""

    workload: str
    metric: str  # that is compared
    first: str  # the policy that was the better one, with lower values
    second: str  # the other policy
    before: tuple[Interval | None, Interval | None]  # of the metric, of first and second, as published
    after: tuple[Interval | None, Interval | None]  # the same, as run again

    def __str__(self) -> str:
        then, now = (" and ".join(_shown(i) for i in pair) for pair in (self.before, self.after))
        return f"{self.workload}: {self.first} was better than {self.second} ({self.metric} {then}), now worse ({now})"


def part_of(cells: Sequence[tuple[str, str]], part: int) -> list[tuple[str, str]]:
    """A tenth of a board's cells, in the order of `cells`: about a tenth of every workload's policies.

    `cells` are (workload, policy); the same cells give the same tenth. With ten cells or more, the parts 0 to 9 have
    every cell once, and part 10 is part 0 again. With fewer, each part has one.
    """

    def place(cell: tuple[str, str]) -> tuple[str, bytes]:
        return cell[0], hashlib.sha256("\0".join(cell).encode()).digest()

    chosen = set(sorted(cells, key=place)[part % max(1, min(PARTS, len(cells))) :: PARTS])
    return [cell for cell in cells if cell in chosen]


def flips(stored: Table, again: Sequence[Cell]) -> list[Flip]:
    """Pairs of policies whose order in the ranking metric reversed, with disjoint 95 % intervals in both orders.

    Two cells of a workload are compared if at least one was run again; a cell that was not counts as stored. Oracles count,
    too. Cells that are not stored are ignored.
    """
    found: list[Flip] = []
    for line in stored.workloads:
        before = {cell.policy: cell.interval(line.metric) for cell in stored.of(line.name)}
        fresh = {c.policy: c.interval(line.metric) for c in again if c.workload == line.name}
        after = {**before, **fresh}
        for first, second in permutations(before, 2):
            if first in fresh or second in fresh:
                then, now = (before[first], before[second]), (after[first], after[second])
                if below(*then) and below(now[1], now[0]):
                    found.append(Flip(line.name, line.metric, first, second, then, now))
    return found


def changed(stored: Table, again: Sequence[Cell]) -> list[Cell]:
    """The cells of `again` whose digests differ from the stored ones, so decisions differ. Cells not stored are left out."""
    known = {(cell.workload, cell.policy): cell.digests for cell in stored.cells}
    return [cell for cell in again if known.get((cell.workload, cell.policy), cell.digests) != cell.digests]


def _shown(one: Interval | None) -> str:
    assert one is not None and one.low is not None and one.high is not None
    return f"[{one.low:.4g}, {one.high:.4g}]"
