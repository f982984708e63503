"""Batch time from the tokens of a batch, by a file of measured iterations."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from evenstep.cost.batch import Batch, layout, on_lines, rise_after
from evenstep.cost.knots import averaged
from evenstep.cost.profile_tables import rows_of
from evenstep.errors import InputError
from evenstep.request import F8


@dataclass(frozen=True, slots=True)
class BatchTable:
    """Straight lines through the mean seconds at each number of tokens.

    ``batch-table:path=iterations.csv``. The file is CSV with the columns ``tokens`` and ``seconds``, others are ignored, a
    row for each iteration, plain or gzipped (``.gz``); it is read once. Below the first number of tokens the seconds are
    constant, and beyond the last they grow as on average over the upper half. Where noise would make more tokens take less
    time, the larger value counts.

    Args:
        path: the file.

    Raises:
        InputError: a file that cannot be read, a bad cell (line and column are named), or fewer than two numbers of tokens.

    Source: ours, for iterations measured on a real engine.
    """

    path: str
    points: tuple[tuple[float, float], ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        rows = rows_of(Path(self.path), ("tokens", "seconds"))
        tokens, mean = zip(*averaged(rows["tokens"], rows["seconds"]), strict=True)
        if len(tokens) < 2:
            raise InputError(self.path, "tokens", list(tokens), "iterations of two or more different sizes")
        rising = np.maximum.accumulate(mean).tolist()
        last, more = tokens[-1], rise_after(np.array([tokens, rising]))
        rising = [rising[0], *rising, rising[-1] + more * last]
        points = zip((tokens[0] - 1.0, *tokens, 2.0 * last), rising, strict=True)
        object.__setattr__(self, "points", tuple(points))

    def seconds(self, batch: Batch) -> float:
        return float(on_lines(np.array(self.points).T, batch.tokens))

    def table(self) -> F8:
        return layout(tokens=np.array(self.points).T)


batch_law = BatchTable
