"""A step-time law measured on an engine: a file of loads and the seconds their steps took."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from evenstep.config.number import finite
from evenstep.cost.knots import OfLoad, Sync, as_lines, averaged, check_knots
from evenstep.cost.profile_tables import cells_of
from evenstep.cost.view import PiecewiseLinear
from evenstep.errors import InputError


@dataclass(frozen=True, slots=True)
class Table(OfLoad):
    """``dt = sync_s + line(L*)``, L* the heaviest worker's KV tokens; the line goes through the measured steps.

    ``table:path=h100.csv``. The file is CSV with the header ``load,seconds``: the KV load of a worker in tokens, and the
    duration of its whole decode step. Several measurements of one load are averaged. C is the line at load 0, never below 0;
    beyond the largest load the last line goes on.

    Args:
        path: the file.
        sync_s: synchronisation term added to the measured seconds: seconds, or pairs of group size and seconds.

    Raises:
        InputError: a file that cannot be read, a bad row, fewer than two loads, or seconds that fall as the load grows.

    Source: ours, for steps measured on a real engine.
    """

    name: ClassVar[str] = "table"
    path: str
    sync_s: Sync = 0.0
    steps: tuple[tuple[float, float], ...] = field(init=False, default=())
    overhead_s: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        steps = averaged(*np.array(read_steps(Path(self.path))).reshape(-1, 2).T)
        check_knots(self.path, "steps", steps)
        (x0, y0), (x1, y1) = steps[:2]
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "overhead_s", max(0.0, y0 - x0 * (y1 - y0) / (x1 - x0)))
        self.check()

    def table(self) -> PiecewiseLinear:
        below_first = self.steps[0][0] > 0  # the first line ends at C, which is never below 0
        return as_lines([(0.0, self.overhead_s)] * below_first + list(self.steps), self.overhead_s)


def read_steps(path: Path) -> list[tuple[float, float]]:
    """Pairs of KV load (tokens) and seconds from a CSV file ``load,seconds``, in its order; else an `InputError`."""
    lines = cells_of(path)
    header = ",".join(cell.strip() for cell in next(lines, (1, []))[1])
    if header != "load,seconds":
        raise InputError(str(path), "header", header, "load,seconds")
    steps: list[tuple[float, float]] = []
    for number, row in lines:
        where = f"{path}, line {number}"
        if len(row) not in (0, 2):
            raise InputError(where, "row", ",".join(row), "load,seconds")
        steps += [(finite(where, "step", row[0]), finite(where, "step", row[1]))] if row else []
    return steps


law = Table
