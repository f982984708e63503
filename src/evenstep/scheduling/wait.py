"""WAIT: requests of a type run once enough of them wait for prefill."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenstep.errors import InputError
from evenstep.scheduling.gated import LAST, Gates, batch_behind_gates
from evenstep.scheduling.view import BatchDecision, EngineView


@dataclass(frozen=True, slots=True)
class Wait:
    """Type j joins the next batch when at least n_j of it wait for prefill, with at most n_j requests at each stage.

    The type is the request's class. Of a type that does not join, nobody runs: those that hold memory pause with it.
    What to do at the end of a burst, after evictions and where memory runs out is ours: see `scheduling.gated`. It looks
    down the queue until every type has its threshold.

    Args:
        thresholds: n_j of each type, requests; classes beyond the last type belong to it.
        max_hold_s: a type that has stood still for so long joins in any case, seconds.

    Raises:
        InputError: no threshold, one below 1, or a time that is no number >= 0.

    Source: WAIT, Algorithm 1. `theory.wait_thresholds` solves for thresholds.
    """

    thresholds: tuple[int, ...] = (8,)
    max_hold_s: float = 1.0
    counts: ClassVar[tuple[str, ...]] = ("gates_broken",)

    def __post_init__(self) -> None:
        check_gates("wait", self.thresholds, self.max_hold_s)

    @property
    def memory_size(self) -> int:
        """A count of the breaker's acts, and a time for each type."""
        return LAST + len(self.thresholds)

    def form_batch(self, view: EngineView) -> BatchDecision:
        thresholds = np.array(self.thresholds, np.int64)
        group = np.minimum(view.request_class, thresholds.size - 1)
        return batch_behind_gates(view, Gates(thresholds, np.zeros(0, np.int64), group, self.max_hold_s))


def check_gates(where: str, thresholds: tuple[int, ...], max_hold_s: float) -> None:
    """Refuse thresholds below 1 and times that are none.

    Raises:
        InputError: naming the field.
    """
    if not thresholds or min(thresholds) < 1 or any(n != int(n) for n in thresholds):
        raise InputError(where, "thresholds", thresholds, "at least one integer, each >= 1")
    if math.isnan(max_hold_s) or max_hold_s < 0:
        raise InputError(where, "max_hold_s", max_hold_s, "a number of seconds >= 0")


policy = Wait
