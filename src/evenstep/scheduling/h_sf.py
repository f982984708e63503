"""H-SF: hindsight, the shortest request first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenstep.scheduling.order import QueueOrder
from evenstep.scheduling.reserving import batch_of_reserved, highest
from evenstep.scheduling.view import BatchDecision, Belief, EngineView


@dataclass(frozen=True, slots=True)
class HindsightShortestFirst:
    """Knows every output length, as `output_high`, and admits the shortest first, as many as fit to their ends.

    A yardstick, no policy to run: a simulator shows it the truth, whatever ``bounds`` others believe. Ties go to the one
    that came first in the trace. It is not optimal.

    Source: Interval scheduling, Algorithm 3.
    """

    order: ClassVar[QueueOrder] = QueueOrder(high=1.0)
    believes: ClassVar[Belief] = "truth"

    def form_batch(self, view: EngineView) -> BatchDecision:
        return batch_of_reserved(view, highest)


policy = HindsightShortestFirst
