"""The choice between A_min and A_ell by how wide the intervals are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from evenstep.errors import InputError
from evenstep.scheduling.a_ell import AEll
from evenstep.scheduling.a_min import AMin
from evenstep.scheduling.order import QueueOrder
from evenstep.scheduling.view import BatchDecision, Belief, EngineView

#: Below this ratio of the bounds A_ell has the better competitive ratio on outputs of two lengths, above it A_min.
THRESHOLD: float = (3.0 - math.sqrt(5.0)) / 2.0


@dataclass(frozen=True, slots=True)
class AlphaSwitch:
    """A_ell where the bounds are far apart, A_min where they are close.

    Args:
        alpha: ratio of the lower to the upper bound in the workload, 0 < alpha <= 1; below (3 - sqrt 5) / 2 it is A_ell.

    Raises:
        InputError: a ratio out of range.

    Source: Interval scheduling sec. 5.1. The bounds it compares are those of outputs of two lengths.
    """

    alpha: float = 1.0
    believes: ClassVar[Belief] = "bounds"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.alpha) and 0 < self.alpha <= 1):
            raise InputError("alpha-switch", "alpha", self.alpha, "a number above 0, at most 1")

    @property
    def order(self) -> QueueOrder:
        """That of the policy it chooses."""
        return AEll.order if self.alpha < THRESHOLD else AMin().order

    def form_batch(self, view: EngineView) -> BatchDecision:
        chosen = AEll() if self.alpha < THRESHOLD else AMin()
        return chosen.form_batch(view)


policy = AlphaSwitch
