"""Batch time by the tokens of a batch, from a file of measured iterations."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from evenstep.cost.batch import Batch, layout
from evenstep.cost.profile_tables import rows_of
from evenstep.errors import InputError
from evenstep.request import F8


@dataclass(frozen=True, slots=True)
class BatchTable:
    """Straight lines through the mean seconds at each number of tokens.

    ``batch-table:path=iterations.csv``. The file is CSV with the columns ``tokens`` and ``seconds``, others are ignored,
    a line an iteration, plain or gzipped (``.gz``); it is read once. Below the first number of tokens the seconds stay,
    beyond the last the last line goes on; where noise would make more tokens take less, the larger value stands.

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
        tokens, place = np.unique(rows["tokens"], return_inverse=True)
        if tokens.size < 2:
            raise InputError(self.path, "tokens", tokens.tolist(), "iterations of two or more different sizes")
        mean = np.bincount(place, weights=rows["seconds"]) / np.bincount(place)
        rising = np.maximum.accumulate(mean).tolist()
        below = [(tokens[0] - 1.0, rising[0])]
        object.__setattr__(self, "points", (*below, *zip(tokens.tolist(), rising, strict=True)))

    def seconds(self, batch: Batch) -> float:
        at, seconds = np.array(self.points).T
        k = int(np.clip(np.searchsorted(at, batch.tokens, side="right") - 1, 0, at.size - 2))
        return float(seconds[k] + (seconds[k + 1] - seconds[k]) / (at[k + 1] - at[k]) * (batch.tokens - at[k]))

    def table(self) -> F8:
        return layout(tokens=np.array(self.points).T)


batch_law = BatchTable
