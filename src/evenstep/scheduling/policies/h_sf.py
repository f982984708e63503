"""H-SF: knows output lengths in hindsight, and admits the shortest request first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenstep.scheduling.intervals.reserving import ReservedWork as Work
from evenstep.scheduling.intervals.reserving import form_reserved, highest
from evenstep.scheduling.order import QueueOrder
from evenstep.scheduling.rules import Ruled, rule
from evenstep.scheduling.view import Belief, RuleView


@dataclass(frozen=True, slots=True)
class HindsightShortestFirst(Ruled):
    """Knows every output length, as `output_high`; admits the shortest first, until one would not fit memory to its end.

    A yardstick, not to run: a simulator shows it the true lengths instead of ``bounds``. It is not optimal. Ties go to the
    request that came first in the trace.

    Source: Interval scheduling, Algorithm 3.
    """

    order: ClassVar[QueueOrder] = QueueOrder(high=1.0)
    believes: ClassVar[Belief] = "truth"


@rule
def form_batch(view: RuleView, options: HindsightShortestFirst, work: Work) -> None:
    """Form a batch (`form_reserved`) in which requests fit to their ends by true lengths, shown as upper bounds."""
    form_reserved(view, options, work, highest, False, 1.0)


policy = HindsightShortestFirst
