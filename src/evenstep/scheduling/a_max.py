"""A_max: every request is believed to be as long as its upper bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenstep.scheduling.order import QueueOrder
from evenstep.scheduling.reserving import batch_of_reserved, highest
from evenstep.scheduling.view import BatchDecision, Belief, EngineView


@dataclass(frozen=True, slots=True)
class AMax:
    """Admits as many requests as fit to their ends if every output is as long as its upper bound; evicts nobody.

    The queue stands in order of upper bounds, ties by chance, and is taken up to the first that does not fit: with equal
    prompts that is the largest set. A request without a bound is believed to fill the memory. Bounds that are too low
    cost the request admitted last its memory.

    Source: Interval scheduling, Algorithm 1; with bounds of their own for requests, largest cardinality means the
        shortest upper bound first.
    """

    order: ClassVar[QueueOrder] = QueueOrder(high=1.0, chance=1.0)
    believes: ClassVar[Belief] = "bounds"

    def form_batch(self, view: EngineView) -> BatchDecision:
        return batch_of_reserved(view, highest)


policy = AMax
