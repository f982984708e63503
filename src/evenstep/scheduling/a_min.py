"""A_min: every request is believed to be as long as its lower bound, which evictions teach."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from evenstep.errors import InputError
from evenstep.scheduling.learning import Reading, Victim, batch_of_learned
from evenstep.scheduling.order import QueueOrder
from evenstep.scheduling.view import BatchDecision, Belief, EngineView


@dataclass(frozen=True, slots=True)
class AMin:
    """Admits by lower bounds, the lowest first, as many as fit to their ends; where memory runs out, evicts in that order.

    A request's lower bound is its own, so intervals of their own for requests (Algorithm 5) need nothing else. Ties in
    the queue and among victims are by chance: one draw for the queue and an independent one for victims, each once for a
    request. While requests keep arriving, those of high bounds wait.

    Args:
        reading: ``literal``: an eviction makes the bound what the request had produced, even where that lowers it;
            ``repaired``: a known bound is never lowered.
        victim: who gives up its memory first: the lowest ``bound`` (the paper), the one with the ``least-kv``, or the
            ``last`` admitted.
        watermark: share of the memory that admissions leave free, 0 <= watermark < 1; 0 is the paper.

    Raises:
        InputError: a watermark out of range.

    Source: Interval scheduling, Algorithms 2 and 5, eq. 3 with our reading of who has outgrown its bound (`feasible`).
    """

    reading: Reading = "literal"
    victim: Victim = "bound"
    watermark: float = 0.0
    believes: ClassVar[Belief] = "bounds"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.watermark) and 0 <= self.watermark < 1):
            raise InputError("a-min", "watermark", self.watermark, "a number from 0, below 1")

    @property
    def order(self) -> QueueOrder:
        """The lowest bound first, ties by chance."""
        return ORDERS[self.reading]

    def form_batch(self, view: EngineView) -> BatchDecision:
        return batch_of_learned(view, self.reading, self.victim, self.watermark)


#: The queue's order by reading.
ORDERS: dict[Reading, QueueOrder] = {
    "literal": QueueOrder(learned=1.0, chance=1.0), "repaired": QueueOrder(raised=1.0, chance=1.0),
}  # fmt: skip

policy = AMin
